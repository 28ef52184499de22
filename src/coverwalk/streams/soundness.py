"""What must hold of the arrays of a stream that came from a file, before kernels that check nothing may read them."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels.cut import MOST_LEVELS
from coverwalk._kernels.polynomial import n_features
from coverwalk._kernels.stream_state import (
    CHOICE,
    CHOICE_STEPS,
    CUT,
    DIM,
    LEFT,
    N_BINS,
    NU,
    NU_0,
    ODDS,
    ODDS_STEPS,
    PSI,
    RIDGE,
    SCALE,
    SEAT,
    TERMS,
    StreamState,
    width_of,
)
from coverwalk._sound import check_array, check_with_nan, hold
from coverwalk.streams.growth import NEVER, Growth, StreamSettings

if TYPE_CHECKING:
    from coverwalk.streams.forest_stream import ForestStream

__all__ = ["check_stream"]


def check_stream(stream: "ForestStream") -> None:
    """Raise ValueError for a stream that no rows have made."""
    settings, p = stream.settings, stream.p
    _check_settings(settings)
    K = settings.n_trees
    for name in ("p", "degree", "n_rows", "n_growths", "room", "seats", "free", "next_event", "kept_from"):
        hold(name, type(getattr(stream, name)) is int and getattr(stream, name) >= 0)
    hold("degree", stream.degree <= settings.degree)
    hold("room", stream.room >= 1 and stream.seats >= 1)
    check_array("slots", stream.slots, (K,), np.int64)
    hold("slots", sorted([*stream.slots.tolist(), stream.free]) == list(range(K + 1)))
    check_array("generation", stream.generation, (K,), np.int64)
    hold("generation", (stream.generation >= 0) & (stream.generation < 64))
    hold("names", len(stream.names) == p and all(isinstance(name, str) for name in stream.names))
    check_array("categories", stream.categories, (p,), np.bool_)
    levels = stream.levels
    hold("levels", isinstance(levels, list) and len(levels) <= p and (bool(levels) or not stream.categories.any()))
    hold("levels", all(isinstance(names, list) and all(isinstance(name, str) for name in names) for names in levels))
    hold("levels", all(bool(names) == bool(kind) for names, kind in zip(levels, stream.categories)))
    _check_rows(stream)
    check_array("masks", stream.masks, ((K + 1) * stream.room,), np.int64)
    check_array("means", stream.means, (len(stream.masks) if len(stream.means) else 0, 2 * p))
    hold("means", (stream.means[:, p:] >= 0) & (len(stream.means) > 0 or not stream.categories.any()))
    _check_state(stream.state, stream.room, stream.seats, p, n_features(stream.degree, p))
    used = np.append(stream.slots, stream.free)
    for slot in used.tolist():
        _check_tree(stream.state, slot, stream.room, stream.seats, stream.categories)


def _check_settings(settings: StreamSettings) -> None:
    names = ("n_trees", "degree", "min_rows", "n_candidates", "seed", "max_rows", "max_contexts")
    hold("settings", all(type(getattr(settings, name)) is int for name in names))
    hold("settings", all(getattr(settings, name) >= 1 for name in names if name not in ("degree", "seed")))
    hold("degree", 0 <= settings.degree <= 2)
    hold("stop", isinstance(settings.stop, float) and 0 < settings.stop < 1)
    hold("forget", isinstance(settings.forget, float) and 0 <= settings.forget < 1)
    hold("trust", isinstance(settings.trust, float) and 0 <= settings.trust <= 1)
    hold("ridges", len(settings.ridges) > 0 and all(isinstance(r, float) and 0 < r < np.inf for r in settings.ridges))


def _check_rows(stream: "ForestStream") -> None:
    """Rows up to the present one are there as long as a tree may grow from them."""
    n, settings, pending = stream.n_rows, stream.settings, stream.pending
    check_with_nan("X", stream.X, (len(stream.y), stream.p))
    codes = stream.X[:, stream.categories]
    hold("X", np.isnan(codes) | ((codes >= 0) & (codes < MOST_LEVELS) & (codes == np.floor(codes))))
    hold("X", len(stream.means) > 0 or not np.isnan(stream.X).any())
    check_array("y", stream.y, (len(stream.y),))
    hold("next_event", stream.next_event > n)
    begun = n
    if pending is not None:
        hold("pending", isinstance(pending, Growth) and all(type(number) is int for number in pending))
        hold("pending", 0 <= pending.tree < settings.n_trees and stream.next_event in pending[2:])
        hold(
            "pending", 1 <= pending.begun <= n < pending.install and pending.begun <= pending.replay <= pending.install
        )
        begun = pending.begun
    frozen = pending is None and stream.next_event == NEVER
    hold("kept_from", 0 <= stream.kept_from <= max(begun - settings.window, 0))
    hold("rows", frozen or n - stream.kept_from <= len(stream.y))


def _check_state(state: StreamState, room: int, seats: int, p: int, d: int) -> None:
    S = len(state.units)
    check_array("links", state.links, (S * room, 4), np.int64)
    check_with_nan("contexts", state.contexts, (S * room, width_of(d, p)))
    hold("contexts", ~np.isnan(np.delete(state.contexts, CUT, axis=1)))  # a cut between levels is NaN
    check_array("counts", state.counts, (S * seats, N_BINS))
    check_array("units", state.units, (S, 2, p + 1))
    hold("units", state.units[:, 1] > 0)
    hold("counts", state.counts >= 0)


def _check_tree(state: StreamState, slot: int, room: int, seats: int, categories: NDArray[np.bool_]) -> None:
    """Children stand behind their parents, and every descent ends in a context whose numbers are sound."""
    links, contexts = state.links[slot * room : (slot + 1) * room], state.contexts[slot * room : (slot + 1) * room]
    inner = np.flatnonzero(links[:, LEFT] != -1)
    left = links[inner, LEFT]
    hold("left", (left > inner) & (left + 1 < room))
    p, cut = len(categories), contexts[inner, CUT]
    hold("dim", (links[inner, DIM] >= 0) & (links[inner, DIM] < p))
    hold("cut", np.isnan(cut) == categories[links[inner, DIM]])
    d = n_features(2, p) if p else 1
    hold("terms", np.isin(links[:, TERMS], [t for t in (1, p + 1, d) if width_of(t, p) <= contexts.shape[1]]))
    hold("seat", (links[:, SEAT] >= -1) & (links[:, SEAT] < seats))
    reached = np.zeros(room, bool)
    reached[0] = True
    for k in inner.tolist():
        if reached[k]:
            reached[links[k, LEFT] : links[k, LEFT] + 2] = True
    head = contexts[reached]
    hold("odds", (head[:, [ODDS, CHOICE]] > 0) & (head[:, [ODDS_STEPS, CHOICE_STEPS]] % 1 == 0))
    hold("contexts", (head[:, NU] > NU_0 - 1) & (head[:, PSI] > 0) & (head[:, SCALE] > 0) & (head[:, RIDGE] >= 0))
