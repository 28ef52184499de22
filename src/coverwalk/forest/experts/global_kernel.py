"""The whole space as a context of its own beside the trees, where inputs are few: a kernel density of y given x.

Its two bandwidths are those of the best leave-one-out density. Its predictions are tabulated at the nodes of a grid
over x, half a bandwidth apart, and are linear between nodes: 2^p components predict a row, however many were learned.
"""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels.forest.global_kernel import judge_bandwidths, node_masses, surround
from coverwalk._kernels.forest.kernel_density import BASE_WEIGHT, BASE_WIDTH
from coverwalk.distributions.shapes import KERNELS, Shapes
from coverwalk.files.schema import Array, Object, Real, Scope, require, stored

MAX_INPUTS = 2
N_JUDGES, N_ROWS = 500, 2000  # rows that choose the bandwidths, and rows they are judged by
COARSE = 2.0 ** np.arange(1.0, -5.0, -0.5)  # bandwidths in n^(-1 / (5 + p)), the rate of a density in p + 1 dimensions
FINE = 2.0 ** np.array([0.3, 0.15, 0.0, -0.15, -0.3])  # about the best of these
REACH_X, REACH_Y = 5.0, 6.0  # in units of x and of y, where nodes and places of y end
MAX_NODES = {1: 257, 2: 33}  # on an axis
MAX_PLACES = 512  # of y
NO_WEIGHT = np.empty(0)
MIN_MASS = 1e-6  # places of y with less are left out


def _check_grid(state: Any, scope: Scope) -> None:
    require("inputs of the kernel", 1 <= scope["p"] <= MAX_INPUTS)
    require("nodes", np.prod(state.size) == len(state.shapes) and (state.shapes.kind == KERNELS).all())


@stored(check=lambda state, scope: _check_grid(state, scope))
@dataclass(frozen=True)
class KernelContext:
    """Fitted to rows X (n, p) and y (n,) in units of order one.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 1))
    >>> context = KernelContext.fit(X, X[:, 0] + 0.1 * rng.normal(size=500))
    >>> node, weight = context.nodes_of(np.array([[0.5]]))
    >>> bool(abs(weight[0] @ context.shapes.mean[node[0]] - 0.5) < 0.1)
    True
    """

    hx: Annotated[float, Real(above=0)]
    hy: Annotated[float, Real(above=0)]
    low: Annotated[Floats, Array(float, "p")]  # (p,) of the nodes
    step: Annotated[Floats, Array(float, "p", above=0)]  # (p,)
    size: Annotated[Ints, Array(np.int64, "p", low=2, high=max(MAX_NODES.values()))]  # (p,)
    shapes: Annotated[Shapes, Object(Shapes)]  # one a node

    @classmethod
    def fit(cls, X: Floats, y: Floats, weight: Floats = NO_WEIGHT) -> "KernelContext":
        """From rows in an order that does not matter, with weights of mean one, or none."""
        p = X.shape[1]
        low, high = np.maximum(X.min(axis=0), -REACH_X), np.minimum(X.max(axis=0), REACH_X)
        low, high = np.minimum(low, REACH_X), np.maximum(high, -REACH_X)
        X = np.clip(X, low, high)
        y_low, y_high = max(float(y.min()), -REACH_Y), min(float(y.max()), REACH_Y)
        min_x = 2.0 * float((high - low).max()) / (MAX_NODES[p] - 1)
        min_y = 2.0 * max(y_high - y_low, 0.0) / (MAX_PLACES - 1)
        hx, hy = _bandwidths(X, y, max(min_x, 1e-3), max(min_y, 1e-3))
        size = np.maximum(np.ceil((high - low) / (0.5 * hx) - 1e-9).astype(np.int64) + 1, 2)
        step = np.maximum((high - low) / (size - 1), 1e-12)
        n_places = max(int(np.ceil((y_high - y_low) / (0.5 * hy))), 0) + 2
        mass = np.zeros((int(size.prod()), 1 + n_places))
        node_masses(X, y, weight, (low, step, size), hx, (y_low, 0.5 * hy, n_places), mass)
        places: Floats = y_low + 0.5 * hy * np.arange(n_places, dtype=np.float64)
        return cls(hx, hy, low, step, size, _shapes(mass, places, hy))

    def nodes_of(self, X: Floats) -> tuple[Ints, Floats]:
        """The nodes around each row (n, 2^p), indices of `shapes`, and their weights, which sum to one."""
        node, weight = (np.empty((len(X), 2 ** X.shape[1]), dtype) for dtype in (np.int64, np.float64))
        surround(X, self.low, self.step, self.size, node, weight)
        return node, weight


def _bandwidths(X: Floats, y: Floats, min_x: float, min_y: float) -> tuple[float, float]:
    """Of x and of y, by leave-one-out log densities of some rows; where rows are many, judged on fewer and scaled."""
    rate = -1.0 / (5 + X.shape[1])
    few, n = slice(0, N_ROWS), min(len(y), N_ROWS)
    hx = hy = n**rate
    for grid in (COARSE, FINE):
        u, v = hx * grid, hy * grid
        score = np.zeros((len(u), len(v)))
        judge_bandwidths(X[few], y[few], min(n, N_JUDGES), u, v, score)
        a, b = np.unravel_index(np.argmax(score), score.shape)
        hx, hy = float(u[a]), float(v[b])
    shrink = (len(y) / n) ** rate
    return max(shrink * hx, min_x), max(shrink * hy, min_y)


def _shapes(mass: Floats, places: Floats, hy: float) -> Shapes:
    """One mixture of normals a node: three wide ones of the base, and those at the places of y."""
    # Sharing a y between two places adds this much to its variance on average, which the kernels give back.
    width = np.sqrt(hy**2 - (0.5 * hy) ** 2 / 6.0)
    atoms = np.hstack([mass[:, :1] * BASE_WEIGHT, mass[:, 1:]])
    atoms[:, 3:][atoms[:, 3:] < MIN_MASS] = 0.0
    atoms /= atoms.sum(axis=1, keepdims=True)
    owner, atom = np.nonzero(atoms)
    start = np.concatenate([[0], np.cumsum((atoms > 0).sum(axis=1))])
    centre = np.concatenate([np.zeros(3), places])[atom]
    widths = np.concatenate([BASE_WIDTH, np.full(len(places), width)])[atom]
    kind, df = np.full(len(mass), KERNELS, np.int32), np.full(len(mass), np.nan)
    return Shapes(kind, df, start, atoms[owner, atom], centre, widths)
