"""Conditional densities with skpro's interface; needs ``pip install skpro``."""

from functools import partialmethod
from typing import Any, Self

import numpy as np
import pandas as pd

from coverwalk._arrays import Floats
from coverwalk.conditional_density import ConditionalDensity
from coverwalk.distributions.mixture import PredictiveDistribution
from coverwalk.distributions.shapes import Shapes
from coverwalk.evaluation.scores import marginals

try:
    from skpro.distributions.base import BaseDistribution
    from skpro.regression.base import BaseProbaRegressor
except ImportError as error:
    raise ImportError("this adapter needs skpro: pip install skpro") from error

__all__ = ["CoverDistribution", "CoverProbaRegressor"]


class CoverDistribution(BaseDistribution):  # type: ignore[misc]
    """Predictive distributions as a table: a row for each x, a column for each output.

    Each column is the distribution of one output. For the joint distribution of several outputs, use
    `ConditionalDensity.predict_dist`.

    Parameters
    ----------
    marginals : sequence of PredictiveDistribution
        One for each column, all with the same number of rows; or one of a single row, for a scalar distribution.
    index, columns : pd.Index, optional
        Names of the rows and columns; numbers by default.

    Examples
    --------
    >>> from coverwalk import ConditionalDensity
    >>> from coverwalk.adapters.skpro import CoverDistribution
    >>> from coverwalk.datasets import load_faithful
    >>> X, y = load_faithful()
    >>> dist = ConditionalDensity(n_estimators=4).fit(X, y).predict_dist(X[:3])
    >>> table = CoverDistribution([dist], columns=["waiting"])
    >>> table.iloc[[2, 0]].mean().shape
    (2, 1)
    """

    _tags = {  # noqa: RUF012  (skpro's way)
        "authors": ["coverwalk"],
        "capabilities:approx": ["energy", "pdfnorm"],
        "capabilities:exact": ["mean", "var", "pdf", "log_pdf", "cdf", "ppf"],
        "distr:measuretype": "continuous",
        "distr:paramtype": "nonparametric",
        "broadcast_init": "off",
    }

    def __init__(self, marginals: Any, index: Any = None, columns: Any = None) -> None:
        self.marginals = marginals
        super().__init__(index=index, columns=columns)

    def _init_shape_bc(self, index: Any = None, columns: Any = None) -> None:
        if self._columns[0].shape == ():
            self._shape: tuple[int, ...] = ()
            return
        self._shape = (len(self._columns[0]), len(self._columns))
        if index is None:
            self.index = pd.RangeIndex(self._shape[0])
        if columns is None:
            self.columns = pd.RangeIndex(self._shape[1])

    @property
    def _columns(self) -> list[PredictiveDistribution]:
        return [self.marginals] if isinstance(self.marginals, PredictiveDistribution) else list(self.marginals)

    def _iloc(self, rowidx: Any = None, colidx: Any = None) -> "CoverDistribution":
        if all(isinstance(key, int | np.integer) for key in (rowidx, colidx)):
            return self._iat(rowidx, colidx)
        rows, columns = (
            np.arange(n) if key is None else np.atleast_1d(np.arange(n)[key])
            for n, key in zip(self._shape, (rowidx, colidx))
        )
        return CoverDistribution(
            [self._columns[j][rows] for j in columns], index=self.index[rows], columns=self.columns[columns]
        )

    def _iat(self, rowidx: Any = None, colidx: Any = None) -> "CoverDistribution":
        if rowidx is None or colidx is None:
            raise ValueError("iat takes both a row and a column")
        return CoverDistribution([self._columns[int(colidx)][int(rowidx)]])

    def _each(self, name: str, x: Any) -> Any:
        """Evaluate every column at its own entries of x, which has the shape of the table."""
        x = np.asarray(x, dtype=np.float64)
        if self._shape == ():
            return np.asarray(getattr(self._columns[0], name)(x.reshape(())))[()]
        return np.hstack([getattr(marginal, name)(x[:, [j]]) for j, marginal in enumerate(self._columns)])

    _pdf = partialmethod(_each, "pdf")
    _log_pdf = partialmethod(_each, "logpdf")
    _cdf = partialmethod(_each, "cdf")

    def _ppf(self, p: Any) -> Any:
        if self._shape == ():
            return self._each("ppf", p)
        levels = np.asarray(p, dtype=np.float64)
        return np.stack([_own_quantiles(marginal, levels[:, j]) for j, marginal in enumerate(self._columns)], axis=1)

    def _moment(self, name: str) -> Any:
        if self._shape == ():
            return np.asarray(getattr(self._columns[0], name)())[()]
        return np.stack([getattr(marginal, name)() for marginal in self._columns], axis=1)

    _mean = partialmethod(_moment, "mean")
    _var = partialmethod(_moment, "var")

    def _sample(self, n_samples: int | None = None) -> Any:
        """Exact draws, seeded by NumPy's global generator as all of skpro is."""
        n = 1 if n_samples is None else n_samples
        seed = np.random.randint(2**31)  # noqa: NPY002
        draws = np.stack(
            [np.reshape(marginal.rvs(n, random_state=seed + j), (-1, n)) for j, marginal in enumerate(self._columns)],
            axis=2,
        )  # (rows, n, columns)
        if self._shape == ():
            return float(draws[0, 0, 0]) if n_samples is None else pd.DataFrame(draws[0])
        if n_samples is None:
            return pd.DataFrame(draws[:, 0], index=self.index, columns=self.columns)
        tables = [pd.DataFrame(draws[:, k], index=self.index, columns=self.columns) for k in range(n)]
        return pd.concat(tables, keys=range(n))

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Small distributions for skpro's own tests.

        Parameters
        ----------
        parameter_set : str
            Ignored.

        Returns
        -------
        list of dict
            Parameters.
        """

        def marginal(n: int) -> PredictiveDistribution:
            loc, scale = np.arange(2.0 * n), np.linspace(0.5, 2.0, 2 * n)
            weight = np.tile([0.3, 0.7], n)
            return PredictiveDistribution(
                2 * np.arange(n + 1), weight, loc, scale, np.zeros(2 * n, np.int64), Shapes.student(5.0)
            )

        return [
            {"marginals": [marginal(3), marginal(3)], "index": pd.Index([1, 2, 5]), "columns": pd.Index(["a", "b"])},
            {"marginals": [marginal(4)]},
            {"marginals": [marginal(1)[0]]},
        ]


class CoverProbaRegressor(BaseProbaRegressor):  # type: ignore[misc]
    """`ConditionalDensity` as a probabilistic regressor of skpro. Inputs may be missing, or categories: as columns of
    pandas' types `category` or `string`; skpro 2.16 refuses those of `object`.

    Parameters
    ----------
    n_estimators : int, optional
        Number of trees.
    random_state : int
        Seed of the candidate splits.

    Examples
    --------
    >>> import pandas as pd
    >>> from coverwalk.adapters.skpro import CoverProbaRegressor
    >>> from coverwalk.datasets import load_faithful
    >>> X, y = load_faithful()
    >>> model = CoverProbaRegressor(n_estimators=4).fit(pd.DataFrame(X), pd.DataFrame({"waiting": y}))
    >>> model.predict_interval(pd.DataFrame(X[:2]), coverage=0.9).shape
    (2, 2)
    """

    _tags = {  # noqa: RUF012  (skpro's way)
        "authors": ["coverwalk"],
        "capability:multioutput": True,
        "capability:missing": True,
        "capability:update": True,
        "X_inner_mtype": "pd_DataFrame_Table",
        "y_inner_mtype": "pd_DataFrame_Table",
    }

    def __init__(self, n_estimators: int | None = None, random_state: int = 0) -> None:
        self.n_estimators = n_estimators
        self.random_state = random_state
        super().__init__()

    def _fit(self, X: pd.DataFrame, y: pd.DataFrame) -> Self:
        self.model_ = ConditionalDensity(self.n_estimators, random_state=self.random_state)
        self.model_.fit(_inputs(X), _numbers(y))
        self.columns_ = y.columns
        return self

    def _update(self, X: pd.DataFrame, y: pd.DataFrame) -> Self:
        self.model_.partial_fit(_inputs(X), _numbers(y))
        return self

    def _predict(self, X: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame(self.model_.predict(_inputs(X)), index=X.index, columns=self.columns_)

    def _predict_proba(self, X: pd.DataFrame) -> CoverDistribution:
        dists = marginals(self.model_.predict_dist(_inputs(X)))
        return CoverDistribution(dists, index=X.index, columns=self.columns_)

    def _predict_quantiles(self, X: pd.DataFrame, alpha: list[float]) -> pd.DataFrame:
        """All levels at once, which is faster than one after the other."""
        quantiles = self.model_.predict(_inputs(X), quantiles=alpha).reshape(len(X), -1)
        return pd.DataFrame(quantiles, X.index, pd.MultiIndex.from_product([self.columns_, alpha]))

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Small forests for skpro's own tests.

        Parameters
        ----------
        parameter_set : str
            Ignored.

        Returns
        -------
        list of dict
            Parameters.
        """
        return [{"n_estimators": 2}, {"n_estimators": 3, "random_state": 1}]


def _own_quantiles(marginal: PredictiveDistribution, level: Floats) -> Floats:
    """The quantile of each row at its own level (n,); all rows at once where they share one."""
    if len(level) and (level == level[0]).all():
        return np.asarray(marginal.ppf(level[0]))
    return np.array([marginal[i].ppf(level[i]) for i in range(len(level))])


def _inputs(table: pd.DataFrame) -> pd.DataFrame:
    """Inputs as they are, with categories and missing values, under names that are text."""
    return table.set_axis([str(name) for name in table.columns], axis=1)


def _numbers(table: pd.DataFrame) -> Floats:
    return np.ascontiguousarray(table.to_numpy(dtype=np.float64))
