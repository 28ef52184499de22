"""Fill a slot with a grown tree: statistics of its rows, priors downwards, left-one-out evidence upwards."""

import math

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels import stream_state as at
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.contexts import Layout, stop_weights
from coverwalk._kernels.linear_algebra import back_solve, factorise, forward_solve
from coverwalk._kernels.odds import log_mixture, odds_from_log
from coverwalk._kernels.polynomial import features, n_features
from coverwalk._kernels.regression import (
    LANES,
    LEAST_KEEP,
    add_gram,
    inverse_diagonal,
    keep_each,
    left_one_out_given,
    log_gamma_ratio,
)
from coverwalk._kernels.stream_local import bin_of, put_counts, share_of, tail
from coverwalk._kernels.stream_state import (
    LEAST_SCALE,
    N_BINS,
    NU_0,
    REACH,
    StreamState,
    columns,
    stride_of,
    top_degree,
)

__all__ = ["settle_tree"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
U = np.uint64

SEAT_ROWS = 32  # a context with fewer rows has no histogram
MANY = 8.0  # rows a feature from which on one ridge is as good as another, and the mean leverage as each row's own


@kernel
def _sum_grams(X: Floats, layout: Layout, degree: int, grams: Floats) -> None:
    """F'F of every context, from the leaves upwards."""
    d = grams.shape[1]
    for k in range(len(layout.start) - 1, -1, -1):
        left = layout.left[k]
        if left < 0:
            add_gram(X[layout.start[k] : layout.end[k]], degree, grams[k])
            continue
        for a in range(d):
            for j in range(a, d):
                grams[k, a, j] = grams[left, a, j] + grams[left + 1, a, j]


@kernel
def _put_ranges(X: Floats, layout: Layout, contexts: Floats, base: int, low: int) -> None:
    """The range of every context's rows, from the leaves upwards."""
    p = X.shape[1]
    high = low + p
    for k in range(len(layout.start) - 1, -1, -1):
        i, left = base + k, layout.left[k]
        for a in range(p):
            if left >= 0:
                j = base + left
                contexts[i, low + a] = min(contexts[j, low + a], contexts[j + 1, low + a])
                contexts[i, high + a] = max(contexts[j, high + a], contexts[j + 1, high + a])
                continue
            least, most = math.inf, -math.inf
            for q in range(layout.start[k], layout.end[k]):
                least, most = min(least, X[q, a]), max(most, X[q, a])
            contexts[i, low + a], contexts[i, high + a] = least, most


@kernel
def _solve(
    G: Floats,
    b: Floats,
    X: Floats,
    F: Floats,
    r: Floats,
    square: float,
    degree: int,
    ridge: float,
    work: tuple[Floats, ...],
    error: Floats,
    keep: Floats,
) -> float:
    """Regress r on the features of a degree; A becomes the factor, c the coefficients. Returns r'(I - H) r.

    square: r'r; F: features of all degrees.
    """
    A, c, z, lanes = work
    n, d = len(r), n_features(degree, X.shape[1])
    for a in range(d):
        for j in range(a, d):
            A[a, j] = G[a, j]
        A[a, a] += ridge
        c[a] = b[a]
    factorise(A, d)
    explained: float = forward_solve(A, d, c, 0)
    back_solve(A, d, c)
    for q in range(n):
        t = r[q]
        for a in range(d):
            t -= c[a] * F[q, a]
        error[q] = t
    if d > 1 and n < MANY * d:
        keep_each(X, degree, A, lanes, keep)
        return square - explained
    mean = 1.0
    inverse_diagonal(A, d, lanes, z)
    for a in range(d):
        mean -= (1.0 - ridge * z[a]) / n
    for q in range(n):
        keep[q] = max(mean, LEAST_KEEP)
    return square - explained


@kernel
def _put_regression(A: Floats, d: int, context: Floats, M: int, centre: int, z: Floats) -> None:
    """[P theta] into a context: P = (U'U)^-1, symmetric to the last bit, and the coefficients, which are its centre."""
    stride = stride_of(d)
    for a in range(d):
        for j in range(d):
            z[j] = 0.0
        z[a] = 1.0
        forward_solve(A, d, z, a)
        back_solve(A, d, z)
        for j in range(a + 1):
            context[M + a * stride + j] = z[j]
            context[M + j * stride + a] = z[j]
        context[M + a * stride + d] = context[centre + a]
        for j in range(d + 1, stride):
            context[M + a * stride + j] = 0.0


@kernel
def _count(e: Floats, scale: float, bins: Floats, seat: np.uint64, cells: Floats, heights: Floats) -> float:
    """Count residuals in the histogram that begins at place `seat`; returns their left-one-out log evidence.

    That of a row is the density that `histogram` would have without it. cells, heights (N_BINS,): room to work.
    """
    n, unit = len(e), 1.0 / scale
    for b in range(N_BINS):
        cells[b], heights[b] = 0.0, -1.0
    for q in range(n):
        b = bin_of(e[q] * unit)
        if b >= 0:
            cells[b] += 1.0
    put_counts(cells, bins, seat)
    inside = bins[seat]
    outside, total, product = n - inside, -n * math.log(scale * (n + 1.0)), 1.0
    for q in range(n):
        t = e[q] * unit
        b = bin_of(t)
        if b < 0:
            product *= outside * tail(t)
        else:
            if heights[b] < 0.0:
                heights[b] = inside * (0.5 / REACH) * share_of(bins, seat, b, 1.0)
            product *= heights[b] + (outside + 1.0) * tail(t)
        if product < 1e-200 or product > 1e200 or q == n - 1:
            total += math.log(product)
            product = 1.0
    return total


@kernel
def settle_tree(
    state: StreamState,
    slot: int,
    tree: tuple[Ints, Ints, Floats],
    layout: Layout,
    X: Floats,
    y: Floats,
    ridges: Floats,
    stop: float,
    trust: float,
    now: float,
) -> None:
    """Settle a tree (dim, parent, cut) with rows X (n, p), y (n,), sorted by leaf and in its units, in a slot.

    trust: the share of the rows' left-one-out evidence that the odds to stop start from; now: rows that have come.
    """
    links, contexts, counts, units = state
    dim, parent, tree_cut = tree
    N, S, p = len(dim), len(units), X.shape[1]
    room, seats = len(links) // S, len(counts) // S
    top = top_degree(contexts, p)
    d_max, bins = n_features(top, p), counts.reshape(-1)
    places = columns(d_max, p)
    centre, low, M = int(places[0]), int(places[1]), int(places[3])
    base, seat = slot * room, 0
    n_rows, L = len(y), len(ridges)
    F, grams = np.empty((n_rows, d_max)), np.zeros((N, d_max, d_max))
    for q in range(n_rows):
        features(X[q], top, F[q])
    _sum_grams(X, layout, top, grams)
    A, best_A = np.empty((d_max, d_max)), np.empty((d_max, d_max))
    b, c, best_c, z = np.empty(d_max), np.empty(d_max), np.empty(d_max), np.empty(d_max)
    lanes, cells, heights = np.empty((d_max + 1, LANES)), np.empty(N_BINS), np.empty(N_BINS)
    r, loo = y.copy(), np.empty(n_rows)
    error, keep, best_error, best_keep = np.empty(n_rows), np.empty(n_rows), np.empty(n_rows), np.empty(n_rows)
    log_phi, s2 = np.empty(N), np.empty(N)
    s2_root = LEAST_SCALE**2
    for q in range(n_rows):
        s2_root += y[q] * y[q] / n_rows
    _put_ranges(X, layout, contexts, base, low)
    for k in range(N):
        i, s, e = base + k, layout.start[k], layout.end[k]
        n = e - s
        above = s2_root if k == 0 else s2[parent[k]]
        links[i, at.LEFT], links[i, at.DIM], links[i, at.SEAT], contexts[i, at.CUT] = (
            layout.left[k],
            dim[k],
            -1,
            tree_cut[k],
        )
        square = 0.0
        for a in range(d_max):
            b[a] = 0.0
        for q in range(s, e):
            square += r[q] * r[q]
            for a in range(d_max):
                b[a] += r[q] * F[q, a]
        nu = NU_0 + n
        log_ratio = log_gamma_ratio(nu)
        best, best_psi, best_degree, best_ridge = -math.inf, 1.0, 0, 1.0
        for trial in range(top + L):  # every degree with the middle ridge, then the best one with the others
            l, degree = L // 2, min(trial, top)
            if trial > top:
                l, degree = (trial - top - 1) + (1 if trial - top - 1 >= L // 2 else 0), best_degree
                if degree == 0 or n >= MANY * n_features(degree, p):
                    break
            rest = _solve(grams[k], b, X[s:e], F[s:e], r[s:e], square, degree, ridges[l], (A, c, z, lanes), error, keep)
            psi = max(NU_0 * above + max(rest, 0.0), nu * LEAST_SCALE**2)
            score = left_one_out_given(error[:n], keep[:n], nu, psi, log_ratio)
            if score > best:  # what was best before is written over next
                best, best_psi, best_degree, best_ridge = score, psi, degree, ridges[l]
                A, best_A, c, best_c = best_A, A, best_c, c
                error, best_error, keep, best_keep = best_error, error, best_keep, keep
        best_d = n_features(best_degree, p)
        for a in range(best_d, d_max):
            best_c[a] = 0.0
        for a in range(d_max):
            above_a = contexts[base + parent[k], centre + a] if k > 0 else 0.0
            contexts[i, centre + a] = above_a + best_c[a]
        _put_regression(best_A, best_d, contexts[i], M, centre, z)
        square = LEAST_SCALE**2
        for q in range(n):
            r[s + q] = best_error[q]
            loo[s + q] = best_error[q] / best_keep[q]
            square += loo[s + q] ** 2 / n
        s2[k] = best_psi / nu
        links[i, at.TERMS] = best_d
        contexts[i, at.NU], contexts[i, at.PSI], contexts[i, at.RIDGE], contexts[i, at.SEEN] = (
            nu,
            best_psi,
            best_ridge,
            now,
        )
        contexts[i, at.SCALE], log_choice, log_phi[k] = math.sqrt(square), 0.0, best
        if n >= SEAT_ROWS and seat < seats:
            links[i, at.SEAT] = seat
            score = _count(loo[s:e], contexts[i, at.SCALE], bins, U((slot * seats + seat) * N_BINS), cells, heights)
            seat += 1
            log_choice = best - score
            log_phi[k] = log_mixture(0.0, score, best)
        contexts[i, at.CHOICE], contexts[i, at.CHOICE_STEPS] = odds_from_log(log_choice)
    for k in range(N):
        log_phi[k] *= trust
    log_stop, log_go = np.empty(N), np.empty(N)
    stop_weights(layout.left, log_phi, stop, log_stop, log_go)
    for k in range(N):
        log_odds = log_stop[k] - log_go[k] if layout.left[k] >= 0 else 0.0
        contexts[base + k, at.ODDS], contexts[base + k, at.ODDS_STEPS] = odds_from_log(log_odds)
