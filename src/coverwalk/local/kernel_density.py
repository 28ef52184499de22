"""Kernel density with a posterior over its bandwidth; docs/math.md, Section 6.3."""

from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
from scipy.special import ndtr

from coverwalk.base import Floats, LocalModel, Posterior, RealPosterior, as_vector
from coverwalk.files.schema import Array, Link, List, Real, Schema, Whole, stored
from coverwalk.local._heavy_tails import student2_cdf, student2_logpdf, student2_ppf
from coverwalk.walk import mix

__all__ = ["KernelDensity"]


@stored()
@dataclass(eq=False)
class KernelDensity(LocalModel):
    """A normal kernel on each row, and a heavy-tailed base distribution that counts as one more row.

    The bandwidth is one of h_k = scale 2^(-0.6 k), k = 0..7, weighted by how well each predicted every row from
    those before it. This evidence depends on the order of the rows, so these posteriors do not merge.

    Parameters
    ----------
    q : int
        Number of outputs.
    loc, scale : float
        Expected location and scale of y, before any data.
    bandwidths : int
        Number of bandwidths.

    Examples
    --------
    >>> density = KernelDensity().start()
    >>> for y in (0.0, 0.1, 3.0, 3.1): density.update(None, np.array([y]))
    >>> density.logpdf(None, np.array([3.05])) > density.logpdf(None, np.array([1.5]))
    True
    """

    exchangeable = False
    q: Annotated[int, Whole(1, 1000)] = 1
    loc: Annotated[float, Real(low=-1e300, high=1e300, whole=True)] = 0.0
    scale: Annotated[float, Real(low=1e-300, high=1e300, whole=True)] = 1.0
    bandwidths: Annotated[int, Whole(1, 10**6)] = 8

    def __post_init__(self) -> None:
        self._schema.check_parameters(vars(self))

    @property
    def log_h(self) -> Floats:
        """Logarithms of the bandwidths."""
        return np.asarray(np.log(self.scale) - 0.6 * np.log(2) * np.arange(self.bandwidths))

    def start(self, parent: Posterior | None = None) -> "KernelDensityPosterior":
        """No rows; the bandwidth's prior is uniform, or the parent's posterior."""
        log_prior = np.full(self.bandwidths, -np.log(self.bandwidths))
        if isinstance(parent, KernelDensityPosterior) and len(parent.log_weight) == len(log_prior):
            log_prior = parent.log_weight
        return KernelDensityPosterior(self, log_prior)

    def check(self, x: Any, y: Any) -> tuple[Any, Floats]:
        """Q finite numbers."""
        return x, as_vector(y, "y", self.q)


class KernelDensityPosterior(RealPosterior):
    """The rows, and the log posterior of each bandwidth."""

    _schema = Schema(
        _model=Link(),
        log_weight=Array(float, "model.bandwidths", high=1e-6, inf=True, log_total=1.0),
        _rows=List(Array(float, "model.q", any_unit=True)),
        _log_evidence=Real(),
    )

    def __init__(self, model: KernelDensity, log_prior: Floats) -> None:
        self._model = model
        self.log_weight = log_prior.copy()
        self._rows: list[Floats] = []
        self._log_evidence = 0.0

    def _log_kernels(self, y: Any) -> Floats:
        """Log density of y under each bandwidth: (sum of kernels + base) / (n + 1)."""
        m, log_h, y = self._model, self._model.log_h, np.atleast_1d(y)
        log_base = float(np.sum(student2_logpdf(y, m.loc, m.scale)))
        if not self._rows:
            return np.full(len(log_h), log_base)
        difference = np.abs(y - np.array(self._rows))[:, :, None]  # (n, q, 1), against (h,)
        # a kernel further than 1e3 bandwidths away is exactly 0: the square is cut there, where exp has long vanished
        z = np.minimum(difference / np.exp(log_h), 1e3)
        log_K = (-0.5 * z**2 - log_h - 0.5 * np.log(2 * np.pi)).sum(1)  # (n, h)
        joint = np.logaddexp(np.logaddexp.reduce(log_K, axis=0), log_base)
        return np.asarray(joint - np.log(len(self._rows) + 1))

    def update(self, x: Any, y: Any) -> None:
        """Weigh the bandwidths by y, then keep y."""
        log_psi, self.log_weight = mix(self.log_weight, self._log_kernels(y))
        self._log_evidence += log_psi
        self._rows.append(np.atleast_1d(np.asarray(y, np.float64)))

    def logpdf(self, x: Any, y: Any) -> float:
        """The mixture over bandwidths."""
        return mix(self.log_weight, self._log_kernels(y))[0]

    def log_evidence(self) -> float:
        """The sum of the one-step predictions, in the order the rows came."""
        return self._log_evidence

    def mean(self, x: Any) -> Floats:
        """Of the rows and the centre of the base distribution."""
        return np.asarray((np.sum(self._rows, axis=0) + self._model.loc) / (len(self._rows) + 1))

    def var(self, x: Any) -> Floats:
        """Infinite: the base distribution has two degrees of freedom."""
        return np.full(self._model.q, np.inf)

    def cdf(self, x: Any, y: float) -> float:
        """The mixture of the kernels' cdfs."""
        m = self._model
        if m.q > 1:
            raise ValueError(f"cdf is for one output, this model has q = {m.q}")
        base = float(student2_cdf(np.atleast_1d(y), m.loc, m.scale)[0])
        rows = np.array(self._rows).reshape(-1, 1)
        kernels = ndtr((float(np.squeeze(y)) - rows) / np.exp(m.log_h)).sum(0)
        return float(np.exp(self.log_weight) @ ((kernels + base) / (len(self._rows) + 1)))

    def sample(self, x: Any, rng: np.random.Generator) -> Floats:
        """A bandwidth, a row or the base distribution, then the kernel."""
        m = self._model
        weight = np.exp(self.log_weight)
        h = np.exp(m.log_h[rng.choice(len(weight), p=weight / weight.sum())])
        j = rng.integers(len(self._rows) + 1)
        if j == len(self._rows):
            return student2_ppf(rng.random(m.q), m.loc, m.scale)
        return np.asarray(self._rows[j] + h * rng.standard_normal(m.q))

    def merge(self, other: Self) -> None:
        """Refused: the evidence of a bandwidth depends on the order of the rows."""
        raise ValueError(
            "kernel densities do not merge: their evidence depends on the order of rows; learn them together"
        )
