"""What the schema of a stream cannot say: its rows, its growths and the trees of its slots belong together."""

from typing import Any

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
from coverwalk.files.schema import Scope, require
from coverwalk.streams.growth import NEVER

__all__ = ["check_stream"]


def check_stream(stream: Any, scope: Scope) -> None:
    """Raise SchemaError for a stream that no rows have made."""
    K, p = stream.settings.n_trees, stream.p
    require("slots", sorted([*stream.slots.tolist(), stream.free]) == list(range(K + 1)))
    levels = stream.levels
    require("levels", len(levels) <= p and (bool(levels) or not stream.categories.any()))
    require("levels", all(bool(names) == bool(kind) for names, kind in zip(levels, stream.categories)))
    _check_rows(stream)
    require("means", len(stream.means) in (0, len(stream.masks)))
    require("means", (stream.means[:, p:] >= 0) & (len(stream.means) > 0 or not stream.categories.any()))
    require("contexts", scope["width"] == width_of(n_features(stream.degree, p), p))
    contexts = np.delete(stream.state.contexts, CUT, axis=1)  # a cut between levels is NaN
    require("contexts", ~np.isnan(contexts))
    require("units", stream.state.units[:, 1] > 0)
    for slot in (*stream.slots.tolist(), stream.free):
        _check_tree(stream.state, slot, stream.room, stream.seats, stream.categories)


def _check_rows(stream: Any) -> None:
    """Rows up to the present one are there as long as a tree may grow from them."""
    n, settings, pending = stream.n_rows, stream.settings, stream.pending
    codes = stream.X[:, stream.categories]
    require("X", np.isnan(codes) | ((codes >= 0) & (codes < MOST_LEVELS) & (codes == np.floor(codes))))
    require("X", len(stream.means) > 0 or not np.isnan(stream.X).any())
    begun = n
    if pending is not None:
        require("pending", pending.tree < settings.n_trees and stream.next_event in pending[2:])
        require(
            "pending", 1 <= pending.begun <= n < pending.install and pending.begun <= pending.replay <= pending.install
        )
        begun = pending.begun
    frozen = pending is None and stream.next_event == NEVER
    require("kept_from", 0 <= stream.kept_from <= max(begun - settings.window, 0))
    require("rows", frozen or n - stream.kept_from <= len(stream.y))


def _check_tree(state: StreamState, slot: int, room: int, seats: int, categories: NDArray[np.bool_]) -> None:
    """Children stand behind their parents, and every descent ends in a context whose numbers are sound."""
    links, contexts = state.links[slot * room : (slot + 1) * room], state.contexts[slot * room : (slot + 1) * room]
    inner = np.flatnonzero(links[:, LEFT] != -1)
    left = links[inner, LEFT]
    require("left", (left > inner) & (left <= room - 2))
    p, cut = len(categories), contexts[inner, CUT]
    require("dim", (links[inner, DIM] >= 0) & (links[inner, DIM] < p))
    require("cut", np.isnan(cut) == categories[links[inner, DIM]])
    d = n_features(2, p) if p else 1
    require("terms", np.isin(links[:, TERMS], [t for t in (1, p + 1, d) if width_of(t, p) <= contexts.shape[1]]))
    require("seat", (links[:, SEAT] >= -1) & (links[:, SEAT] < seats))
    reached = np.zeros(room, bool)
    reached[0] = True
    for k in inner.tolist():
        if reached[k]:
            reached[links[k, LEFT] : links[k, LEFT] + 2] = True
    head = contexts[reached]
    require("odds", (head[:, [ODDS, CHOICE]] > 0) & (head[:, [ODDS_STEPS, CHOICE_STEPS]] % 1 == 0))
    require("contexts", (head[:, NU] > NU_0 - 1) & (head[:, PSI] > 0) & (head[:, SCALE] > 0) & (head[:, RIDGE] >= 0))
