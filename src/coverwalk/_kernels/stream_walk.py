"""One row through every tree of a streaming forest: asked, then learned, with the update of the walk.

With L the log odds w / (1 - w) to stop in a context, w' = w phi / psi is

    L' = L + log phi - log psi_child,      log psi = log psi_child + log(1 + e^L') - log(1 + e^L),

and likewise for the choice between its two local models. Each context on the way learns by a rank-one step of its
regression: k = P f, e = y - f'theta,

    theta' = theta + k e / (1 + f'k),   P' = P - k k' / (1 + f'k),   psi' = psi + e^2 / (1 + f'k),   nu' = nu + 1,

which is Lam = ridge I + F'F and Lam theta = ridge theta_0 + F'y without ever solving for them. A stream that forgets
lets what a context knows fade by (1 - forget)^rows before each step: rows, counts and log odds alike.
"""

import math

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels._compile import kernel
from coverwalk._kernels.polynomial import features
from coverwalk._kernels.stream_local import add_count, bin_of, histogram, log_student, softplus, tail
from coverwalk._kernels.stream_mixed import MixedState, has_gap, in_cuts, learn_means, side_of, what_is_seen
from coverwalk._kernels.stream_state import (
    CHOICE,
    CUT,
    DIM,
    LEAST_SCALE,
    LEFT,
    N_BINS,
    NU,
    NU_0,
    ODDS,
    OUTLIER_ROWS,
    PSI,
    RIDGE,
    SCALE,
    SEAT,
    SEEN,
    SOFT_CHOICE,
    SOFT_ODDS,
    TERMS,
    StreamState,
    columns,
    degree_of,
    most_terms,
    scale_row,
    to_units,
)

__all__ = ["approach", "clamp", "dot", "gain", "learn_rows"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

U = np.uint64
U1, U2, U3 = U(1), U(2), U(3)


@kernel
def approach(
    state: StreamState, mixed: MixedState | None, slots: Ints, X: Floats, row: int, R: Floats, Z: Floats, at: Ints
) -> None:
    """A row in every tree's units, as cuts read it, into R (K, p), and as local models do, into Z (K, p), which is R
    where all inputs are numbers; and the leaf it comes to, into at (K,).

    All trees a step at a time: a step waits for memory, and those of several trees wait at once. What is asked
    afterwards, tree by tree, is near.
    """
    links, contexts, _, units = state
    room, K = len(links) // len(units), len(slots)
    for t in range(K):
        scale_row(X, row, units, slots[t], R[t])
        if mixed is not None:
            in_cuts(mixed, X, row, R[t])
        at[t] = slots[t] * room
    moved = True
    while moved:
        moved = False
        for t in range(K):
            i = at[t]
            left = links[i, LEFT]
            if left >= 0:
                at[t] = slots[t] * room + left + side_of(mixed, R[t, links[i, DIM]], contexts[i, CUT], i)
                moved = True
    if mixed is not None:
        for t in range(K):
            what_is_seen(mixed, R[t], at[t], Z[t])


@kernel
def clamp(z: Floats, contexts: Floats, i: int, low: int, high: int, degree: int, x: Floats, F: Floats) -> int:
    """1 where z is outside the range of context i's rows: that row of F has the features of z clamped to it; else 0."""
    c, below, above = contexts[i], U(low), U(high)
    outside = 0
    for a in range(len(z)):
        t = min(max(z[a], c[below]), c[above])
        outside |= t != z[a]
        x[a] = t
        below += U1
        above += U1
    if outside:
        features(x, degree, F[1])
    return outside


@kernel
def gain(contexts: Floats, i: int, at: int, d: int, F: Floats, q: int, k: Floats) -> float:
    """K = P f, f row q of F; returns the leverage f'P f.

    Four columns at a time, which become one vector: without a sign, places need no test for counting from the end.
    """
    c, f, row_step = contexts[i], F[q], U(d)
    for block in range(d // 4):
        a = U(4 * block)
        at_row = U(at) + a
        k0, k1, k2, k3 = c[at_row], c[at_row + U1], c[at_row + U2], c[at_row + U3]
        for j in range(1, d):
            at_row += row_step
            t = f[j]
            k0 += t * c[at_row]
            k1 += t * c[at_row + U1]
            k2 += t * c[at_row + U2]
            k3 += t * c[at_row + U3]
        k[a], k[a + U1], k[a + U2], k[a + U3] = k0, k1, k2, k3
    for column in range(d - d % 4, d):
        at_row = U(at) + U(column)
        k0 = c[at_row]
        for j in range(1, d):
            at_row += row_step
            k0 += f[j] * c[at_row]
        k[column] = k0
    h = 0.0
    for j in range(d):
        h += f[j] * k[j]
    return max(h, 0.0)


@kernel
def dot(contexts: Floats, i: int, at: int, d: int, F: Floats, q: int) -> float:
    """The polynomial whose coefficients begin at a column of context i."""
    total = 0.0
    for a in range(d):
        total += contexts[i, at + a] * F[q, a]
    return total


@kernel
def _step(contexts: Floats, i: int, at: int, d: int, k: Floats, e: float, h: float) -> None:
    """The rank-one step; k = P f, h = f'k, e = y - f'theta; at: where P begins. theta begins the columns."""
    share = 1.0 / (1.0 + h)
    theta: int = columns(d, 0)[0]
    c, row_step = contexts[i], U(d)
    for a in range(d):
        c[theta + a] += share * k[a] * e
    for block in range(d // 4):  # as in `gain`
        j = U(4 * block)
        k0, k1, k2, k3 = k[j], k[j + U1], k[j + U2], k[j + U3]
        at_row = U(at) + j
        for a in range(d):
            t = share * k[a]
            c0, c1, c2, c3 = c[at_row], c[at_row + U1], c[at_row + U2], c[at_row + U3]
            c0, c1, c2, c3 = c0 - t * k0, c1 - t * k1, c2 - t * k2, c3 - t * k3
            c[at_row], c[at_row + U1], c[at_row + U2], c[at_row + U3] = c0, c1, c2, c3
            at_row += row_step
    for column in range(d - d % 4, d):
        at_row = U(at) + U(column)
        for a in range(d):
            c[at_row] -= share * k[a] * k[column]
            at_row += row_step
    nu = contexts[i, NU] + 1.0
    contexts[i, NU] = nu
    # exact rows would let the scale fall below what y's digits tell
    contexts[i, PSI] = max(contexts[i, PSI] + share * e * e, nu * LEAST_SCALE**2)


@kernel
def _fade(contexts: Floats, i: int, at: int, d: int, fade: float) -> None:
    """Let the rows of a context count `fade` times as much; its function and its scale stay.

    No direction may become less certain than the prior: where no rows come, P would grow beyond all bounds.
    """
    most = 1.0 / fade
    for a in range(d):
        most = min(most, 1.0 / (contexts[i, RIDGE] * contexts[i, at + a * d + a]))
    most = max(most, 1.0)
    for a in range(d * d):
        contexts[i, at + a] *= most
    nu = NU_0 + fade * (contexts[i, NU] - NU_0)
    contexts[i, PSI] *= nu / contexts[i, NU]
    contexts[i, NU] = nu


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
    d_max = most_terms(contexts, p)
    theta, centre, low, high, at_P = columns(d_max, p)
    top = degree_of(d_max, p)
    Z, leaves, x, F, k = np.empty((K, p)), np.empty(K, np.int64), np.empty(p), np.empty((2, d_max)), np.empty(d_max)
    log_phi, fades, path, trees = np.empty(room), np.empty(room), np.empty(room, np.int64), np.empty(K)
    R = Z if mixed is None else np.empty((K, p))
    for row in range(first, last):
        if mixed is None and has_gap(X, row):
            return row
        approach(state, mixed, slots, X, row, R, Z, leaves)
        for t in range(K):
            slot, z = slots[t], Z[t]
            base = slot * room
            target = to_units(y[row], units[slot, 0, p], units[slot, 1, p])
            features(z, top, F[0])
            i, depth = base, 0
            while True:
                d = links[i, TERMS]
                q = clamp(z, contexts, i, low, high, top, x, F)
                h = gain(contexts, i, at_P, d, F, q, k)
                e = target - dot(contexts, i, theta, d_max, F, q)
                log_t = log_student(e, contexts[i, NU], contexts[i, PSI] * (1.0 + h))
                if links[i, SEAT] < 0:
                    log_phi[depth] = log_t
                else:
                    seat = slot * seats + links[i, SEAT]
                    scale = contexts[i, SCALE]
                    r = (target - dot(contexts, i, centre, d_max, F, q)) / scale
                    log_h = math.log(histogram(counts, seat, contexts[i, NU] - NU_0, r, 0.0) / scale)
                    odds = contexts[i, CHOICE] + log_t - log_h
                    soft = softplus(odds)
                    log_phi[depth] = log_h + soft - contexts[i, SOFT_CHOICE]
                    if learn:
                        if forget > 0.0:
                            fade = (1.0 - forget) ** (now + row - first + 1 - contexts[i, SEEN])
                            odds = fade * contexts[i, CHOICE] + log_t - log_h
                            soft = softplus(odds)
                            for b in range(N_BINS):
                                counts[seat, b] *= fade
                        contexts[i, CHOICE], contexts[i, SOFT_CHOICE] = odds, soft
                        b = bin_of(r)
                        if b >= 0:
                            add_count(counts, seat, b, 1.0)
                if learn:
                    fade = 1.0
                    if forget > 0.0:
                        fade = (1.0 - forget) ** (now + row - first + 1 - contexts[i, SEEN])
                        _fade(contexts, i, at_P, d, fade)
                    contexts[i, SEEN] = now + row - first + 1
                    fades[depth] = fade
                    if q == 1 or fade < 1.0:
                        h = gain(contexts, i, at_P, d, F, 0, k)
                        e = target - dot(contexts, i, theta, d_max, F, 0)
                        for a in range(p):
                            contexts[i, low + a] = min(contexts[i, low + a], z[a])
                            contexts[i, high + a] = max(contexts[i, high + a], z[a])
                    _step(contexts, i, at_P, d, k, e, h)
                path[depth] = i
                left = links[i, LEFT]
                if left < 0:
                    break
                i = base + left + side_of(mixed, R[t, links[i, DIM]], contexts[i, CUT], i)
                depth += 1
            log_psi = log_phi[depth]
            for level in range(depth - 1, -1, -1):
                i = path[level]
                odds = contexts[i, ODDS] + log_phi[level] - log_psi
                soft = softplus(odds)
                step = soft - contexts[i, SOFT_ODDS]
                if learn:
                    if forget > 0.0:
                        odds = fades[level] * contexts[i, ODDS] + log_phi[level] - log_psi
                        soft = softplus(odds)
                    contexts[i, ODDS], contexts[i, SOFT_ODDS] = odds, soft
                log_psi += step
            n = contexts[base, NU] - NU_0 - (1.0 if learn else 0.0)
            outlier = OUTLIER_ROWS / (n + 1.0)
            log_1mo, log_o = math.log(1.0 - outlier) + log_psi, math.log(outlier * tail(target))
            log_psi = log_o + softplus(log_1mo - log_o)
            trees[t] = log_psi - math.log(units[slot, 1, p])
            if mixed is not None and learn:
                learn_means(mixed, R[t], leaves[t], forget)
        out[row] = log_pool(trees)
    return last
