"""Old Faithful, shipped; the paper's synthetic sets, generated; and a finder for benchmark data kept elsewhere."""

import os
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import stats

from coverwalk._arrays import Floats

__all__ = ["MIXTURES", "Mixture", "data_folder", "load_faithful"]

_WEIGHTS = np.array([0.4, 0.35, 0.25])
_MEANS = np.array([[-3.0, -2.0], [0.0, 2.5], [3.5, -0.5]])
_COVARIANCES = np.array([[[1.0, 0.6], [0.6, 1.2]], [[0.8, -0.5], [-0.5, 0.9]], [[0.5, 0.2], [0.2, 0.3]]])
_BOXES = np.array([[[-4.0, 0.0], [-3.0, 0.0]], [[-1.0, 3.0], [-1.0, 3.0]], [[1.5, 5.0], [-2.5, 0.5]]])
_ANGLE_WEIGHTS = np.array([0.5, 0.3, 0.2])
_ANGLE_MEANS = np.array([0.0, 2 * np.pi / 3, 4 * np.pi / 3])
_ANGLE_DEVIATIONS = np.array([0.5, 0.5, 0.8])
_RING_NOISE = 0.2


class Mixture(NamedTuple):
    """A known distribution of (x, y) in the plane: how to draw from it, and its own log density of y given x."""

    make: Callable[[int, int], tuple[Floats, Floats]]  # n, seed -> x (n, 1), y (n,)
    log_density: Callable[[Floats, Floats], Floats]  # x (n, 1), y (n,) -> (n,)


def load_faithful() -> tuple[Floats, Floats]:
    """Old Faithful: the duration of an eruption, and the waiting time to the next, in minutes.

    Returns
    -------
    X : ndarray of shape (272, 1)
        Durations.
    y : ndarray of shape (272,)
        Waiting times.

    Examples
    --------
    >>> x, y = load_faithful()
    >>> x.shape, y.shape
    ((272, 1), (272,))
    """
    with files("coverwalk").joinpath("data/faithful.csv").open() as rows:
        table = np.loadtxt(rows, delimiter=",", skiprows=1)
    return table[:, :1], table[:, 1]


def make_gaussmix(n: int, seed: int = 0) -> tuple[Floats, Floats]:
    """Three correlated Gaussians in the plane; the first coordinate is x.

    >>> x, y = make_gaussmix(10_000)
    >>> round(float(-gaussmix_log_density(x, y).mean()), 1)
    1.2
    """
    rng = np.random.default_rng(seed)
    part = rng.choice(3, size=n, p=_WEIGHTS)
    z = _MEANS[part] + np.einsum("nij,nj->ni", np.linalg.cholesky(_COVARIANCES)[part], rng.standard_normal((n, 2)))
    return z[:, :1].copy(), z[:, 1].copy()


def gaussmix_log_density(x: Floats, y: Floats) -> Floats:
    """The true log density of y given x of the Gaussian mixture."""
    z = np.column_stack([x, y])
    parts = list(zip(_WEIGHTS, _MEANS, _COVARIANCES))
    joint = sum(w * stats.multivariate_normal(m, S).pdf(z) for w, m, S in parts)
    marginal = sum(w * stats.norm(m[0], S[0, 0] ** 0.5).pdf(z[:, 0]) for w, m, S in parts)
    return np.asarray(np.log(joint) - np.log(marginal))


def make_unifmix(n: int, seed: int = 0) -> tuple[Floats, Floats]:
    """Three overlapping boxes in the plane, uniform on each."""
    rng = np.random.default_rng(seed)
    low, high = np.moveaxis(_BOXES[rng.choice(3, size=n, p=_WEIGHTS)], 2, 0)
    z = low + (high - low) * rng.random((n, 2))
    return z[:, :1].copy(), z[:, 1].copy()


def unifmix_log_density(x: Floats, y: Floats) -> Floats:
    """The true log density of y given x of the uniform mixture; -inf outside its boxes."""
    z = np.column_stack([x, y])
    inside = (z[:, None, :] >= _BOXES[:, :, 0]) & (z[:, None, :] <= _BOXES[:, :, 1])  # (n, boxes, 2)
    density = inside / (_BOXES[:, :, 1] - _BOXES[:, :, 0])
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log((_WEIGHTS * density.prod(2)).sum(1)) - np.log((_WEIGHTS * density[:, :, 0]).sum(1)))


def make_ring(n: int, seed: int = 0) -> tuple[Floats, Floats]:
    """A Gaussian whose mean wanders over the unit ring: far from normal near the ring, nearly normal away from it."""
    rng = np.random.default_rng(seed)
    part = rng.choice(3, size=n, p=_ANGLE_WEIGHTS)
    angle = rng.normal(_ANGLE_MEANS[part], _ANGLE_DEVIATIONS[part])
    x, y = np.stack([np.cos(angle), np.sin(angle)]) + _RING_NOISE * rng.standard_normal((2, n))
    return x[:, None].copy(), y


def ring_log_density(x: Floats, y: Floats) -> Floats:
    """The true log density of y given x of the ring, its angle summed out on a fine grid."""
    # A smooth integrand that vanishes at both ends: the plain sum is as good as any quadrature.
    grid = np.linspace(-2 * np.pi, 4 * np.pi, 1801)
    parts = zip(_ANGLE_WEIGHTS, _ANGLE_MEANS, _ANGLE_DEVIATIONS)
    mass = np.asarray(sum(w * stats.norm(m, s).pdf(grid) for w, m, s in parts)) * (grid[1] - grid[0])
    log_density = np.empty(len(y))
    for start in range(0, len(y), 2048):  # in chunks: rows times grid would not fit for many rows
        rows = slice(start, start + 2048)
        px = np.exp(-0.5 * ((x[rows] - np.cos(grid)) / _RING_NOISE) ** 2) * mass
        py = stats.norm.pdf(y[rows, None], np.sin(grid), _RING_NOISE)
        log_density[rows] = np.log((px * py).sum(1)) - np.log(px.sum(1))
    return log_density


MIXTURES = {
    "gaussmix": Mixture(make_gaussmix, gaussmix_log_density),
    "unifmix": Mixture(make_unifmix, unifmix_log_density),
    "ring": Mixture(make_ring, ring_log_density),
}


def data_folder(given: str | os.PathLike[str] | None = None, *, needs: str = "") -> Path:
    """The folder of the benchmark data: as given, or else from the variable ``COVERWALK_DATA``.

    Parameters
    ----------
    given : path, optional
        A folder named by the user.
    needs : str
        A file or folder that must be inside, such as ``"uci/boston/data.csv"``.

    Returns
    -------
    Path
        The folder.
    """
    named = given or os.environ.get("COVERWALK_DATA")
    if not named:
        raise FileNotFoundError(
            "no data folder: pass one (--data FOLDER) or set the variable COVERWALK_DATA to a folder "
            "that holds uci/NAME/data.csv, robot/sensor_readings_24.csv and seq/"
        )
    folder = Path(named)
    if not (folder / needs).exists():
        raise FileNotFoundError(
            f"the data folder {folder} has no {needs or 'such folder'}: put it there, or name another"
        )
    return folder
