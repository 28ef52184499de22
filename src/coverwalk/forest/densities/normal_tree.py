"""One tree of contexts of y with a Normal-Wishart in each, as the mixture of Student t's that it predicts."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from coverwalk._kernels.forest.normal_contexts import Growth, add_normals, empty_components, normal_contexts
from coverwalk.files.schema import Array, Real, Schema, Scope, require
from coverwalk.preparation.running_scaling import Units

__all__ = ["Normals", "grow_normals", "growth_for"]

Floats = NDArray[np.float64]

_FARTHEST = 1e6  # scales; rows beyond would square themselves into the covariances of all others
_BEYOND = 1e100  # where densities are asked: squares stay finite


def _check_factors(state: Any, scope: Scope) -> None:
    diagonal = np.cumsum(np.r_[0, np.arange(scope["q"], 1, -1)]).astype(np.int64)
    require("factor", state.factor[:, diagonal] > 0)


@dataclass(frozen=True)
class Normals:
    """V multivariate Student t distributions in standard units, with their weights."""

    loc: Floats  # (q,) z = (y - loc) / scale
    scale: Floats  # (q,)
    weight: Floats  # (V,) sums to one
    df: Floats  # (V,)
    mean: Floats  # (V, q)
    factor: Floats  # (V, q (q + 1) / 2) packed U, the scale matrix being U'U
    log_evidence: float  # summed over trees; a lower bound, see `normal_contexts`

    _schema = Schema(
        loc=Array(float, "q", any_unit=True),
        scale=Array(float, "q", above=0, any_unit=True),
        weight=Array(float, "V", above=0, total=1.0),
        df=Array(float, "V", above=0),
        mean=Array(float, "V", "q"),
        factor=Array(float, "V", "q * (q + 1) // 2"),
        log_evidence=Real(),
        check=lambda state, scope: _check_factors(state, scope),
    )

    @classmethod
    def mixed(cls, dists: list["Normals"], weights: Floats) -> "Normals":
        """Mixtures in the same units as one, by their shares (k,)."""
        return cls(
            dists[0].loc,
            dists[0].scale,
            np.concatenate([weight * dist.weight for weight, dist in zip(weights / weights.sum(), dists)]),
            np.concatenate([dist.df for dist in dists]),
            np.concatenate([dist.mean for dist in dists]),
            np.concatenate([dist.factor for dist in dists]),
            sum(dist.log_evidence for dist in dists),
        )

    @classmethod
    def pooled(cls, trees: list["Normals"]) -> "Normals":
        """Trees, each with the same say."""
        return cls.mixed(trees, np.ones(len(trees)))

    @property
    def units(self) -> Units:
        """Of the means and scale matrices."""
        return Units(self.loc, self.scale)

    def U(self) -> Floats:
        """The factors as upper triangular matrices (V, q, q)."""
        q = len(self.loc)
        full = np.zeros((len(self.df), q, q))
        full[:, *np.triu_indices(q)] = self.factor
        return full

    def logpdf(self, Y: Floats) -> Floats:
        """Log densities (n,) of points Y (n, q); -inf where all of them underflow."""
        q = len(self.loc)
        diagonal = np.cumsum(np.r_[0, np.arange(q, 1, -1)]).astype(np.int64)
        at_mean = gammaln(0.5 * (self.df + q)) - gammaln(0.5 * self.df) - 0.5 * q * np.log(self.df * np.pi)
        log_norm = np.log(self.weight) + at_mean - np.log(self.factor[:, diagonal]).sum(axis=1)
        density = np.zeros(len(Y))
        Z = np.clip(self.units.apply(Y), -_BEYOND, _BEYOND)
        add_normals(Z, log_norm, self.df, self.mean, self.factor, density)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(density) - np.log(self.scale).sum())

    def sample(self, n: int, rng: np.random.Generator) -> Floats:
        """Draws (n, q)."""
        chosen = rng.choice(len(self.weight), size=n, p=self.weight / self.weight.sum())
        normal = rng.standard_normal((n, len(self.loc)))
        stretch = np.sqrt(self.df[chosen] / rng.chisquare(self.df[chosen]))
        z = np.einsum("nji,nj->ni", self.U()[chosen], normal) * stretch[:, None] + self.mean[chosen]
        return self.units.invert(z)


def growth_for(q: int, stop: float, a: float, faint: float = 1e-4) -> Growth:
    """How trees of normals are grown for q columns."""
    return Growth(3 + q, 20, 400, stop, a, 0.3, q + 1.0, 0.3, faint)


def grow_normals(Y: Floats, units: Units, step: Floats, growth: Growth, seed: int) -> Normals:
    """Grow and weigh a tree on rows Y (n, q) in random order; ``step`` (q,) is what they are rounded to."""
    Z = np.clip(units.apply(Y), -_FARTHEST, _FARTHEST)
    grain = (step / units.scale) ** 2 / 12.0
    components = empty_components(len(Z), Z.shape[1], growth)
    log_Z = normal_contexts(Z, seed, grain, growth, components)
    V = np.count_nonzero(components[0])
    weight, df, mean, factor = (part[:V].copy() for part in components)
    log_evidence = float(log_Z - len(Y) * np.log(units.scale).sum())
    return Normals(units.loc, units.scale, weight, df, mean, factor, log_evidence)
