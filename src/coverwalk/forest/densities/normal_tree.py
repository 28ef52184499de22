"""One tree of contexts of y with a Normal-Wishart in each, as the mixture of Student t's that it predicts."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from scipy.special import betaln, gammaln

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels.forest.evidence import stop_weights, walk_weights
from coverwalk._kernels.forest.grow import empty_nodes, grow
from coverwalk._kernels.forest.normal_criterion import NormalPrior, normals_of
from coverwalk._kernels.forest.normals import add_normals
from coverwalk.files.schema import Array, Scope, require, stored
from coverwalk.preparation.scaling import Scaling

_FARTHEST = 1e6  # scales; rows beyond would square themselves into the covariances of all others
_BEYOND = 1e100  # where densities are asked: squares stay finite


def _check_factors(state: Any, scope: Scope) -> None:
    diagonal = np.cumsum(np.r_[0, np.arange(scope["q"], 1, -1)]).astype(np.int64)
    require("factor", state.factor[:, diagonal] > 0)


@stored(check=lambda state, scope: _check_factors(state, scope))
@dataclass(frozen=True)
class Normals:
    """V multivariate Student t distributions in standard units, with their weights."""

    loc: Annotated[Floats, Array(float, "q", any_unit=True)]  # (q,) z = (y - loc) / scale
    scale: Annotated[Floats, Array(float, "q", above=0, any_unit=True)]  # (q,)
    weight: Annotated[Floats, Array(float, "V", above=0, total=1.0)]  # (V,) sums to one
    df: Annotated[Floats, Array(float, "V", above=0)]  # (V,)
    mean: Annotated[Floats, Array(float, "V", "q")]  # (V, q)
    # (V, q (q + 1) / 2) packed U, the scale matrix being U'U
    factor: Annotated[Floats, Array(float, "V", "q * (q + 1) // 2")]

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
        )

    @classmethod
    def pooled(cls, trees: list["Normals"]) -> "Normals":
        """Trees, all with the same weight."""
        return cls.mixed(trees, np.ones(len(trees)))

    @property
    def units(self) -> Scaling:
        """Of the means and scale matrices."""
        return Scaling(self.loc, self.scale, squash=False)

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
        Z = np.clip(self.units.forward(Y), -_BEYOND, _BEYOND)
        add_normals(Z, log_norm, self.df, self.mean, self.factor, density)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(density) - np.log(self.scale).sum())

    def sample(self, n: int, rng: np.random.Generator) -> Floats:
        """Draws (n, q)."""
        chosen = rng.choice(len(self.weight), size=n, p=self.weight / self.weight.sum())
        normal = rng.standard_normal((n, len(self.loc)))
        stretch = np.sqrt(self.df[chosen] / rng.chisquare(self.df[chosen]))
        z = np.einsum("nji,nj->ni", self.U()[chosen], normal) * stretch[:, None] + self.mean[chosen]
        return self.units.backward(z)


def growth_for(q: int, stop: float, a: float, faint: float = 1e-4) -> NormalPrior:
    """How trees of normals are grown for q columns."""
    return NormalPrior(3 + q, 20, 400, stop, a, 0.3, q + 1.0, 0.3, faint)


def grow_normals(Y: Floats, units: Scaling, step: Floats, prior: NormalPrior, seed: int) -> Normals:
    """Grow and weigh a tree on rows Y (n, q) in random order; ``step`` (q,) is what they are rounded to."""
    Z = np.clip(units.forward(Y), -_FARTHEST, _FARTHEST)
    n, q = Z.shape
    grown = empty_nodes(n, prior.min_rows)
    contexts = normals_of(Z, (step / units.scale) ** 2 / 12.0, prior, len(grown[0]))
    rows, no_categories = (np.empty((n, 1)), np.arange(n)), np.zeros(1, np.int64)
    N = grow(*rows, no_categories, np.uint64(seed), prior.min_rows, prior.n_judged, None, None, contexts, grown)
    left, parent, size = grown[0]["left"][:N].astype(np.int64), grown[1][:N], (grown[3] - grown[2])[:N]
    _, mass = weigh(left, parent, size, contexts.log_phi[:N], prior)
    k = np.flatnonzero(mass > 0.0)
    df = prior.nu0 + size[k] - q + 1.0
    scale = np.triu(contexts.Psi[k]) * ((1.0 + 1.0 / (prior.ridge + size[k])) / df)[:, None, None]
    factor = np.linalg.cholesky(scale + np.triu(scale, 1).transpose(0, 2, 1)).transpose(0, 2, 1)
    packed = np.ascontiguousarray(factor[:, *np.triu_indices(q)])
    return Normals(units.centre, units.scale, mass[k], df, contexts.centre[k], packed)


def weigh(left: Ints, parent: Ints, size: Ints, log_phi: Floats, prior: NormalPrior) -> tuple[float, Floats]:
    """Log evidence of a tree, and the probability (N,) that the walk stops in each context; faint ones give theirs up.

    A row chooses the side of a split by the rows there:
    Z = w Z_normal + (1 - w) B(n_left + a, n_right + a) / B(a, a) Z_left Z_right.
    """
    N, a, inner = len(left), prior.a, left >= 0
    log_split, mass = np.zeros(N), np.empty((1, N, 1))
    log_split[inner] = betaln(size[left[inner]] + a, size[left[inner] + 1] + a) - betaln(a, a)
    on_side = [0.0, *np.log((size[1:] + a) / (size[parent[1:]] + 2.0 * a)).tolist()]
    for k, above in enumerate(parent[1:].tolist(), 1):  # to be on the sides of all contexts on the way
        on_side[k] += on_side[above]
    log_stop, log_go = np.empty((2, 1, N))
    log_Z = stop_weights(left, log_phi, prior.stop, log_stop[0], log_go[0], log_split)
    walk_weights(parent, np.array(on_side)[:, None], log_stop, log_go, mass)
    kept = mass.ravel().tolist()
    for k, above in zip(range(N - 1, 0, -1), parent[:0:-1].tolist()):
        if kept[k] < prior.faint:
            kept[above] += kept[k]
            kept[k] = 0.0
    return float(log_Z), np.array(kept)
