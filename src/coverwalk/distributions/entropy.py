"""Entropy of rows: by adaptive quadrature that checks itself against the cdf, or sums over the values of rounded y."""

from typing import TYPE_CHECKING

import numpy as np

from coverwalk._arrays import Floats

if TYPE_CHECKING:
    from coverwalk.distributions.mixture import PredictiveDistribution

__all__ = ["row_entropy"]

_LEVELS = 0.25 ** np.arange(22, 0, -1.0)  # of panels; what lies beyond has mass 6e-14
_TOLERANCE = 1e-8  # of one piece, in nats; discontinuities are halved down to it
_MOST = 20_000  # pieces; only hundreds of histograms in one row need more
_FINE, _COARSE = np.polynomial.legendre.leggauss(12), np.polynomial.legendre.leggauss(6)
_TAIL = 1e-8  # beyond both of these quantiles nothing is summed
_MAX_VALUES = 20_000  # of a grid in a row; a finer one changes nothing
_QUANTILES = (np.arange(4096) + 0.5) / 4096  # under bounds
_INSIDE = (np.arange(256) + 0.5) / 256  # points in an opened cell


def row_entropy(row: "PredictiveDistribution") -> float:
    """The mean of -logpdf of one row."""
    rounding, latent = row.rounding, row.rounded(None)
    if rounding is None:
        return _quadrature(row)
    if rounding.limited:
        return float(-np.mean(row.logpdf(row.ppf(_QUANTILES))))
    if rounding.step:
        low, high = (float(row.ppf(q)) for q in (_TAIL, 1.0 - _TAIL))
        if high - low > _MAX_VALUES * rounding.step:
            return _quadrature(latent)
        log_density = row.logpdf(rounding.between(low, high))
        return float(-np.sum(np.exp(log_density) * log_density) * rounding.step)
    total = _quadrature(latent)
    for low, high, mass in zip(*rounding.cells(rounding.values), row.pmf(rounding.values)):
        log_density = latent.logpdf(low + (high - low) * _INSIDE)
        total += np.mean(np.exp(log_density) * log_density) * (high - low)
        total -= mass * np.log(mass) if mass > 0 else 0.0
    return float(total)


def _quadrature(row: "PredictiveDistribution") -> float:
    """The differential entropy of one row with a density, between quantiles.

    A piece is halved while two rules of Gauss disagree, or while its mass is not the difference of the cdf: so a narrow
    mode between the nodes is not missed.
    """
    edges = row.ppf(np.concatenate([_LEVELS, [0.5], 1.0 - _LEVELS[::-1]]))
    left, right = edges[:-1], edges[1:]
    total, n_pieces = 0.0, 0
    while len(left):
        n_pieces += len(left)
        middle, half = 0.5 * left + 0.5 * right, 0.5 * right - 0.5 * left
        (value, mass), (other, _) = (_integrals(row, middle, half, *rule) for rule in (_FINE, _COARSE))
        good = np.abs(value - other) < _TOLERANCE
        below, above = row._tails(np.array([left[good], right[good]]))
        inside = np.where(below[0] < 0.5, below[1] - below[0], above[0] - above[1])
        good[good] = np.abs(mass[good] - inside) < _TOLERANCE
        done = good | ~((left < middle) & (middle < right)) | (n_pieces > _MOST)
        total += value[done].sum()
        left, right = np.append(left[~done], middle[~done]), np.append(middle[~done], right[~done])
    return float(total)


def _integrals(
    row: "PredictiveDistribution", middle: Floats, half: Floats, nodes: Floats, weight: Floats
) -> tuple[Floats, Floats]:
    """The integrals of -p log p and of p over pieces (k,)."""
    log_p = row.logpdf(middle[:, None] + half[:, None] * nodes)
    with np.errstate(divide="ignore", invalid="ignore"):
        mass = np.exp(log_p + np.log(half)[:, None])  # half * p may be finite where p is not
        return np.where(mass > 0.0, -mass * log_p, 0.0) @ weight, mass @ weight
