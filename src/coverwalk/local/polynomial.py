"""Polynomial regression of degree 0, 1 or 2 under a matrix-normal inverse-Wishart prior; docs/math.md, Section 6.1."""

from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
from scipy.special import gammaln, multigammaln, stdtr

from coverwalk.base import Floats, LocalModel, Posterior, RealPosterior, as_vector
from coverwalk.files.schema import Array, Link, Maybe, Real, Schema, Scope, Whole, require, stored

__all__ = ["Polynomial"]

_LARGEST = 1e150  # squares of larger numbers overflow
LARGEST_B = 1e160  # coefficients: y stays below 1e150, and the ridge bounds them by about that


@stored()
@dataclass(eq=False)
class Polynomial(LocalModel):
    """Polynomial regression y = B' f(x) + noise. Degree 0 is the Normal-Wishart model of the paper.

    Parameters
    ----------
    degree : {0, 1, 2}
        f(x) is 1; 1 and x; 1, x and all products of two coordinates.
    q : int
        Number of outputs.
    ridge : float
        Prior precision lambda of each coefficient, in units of the noise.
    nu : float, optional
        Prior degrees of freedom, above q - 1; by default q + 1.
    scatter : float
        Prior scatter, Psi_0 = scatter * I: nu times the expected noise variance.

    Examples
    --------
    >>> line = Polynomial(1).start()
    >>> for x in range(10): line.update(np.array([x]), np.array([2.0 * x + 1]))
    >>> line.mean(np.array([20.0])).round(1)
    array([41.2])
    """

    degree: Annotated[int, Whole(0, 2)] = 0
    q: Annotated[int, Whole(1, 1000)] = 1
    ridge: Annotated[float, Real(low=1e-100, high=1e100, whole=True)] = 1.0
    nu: Annotated[float, Real(above="q - 1", high=1e100, whole=True)] = None  # type: ignore[assignment]
    scatter: Annotated[float, Real(low=1e-100, high=1e100, whole=True)] = 1.0

    def __post_init__(self) -> None:
        self.nu = self.q + 1.0 if self.nu is None else self.nu
        self._schema.check_parameters(vars(self))

    def start(self, parent: Posterior | None = None) -> "PolynomialPosterior":
        """B_0 = 0 and Psi_0 = scatter I; under a parent B_0 is its B and Psi_0 its noise covariance times nu."""
        if isinstance(parent, PolynomialPosterior) and parent._model.degree == self.degree:
            return PolynomialPosterior(self, parent.B, parent.noise_covariance() * self.nu)
        return PolynomialPosterior(self, None, self.scatter * np.eye(self.q))

    def check(self, x: Any, y: Any) -> tuple[Any, Floats]:
        """Q finite numbers, and for degree 1 and 2 a vector of finite numbers."""
        if self.degree > 0:
            x = as_vector(x, "x")
            _refuse_overflow("x", x)
        return x, as_vector(y, "y", self.q)

    def check_learnable(self, x: Any, y: Any) -> None:
        """Any y has a density, but only one whose square exists can be learned."""
        _refuse_overflow("y", y)


def _refuse_overflow(name: str, value: Floats) -> None:
    if np.abs(value).max() > _LARGEST:
        raise ValueError(f"{name} must stay below {_LARGEST:g} for its square to exist, got {value!r}: rescale it")


def _features(x: Any, degree: int) -> Floats:
    if degree == 0:
        return np.ones(1)
    x = np.atleast_1d(np.asarray(x, dtype=np.float64))
    squares = np.outer(x, x)[np.triu_indices(len(x))] if degree == 2 else np.empty(0)
    return np.concatenate([[1.0], x, squares])


def _check_posterior(state: Any, scope: Scope) -> None:
    """Psi is positive; Lam = ridge I + F'F is symmetric, without a negative direction but by rounding."""
    model = scope["model"]
    for Psi, nu in ((state.Psi0, model.nu), (state.Psi, model.nu + state.n)):
        require("Psi", np.diagonal(Psi) / nu > 1e-300)  # the scale of a predictive
        np.linalg.cholesky(Psi)  # its error is a ValueError
    require("B", (state.B is not None) >= (state.n > 0 or state.B0 is not None))
    d = _n_features(model.degree, scope["p"])
    for B in (state.B0, state.B):
        require("B", B is None or d is None or len(B) == d)
    if state.n == 0:
        require("Lam", state.Lam.shape == (0, 0))
        return
    require("Lam", state.Lam.shape == (len(state.B), len(state.B)))
    require("Lam", np.diagonal(state.Lam) >= 0.5 * model.ridge)
    root = np.sqrt(np.diagonal(state.Lam))
    correlation = state.Lam / root[:, None] / root
    require("Lam", np.isfinite(correlation) & (abs(correlation - correlation.T) < 1e-6))
    require("Lam", np.linalg.eigvalsh(correlation).min() > -1e-8)


def _n_features(degree: int, p: int | None) -> int | None:
    if degree == 0:
        return 1
    return None if p is None else 1 + p + (p * (p + 1) // 2 if degree == 2 else 0)


class PolynomialPosterior(RealPosterior):
    """(n, Lam, B, Psi), kept by rank-one updates: no difference of large sums, whatever the units of y."""

    _schema = Schema(
        _model=Link(),
        n=Whole(0, 10**15),
        Psi0=Array(float, "model.q", "model.q", any_unit=True),
        Psi=Array(float, "model.q", "model.q", any_unit=True),
        B0=Maybe(Array(float, "d", "model.q", low=-LARGEST_B, high=LARGEST_B)),
        B=Maybe(Array(float, "d", "model.q", low=-LARGEST_B, high=LARGEST_B)),
        Lam=Array(float, "k", "k", any_unit=True),
        check=_check_posterior,
    )

    def __init__(self, model: Polynomial, B0: Floats | None, Psi0: Floats) -> None:
        self._model = model
        self.n = 0
        self.Psi0 = self.Psi = Psi0
        self.B0 = B0  # None: zero, of a length known with the first x
        self.B: Floats | None = B0
        self.Lam = np.empty((0, 0))

    def _state(self, d: int) -> tuple[Floats, Floats]:
        """B and Lam for d features; the prior's while nothing has been seen."""
        B = np.zeros((d, self._model.q)) if self.B is None else self.B
        if len(B) != d:
            raise ValueError(
                f"x must have as many coordinates as before: {len(B)} features are known, this x makes {d}"
            )
        return B, self.Lam if self.n else self._model.ridge * np.eye(d)

    def update(self, x: Any, y: Any) -> None:
        """Rank-one: e = y - B'f; B += Lam^-1 f e' / h; Psi += e e' / h; Lam += f f'."""
        f = _features(x, self._model.degree)
        B, Lam = self._state(len(f))
        step = np.linalg.solve(Lam, f)
        h = 1.0 + f @ step
        e = np.atleast_1d(y) - B.T @ f
        self.B, self.Lam, self.Psi = B + np.outer(step, e) / h, Lam + np.outer(f, f), self.Psi + np.outer(e, e) / h
        self.n += 1

    def _student(self, x: Any) -> tuple[float, Floats, Floats]:
        """Degrees of freedom, location and scale matrix of the predictive multivariate t."""
        f = _features(x, self._model.degree)
        B, Lam = self._state(len(f))
        h = 1.0 + f @ np.linalg.solve(Lam, f)
        df = self._model.nu + self.n - self._model.q + 1
        return df, B.T @ f, self.Psi * (h / df)

    def logpdf(self, x: Any, y: Any) -> float:
        """Multivariate Student t; finite for every finite y."""
        df, location, S = self._student(x)
        L = np.linalg.cholesky(S)
        z = np.linalg.solve(L, np.atleast_1d(y) - location)
        largest = np.abs(z).max()
        if largest < 1e100:
            log_tail = np.log1p(float(z @ z) / df)
        else:  # z'z overflows, its logarithm does not
            log_tail = 2 * np.log(largest) + np.log(np.sum((z / largest) ** 2)) - np.log(df)
        half = 0.5 * (df + self._model.q)
        constant = gammaln(half) - gammaln(0.5 * df) - 0.5 * self._model.q * np.log(df * np.pi)
        return float(constant - np.log(np.diag(L)).sum() - half * log_tail)

    def log_evidence(self) -> float:
        """Closed form, docs/math.md eq. 12."""
        if self.n == 0:
            return 0.0
        m, d = self._model, len(self.Lam)
        q, nu = m.q, m.nu + self.n
        logdet_Lam, logdet_Psi, logdet_Psi0 = (np.linalg.slogdet(A)[1] for A in (self.Lam, self.Psi, self.Psi0))
        return float(
            -0.5 * self.n * q * np.log(np.pi)
            + 0.5 * q * (d * np.log(m.ridge) - logdet_Lam)
            + 0.5 * m.nu * logdet_Psi0
            - 0.5 * nu * logdet_Psi
            + multigammaln(0.5 * nu, q)
            - multigammaln(0.5 * m.nu, q)
        )

    def noise_covariance(self) -> Floats:
        """A point estimate of the noise covariance, for a child's prior: Psi / nu."""
        return self.Psi / (self._model.nu + self.n)

    def mean(self, x: Any) -> Floats:
        """B'f; exists above one degree of freedom."""
        df, location, _ = self._student(x)
        return location if df > 1 else np.full(self._model.q, np.nan)

    def var(self, x: Any) -> Floats:
        """Df / (df - 2) times the scale; infinite up to two degrees of freedom."""
        df, _, S = self._student(x)
        return np.diag(S) * df / (df - 2) if df > 2 else np.full(self._model.q, np.inf)

    def cdf(self, x: Any, y: float) -> float:
        """Student's cdf."""
        if self._model.q > 1:
            raise ValueError(f"cdf is for one output, this model has q = {self._model.q}")
        df, location, S = self._student(x)
        return float(stdtr(df, (float(np.squeeze(y)) - location[0]) / np.sqrt(S[0, 0])))

    def sample(self, x: Any, rng: np.random.Generator) -> Floats:
        """A normal over the root of a chi-square."""
        df, location, S = self._student(x)
        z = np.linalg.cholesky(S) @ rng.standard_normal(self._model.q)
        return np.asarray(location + z / np.sqrt(rng.chisquare(df) / df))

    def merge(self, other: Self) -> None:
        """Add the statistics; the scatter is put together around the common B, where nothing cancels."""
        if other.n == 0:
            return
        d = len(other.Lam)
        (B1, Lam1), (B2, Lam2) = self._state(d), other._state(d)
        B0, prior = (np.zeros((d, self._model.q)) if self.B0 is None else self.B0), self._model.ridge * np.eye(d)
        Lam = Lam1 + Lam2 - prior
        B: Floats = np.asarray(np.linalg.solve(Lam, Lam1 @ B1 + Lam2 @ B2 - prior @ B0), dtype=np.float64)
        pieces = ((Lam1, B1), (Lam2, B2), (-prior, B0))
        self.Psi = self.Psi + other.Psi - self.Psi0 + sum((b - B).T @ A @ (b - B) for A, b in pieces)
        self.Lam, self.B, self.n = Lam, B, self.n + other.n
