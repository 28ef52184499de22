"""One row through every tree of a streaming forest: asked, then learned, with the update of the walk.

With g the odds w / (1 - w) to stop in a context, w' = w phi / psi is

    psi = (psi_child + g phi) / (1 + g),      g' = g phi / psi_child,

and likewise for the choice between its two local models; see `odds`. Each context on the way learns by a rank-one step
of its regression: k = P f, e = y - f'theta,

    theta' = theta + k e / (1 + f'k),   P' = P - k k' / (1 + f'k),   psi' = psi + e^2 / (1 + f'k),   nu' = nu + 1,

which is Lam = ridge I + F'F and Lam theta = ridge theta_0 + F'y without ever solving for them. A stream that forgets
lets what a context knows fade by (1 - forget)^rows before each step: rows, counts and log odds alike.
"""

import math

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels import stream_state as at
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.odds import log_mixture, log_odds, mixture, odds_from_log, updated
from coverwalk._kernels.polynomial import features, n_features
from coverwalk._kernels.prefetch import prefetch
from coverwalk._kernels.stream_local import add_count, bin_of, histogram, student, tail
from coverwalk._kernels.stream_mixed import MixedState, has_gap, in_cuts, learn_means, side_of, what_is_seen
from coverwalk._kernels.stream_state import LEAST_SCALE, N_BINS, NU_0, StreamState, columns, scale_row, to_units

__all__ = ["approach", "child_of", "clamp", "gain", "learn_row", "learn_rows", "polynomial", "room_to_work"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Place = np.uint64
# Z (K, p) a row in every tree's units; F (2 d) features of it as it is, and clamped; k (stride) what `gain` says
Work = tuple[Floats, Floats, Floats]

U = np.uint64
U0, U1, U2, U3, U4, U8 = U(0), U(1), U(2), U(3), U(4), U(8)

FAIR_POWER, FAIR_HEIGHT = -90.0, 1e-39  # densities as small as that, in units, are compared by their logarithms


@kernel
def room_to_work(K: int, p: int, d: int) -> Work:
    """Arrays that the visits of a row share."""
    return np.empty((K, p)), np.ones(2 * d), np.empty(at.stride_of(d))


@kernel
def child_of(state: StreamState, mixed: MixedState | None, base: int, i: int, R: Floats, t: int) -> int:
    """The context after i on the way of row t of R, in the slot that begins at base; -1 after a leaf."""
    left = state.links[i, at.LEFT]
    if left < 0:
        return -1
    return base + left + side_of(mixed, R[t, state.links[i, at.DIM]], state.contexts[i, at.CUT], i)


@kernel
def approach(
    state: StreamState, mixed: MixedState | None, slots: Ints, X: Floats, row: int, R: Floats, Z: Floats, leaf: Ints
) -> int:
    """A row in every tree's units, into R (K, p) as cuts read it; what the row will touch is sent for. Returns its
    longest way.

    In a mixed stream, also what local models see of it, into Z (K, p), and its leaves, into leaf (K,). Else Z is R.

    All trees a step at a time: a step waits for memory, and those of several trees wait at once.
    """
    room, K, p = len(state.links) // len(state.units), len(slots), X.shape[1]
    d = n_features(at.top_degree(state.contexts, p), p)
    flat, width, M = state.contexts.reshape(-1), U(state.contexts.shape[1]), columns(d, p)[3]
    where = np.empty(K, np.int64)
    bins, seats = state.counts.reshape(-1), len(state.counts) // len(state.units)
    for t in range(K):
        scale_row(X, row, state.units, slots[t], R[t])
        if mixed is not None:
            in_cuts(mixed, X, row, R[t])
        where[t] = slots[t] * room
    depth, moving = 0, K
    while moving > 0:
        depth, moving = depth + 1, 0
        for t in range(K):
            i = where[t]
            if i >= 0:
                terms = state.links[i, at.TERMS]
                place = U(i) * width
                last = place + M + U(terms * at.stride_of(terms))
                while place < last:
                    prefetch(flat, place)
                    place += U8
                seat = state.links[i, at.SEAT]
                if seat >= 0:
                    place = U((slots[t] * seats + seat) * N_BINS)
                    last = place + U(N_BINS)
                    while place < last:
                        prefetch(bins, place)
                        place += U8
                where[t] = child_of(state, mixed, slots[t] * room, i, R, t)
                moving += 1
                if mixed is not None and where[t] < 0:
                    leaf[t] = i
                    what_is_seen(mixed, R[t], i, Z[t])
    return depth


@kernel
def clamp(c: Floats, low: Place, p: int, Z: Floats, t: int, degree: int, F: Floats) -> Place:
    """Where in F the features of row t of Z begin, clamped to the range of p inputs that begins at low in c.

    The first d places of F are those of the row as it is.
    """
    d = U(len(F) // 2)
    high, outside = low + U(p), False
    for a in range(U(p)):
        z = Z[t, a]
        clamped = min(max(z, c[low + a]), c[high + a])
        outside |= clamped != z
        F[d + U1 + a] = clamped
    if not outside:
        return U0
    if degree == 2:
        x = F[d + U1 : d + U1 + U(p)].copy()
        features(x, degree, F[d:])
    return d


@kernel
def gain(c: Floats, M: Place, terms: Place, F: Floats, f: Place, k: Floats) -> float:
    """k = f'[P theta], the matrix at M in c and f at f in F; returns the leverage f'P f.

    Four columns at a time, which become one vector: without a sign, places need no test for counting from the end.
    """
    stride = (terms + U4) // U4 * U4
    b = U0
    while b < stride:
        place = M + b
        k0, k1, k2, k3 = c[place], c[place + U1], c[place + U2], c[place + U3]
        for j in range(U1, terms):
            place += stride
            t = F[f + j]
            k0 += t * c[place]
            k1 += t * c[place + U1]
            k2 += t * c[place + U2]
            k3 += t * c[place + U3]
        k[b], k[b + U1], k[b + U2], k[b + U3] = k0, k1, k2, k3
        b += U4
    h = k[U0]
    for j in range(U1, terms):
        h += F[f + j] * k[j]
    return max(h, 0.0)


@kernel
def polynomial(c: Floats, centre: Place, first: Place, last: Place, F: Floats, f: Place) -> float:
    """Terms first:last of the polynomial whose coefficients begin at centre in c."""
    total = 0.0
    for a in range(first, last):
        total += c[centre + a] * F[f + a]
    return total


@kernel
def _step(c: Floats, o: Place, M: Place, terms: Place, k: Floats, e: float, h: float) -> None:
    """The rank-one step of the context at o; k = P f, h = f'k, e = y - f'theta, M: where [P theta] begins."""
    share = 1.0 / (1.0 + h)
    stride = (terms + U4) // U4 * U4
    k[terms] = -e  # theta' = theta - share k (-e)
    b = U0
    while b < stride:  # as in `gain`
        k0, k1, k2, k3 = k[b], k[b + U1], k[b + U2], k[b + U3]
        place = M + b
        for a in range(terms):
            t = share * k[a]
            c0, c1, c2, c3 = c[place], c[place + U1], c[place + U2], c[place + U3]
            c0, c1, c2, c3 = c0 - t * k0, c1 - t * k1, c2 - t * k2, c3 - t * k3
            c[place], c[place + U1], c[place + U2], c[place + U3] = c0, c1, c2, c3
            place += stride
        b += U4
    nu = c[o + at.NU] + 1.0
    c[o + at.NU] = nu
    # exact rows would let the scale fall below what y's digits tell
    c[o + at.PSI] = max(c[o + at.PSI] + share * e * e, nu * LEAST_SCALE**2)


@kernel
def _fade(c: Floats, o: Place, M: Place, terms: Place, fade: float) -> None:
    """Let the rows of the context at o count `fade` times as much; its function and its scale stay.

    No direction may become less certain than the prior: where no rows come, P would grow beyond all bounds.
    """
    stride = (terms + U4) // U4 * U4
    most = 1.0 / fade
    for a in range(terms):
        most = min(most, 1.0 / (c[o + at.RIDGE] * c[M + a * stride + a]))
    most = max(most, 1.0)
    for a in range(terms):
        for b in range(terms):
            c[M + a * stride + b] *= most
    nu = NU_0 + fade * (c[o + at.NU] - NU_0)
    c[o + at.PSI] *= nu / c[o + at.NU]
    c[o + at.NU] = nu


@kernel
def _widen(c: Floats, low: Place, p: int, Z: Floats, t: int) -> None:
    """Take row t of Z into the range of p inputs that begins at low."""
    high = low + U(p)
    for a in range(U(p)):
        c[low + a] = min(c[low + a], Z[t, a])
        c[high + a] = max(c[high + a], Z[t, a])


@kernel
def _walk_back(c: Floats, path: Ints, said: Floats, depth: int, learn: bool) -> float:
    """Log density of a tree from what the contexts said, said (3, depth): root, power and histogram (or -1)."""
    psi = 0.0
    for level in range(depth - 1, -1, -1):
        o = U(path[level])
        phi, height = said[0, level] * math.exp(said[1, level]), said[2, level]
        if height > 0.0:
            g, steps = c[o + at.CHOICE], c[o + at.CHOICE_STEPS]
            if learn:
                c[o + at.CHOICE], c[o + at.CHOICE_STEPS] = updated(g, steps, phi / height)
            phi = mixture(g, steps, height, phi)
        if level == depth - 1:
            psi = phi
            continue
        g, steps = c[o + at.ODDS], c[o + at.ODDS_STEPS]
        if learn:
            c[o + at.ODDS], c[o + at.ODDS_STEPS] = updated(g, steps, phi / psi)
        psi = mixture(g, steps, psi, phi)
    return math.log(psi)


@kernel
def _walk_back_in_logs(c: Floats, path: Ints, said: Floats, depth: int, learn: bool, fades: Floats) -> float:
    """As `_walk_back`, where densities are too small for it or odds fade."""
    log_psi = 0.0
    for level in range(depth - 1, -1, -1):
        o = U(path[level])
        log_phi, height = math.log(said[0, level]) + said[1, level], said[2, level]
        if height > 0.0:
            log_h, log_g = math.log(height), log_odds(c[o + at.CHOICE], c[o + at.CHOICE_STEPS])
            log_t = log_phi
            log_phi = log_mixture(log_g, log_h, log_t)
            if learn:
                c[o + at.CHOICE], c[o + at.CHOICE_STEPS] = odds_from_log(fades[level] * log_g + log_t - log_h)
        if level == depth - 1:
            log_psi = log_phi
            continue
        log_g = log_odds(c[o + at.ODDS], c[o + at.ODDS_STEPS])
        if learn:
            c[o + at.ODDS], c[o + at.ODDS_STEPS] = odds_from_log(fades[level] * log_g + log_phi - log_psi)
        log_psi = log_mixture(log_g, log_psi, log_phi)
    return log_psi


@kernel
def log_pool(log_density: Floats) -> float:
    """Log of the mean density of the trees."""
    high = -math.inf
    for t in range(len(log_density)):
        high = max(high, log_density[t])
    total = 0.0
    for t in range(len(log_density)):
        total += math.exp(log_density[t] - high)
    return high + math.log(total / len(log_density))


@kernel
def learn_rows(
    state: StreamState,
    mixed: MixedState | None,
    slots: Ints,
    X: Floats,
    y: Floats,
    first: int,
    last: int,
    now: int,
    forget: float,
    learn: bool,
    out: Floats,
) -> int:
    """Ask rows first:last, and learn each where ``learn``, in the trees that live in these slots; fills out (n,).

    Returns the row with the first missing value, where the stream is one of numbers alone; else last.

    The log density of row i is that before it was learned. now: rows that came before ``first``; forget: the share of
    what is known that is given up with each row.
    """
    links, contexts, counts, units = state
    K, S, p = len(slots), len(units), X.shape[1]
    room, seats = len(links) // S, len(counts) // S
    top = at.top_degree(contexts, p)
    d = n_features(top, p)
    c, bins, width = contexts.reshape(-1), counts.reshape(-1), U(contexts.shape[1])
    centre, low, _, M = columns(d, p)
    Z, F, k = room_to_work(K, p, d)
    R, leaf = Z if mixed is None else np.empty((K, p)), np.empty(K, np.int64)
    path, said, fades, trees = np.empty(0, np.int64), np.empty((3, 0)), np.empty(0), np.empty(K)
    for row in range(first, last):
        if mixed is None and has_gap(X, row):
            return row
        way = approach(state, mixed, slots, X, row, R, Z, leaf)
        if way > len(path):
            path, said, fades = np.empty(2 * way, np.int64), np.empty((3, 2 * way)), np.empty(2 * way)
        for t in range(K):
            slot = slots[t]
            base = slot * room
            target = to_units(y[row], units[slot, 0, p], units[slot, 1, p])
            features(Z[t], top, F)
            i, depth, fair = base, 0, forget == 0.0
            outlier = at.OUTLIER_ROWS / (contexts[base, at.NU] - NU_0 + 1.0)
            while i >= 0:
                o, terms, seat = U(i) * width, U(links[i, at.TERMS]), links[i, at.SEAT]
                path[depth] = o
                f = clamp(c, o + low, p, Z, t, top, F)
                h = gain(c, o + M, terms, F, f, k)
                rest = polynomial(c, o + centre, terms, U(d), F, f)
                e = target - (k[terms] + rest)
                said[0, depth], power = student(e, c[o + at.NU], c[o + at.PSI] * (1.0 + h))
                said[1, depth], said[2, depth] = power, -1.0
                fair = fair and power > FAIR_POWER
                fade = 1.0
                if forget > 0.0:
                    fade = (1.0 - forget) ** (now + row - first + 1 - c[o + at.SEEN])
                fades[depth] = fade
                if seat >= 0:
                    s, unit = U((slot * seats + seat) * N_BINS), 1.0 / c[o + at.SCALE]
                    r = (target - (polynomial(c, o + centre, U0, terms, F, f) + rest)) * unit
                    height = histogram(bins, s, c[o + at.NU] - NU_0, r) * unit
                    said[2, depth] = height
                    fair = fair and height > FAIR_HEIGHT
                    if learn:
                        if fade < 1.0:
                            for b in range(U(N_BINS)):
                                bins[s + b] *= fade
                        b = bin_of(r)
                        if b >= 0:
                            add_count(bins, s, b, 1.0)
                if learn:
                    if fade < 1.0:
                        _fade(c, o, o + M, terms, fade)
                    c[o + at.SEEN] = now + row - first + 1
                    if f > U0 or fade < 1.0:
                        h = gain(c, o + M, terms, F, U0, k)
                        e = target - (k[terms] + polynomial(c, o + centre, terms, U(d), F, U0))
                    if f > U0:
                        _widen(c, o + low, p, Z, t)
                    _step(c, o, o + M, terms, k, e, h)
                depth += 1
                i = child_of(state, mixed, base, i, R, t)
            if fair:
                log_psi = _walk_back(c, path, said, depth, learn)
            else:
                log_psi = _walk_back_in_logs(c, path, said, depth, learn, fades)
            trees[t] = log_mixture(math.log(outlier / (1.0 - outlier)), log_psi, math.log(tail(target))) - math.log(
                units[slot, 1, p]
            )
            if mixed is not None and learn:
                learn_means(mixed, R[t], leaf[t], forget)
        out[row] = log_pool(trees)
    return last


@kernel
def learn_row(
    links: Ints,
    contexts: Floats,
    counts: Floats,
    units: Floats,
    mixed: MixedState | None,
    slots: Ints,
    X: Floats,
    y: float,
    now: int,
    forget: float,
) -> float:
    """Learn one row X (1, p); returns the log density it had before. A stream calls it for every row.

    NaN, and nothing is learned, where a value is missing and the stream is one of numbers alone.
    The state comes as its arrays: to take a named tuple apart takes longer than to visit some contexts.
    """
    state, out = StreamState(links, contexts, counts, units), np.full(1, math.nan)
    learn_rows(state, mixed, slots, X, np.full(1, y), 0, 1, now, forget, True, out)
    return out[0]
