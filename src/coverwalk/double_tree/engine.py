"""The double tree in its users' units: running scale, growing arrays, kernels. A file holds its rows alone."""

from typing import Any, Self

import numpy as np

from coverwalk._arrays import Floats
from coverwalk._kernels.distributions.real_line import CORE
from coverwalk._kernels.double_tree import state as at
from coverwalk._kernels.double_tree import walk
from coverwalk._kernels.double_tree.cells import component_weights
from coverwalk._kernels.double_tree.normal_wishart import MEAN
from coverwalk._kernels.double_tree.state import Settings, copied, grow, new_state, widened
from coverwalk._kernels.forest.scaling import FARTHEST
from coverwalk.files.schema import Array, Flag, Maybe, Object, Schema, Scope, Whole, require
from coverwalk.locks import MANY_ROWS, twin
from coverwalk.preparation.scaling import Scaling, units_of

MAX_BYTES, PER_BYTE = 2**28, 256  # that a model from a file may take, beside a multiple of the bytes of its rows


def _output_units(Y: Floats, y_depth: int) -> Scaling:
    """Units of the outputs. Of a column of n > 1 equal values: 1/n of its size, so that what is not yet known of its
    scale pulls less and less, with the value in the middle of a finest cell, not on the edge that every halving shares.
    """
    n, q = Y.shape
    units = units_of(Y)
    constant = (n > 1) & (Y.min(axis=0) == Y.max(axis=0))
    scale = np.where(constant, np.maximum(units.scale / n, np.finfo(np.float64).tiny), units.scale)
    half_a_cell = CORE / 0.75 * 2.0 ** -(y_depth // q)  # the core, 2 CORE wide, has 3/4 of the cells
    return Scaling(np.where(constant, units.centre - half_a_cell * scale, units.centre), scale, squash=False)


def _scale_of(X: Floats) -> Floats:
    """Units of the inputs, from the values that are there."""
    missing = np.isnan(X)
    if not missing.any():
        return units_of(X).scale
    return np.array([units_of(X[~missing[:, a], a, None]).scale[0] for a in range(X.shape[1])])


def _check(engine: Any, scope: Scope) -> None:
    p, q = scope["p"], scope["q"]
    require("q", q >= 1)
    require("units", not engine.units.squash)
    require("nu0", engine.settings.nu0 > q - 1)
    require("rows", len(engine.Z) <= 2**31 - 8)
    require("missing values", not engine.missing or p % 2 == 0)
    scope["inputs"] = p // 2 if engine.missing else p


class DoubleTreeEngine:
    """Learns and predicts rows X (n, p), Y (n, q) of finite numbers; the caller checks them.

    NaN in X is a missing value. It lies in no box, and right of every split on its input; from the first one on each
    input has a second one beside it, 1 where it is missing and 0 where it is not, which is split like all others.
    """

    _schema = Schema(
        settings=Object(Settings),
        settle=Whole(0),
        units=Object(Scaling, p="q"),
        missing=Flag(),
        x_scale=Array(float, "p", above=0, any_unit=True),
        X=Array(float, "n_rows", "p", nan=True, any_unit=True),
        Z=Array(float, "n_rows", "q", low=-FARTHEST, high=FARTHEST),
        _early_y=Maybe(Array(float, "n_rows", "q", any_unit=True)),
        check=_check,
    )

    def __init__(self, settings: Settings, settle: int, p: int, q: int) -> None:
        self.settings, self.settle = settings, settle
        self.missing = False
        self._early_y: Floats | None = np.empty((0, q))  # as they came, until the units are settled
        self._set_units(units_of(np.empty((0, q))), np.ones(p))

    def _set_units(self, units: Scaling, x_scale: Floats) -> None:
        self.units = units
        self.state = new_state(len(units.scale), self.settings, x_scale)
        self._learn_in_units(np.empty((0, len(x_scale))), np.empty((0, len(units.scale))))  # makes the root

    def learn(self, X: Floats, Y: Floats) -> Floats:
        """Learn the rows in order; returns the log density (n,) of each before it was learned."""
        if not self.missing and np.isnan(X).any():
            self._take_missing(X.shape[1])
        X = self._inputs(X)
        log_psi = np.empty(len(X))
        start = 0
        while start < len(X):
            end = len(X)
            if self._early_y is not None:
                end = min(end, start + (1 << self.n_rows.bit_length()) - self.n_rows)  # units are set at powers of two
            log_psi[start:end] = self._learn_in_units(X[start:end], self.units.forward(Y[start:end]))
            log_psi[start:end] -= self.units.log_scale
            if self._early_y is not None:
                self._early_y = np.vstack([self._early_y, Y[start:end]])
                self._reset_units(self._early_y)
            start = end
        return log_psi

    def wants_copy(self, n: int) -> bool:
        """Whether n rows are enough to learn them in a copy: then it costs less than they do."""
        return n >= max(MANY_ROWS, self.n_rows // 16)

    def _take_missing(self, p: int) -> None:
        self.missing = True
        self.state = widened(self.state, p)

    def _inputs(self, X: Floats) -> Floats:
        """X, with what says where values are missing beside it if some were."""
        X = np.hstack([X, np.isnan(X)]) if self.missing else X
        return np.require(X, np.float64, ["C", "W"])  # what kernels are compiled for, and for nothing else

    def _reset_units(self, Y: Floats) -> None:
        """Set the units at a power of two of rows, and build the state again from them; let go of their Y at last.

        Earlier predictions stay as they were; later ones are those of a model that had these units from the start.
        """
        if len(Y) & (len(Y) - 1):
            return
        if len(Y) <= self.settle:
            X = self.state.row_x[: len(Y)].copy()
            self._set_units(_output_units(Y, self.settings.y_depth), _scale_of(X))
            self._learn_in_units(X, self.units.forward(Y))
        if 2 * len(Y) > self.settle:
            self._early_y = None

    def _learn_in_units(self, X: Floats, Z: Floats, max_bytes: float = np.inf) -> Floats:
        log_psi, wanted = np.empty(len(X)), np.empty(2, np.int64)
        begin, end = self.n_rows, self.n_rows + len(X)
        self.state = grow(self.state, self.settings, 0, 0, end)
        self.state.row_x[begin:end], self.state.row_z[begin:end] = X, Z
        while not walk.learn(self.state, self.settings, end, log_psi, wanted):
            self.state = grow(self.state, self.settings, int(wanted[0]), int(wanted[1]), 0)
            require("memory", sum(array.nbytes for array in self.state) <= max_bytes)
        return log_psi

    def logpdf(self, X: Floats, Y: Floats) -> Floats:
        """Log density (n,) of the rows; nothing is learned."""
        log_psi = np.empty(len(X))
        walk.logpdf(self.state, self.settings, self._inputs(X), self.units.forward(Y), log_psi)
        return log_psi - self.units.log_scale

    def component_weights(self, X: Floats) -> tuple[Floats, Floats]:
        """For each x the weight of the normals, against the tree densities, and the mean depth of stopping."""
        weight, depth = np.empty((2, len(X)))
        component_weights(self.state, self.settings, self._inputs(X), weight, depth)
        return weight, depth

    @property
    def n_rows(self) -> int:
        """How many rows were learned."""
        return int(self.state.counts[at.ROWS])

    @property
    def rows(self) -> tuple[Floats, Floats]:
        """The rows X (n, p) and Y (n, q) that were learned."""
        X = self.state.row_x[: self.n_rows]
        return X[:, : X.shape[1] // 2] if self.missing else X, self.units.backward(self.state.row_z[: self.n_rows])

    def normals(self) -> tuple[Floats, Floats, Floats]:
        """Of the normal of each context, as Student's t: degrees of freedom (m,), location and scale (m, q) of the
        outputs, each scale given the outputs before.
        """
        contexts, q = int(self.state.counts[at.CONTEXTS]), len(self.units.scale)
        xf, n = self.state.xf[:contexts], self.state.xi[:contexts, at.SEEN].astype(np.float64)
        kappa, nu = self.settings.lam + n, self.settings.nu0 + n
        pivots = xf[:, MEAN + q + np.array([k * (k + 3) // 2 for k in range(q)])]
        scale = self.units.scale * (pivots * np.sqrt((kappa + 1) / (kappa * nu))[:, None])
        return nu - q + 1, self.units.backward(xf[:, MEAN : MEAN + q]), scale

    def __deepcopy__(self, memo: Any) -> Self:
        return twin(self, state=copied(self.state))

    def __getstate__(self) -> dict[str, Any]:
        """The rows, and in which units: all else is learned again from them, to the same bits."""
        s, n = self.state, self.n_rows
        kept = {name: value for name, value in vars(self).items() if name != "state"}
        return {**kept, "x_scale": s.scale.copy(), "X": s.row_x[:n].copy(), "Z": s.row_z[:n].copy()}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        x_scale, X, Z = (np.require(kept.pop(name), np.float64, ["C", "W"]) for name in ("x_scale", "X", "Z"))
        vars(self).update(kept)
        self._set_units(self.units, x_scale)
        self._learn_in_units(X, Z, MAX_BYTES + PER_BYTE * (X.nbytes + Z.nbytes))
