"""The forest's local models in plain NumPy, by refits and dense algebra, and its trees as covers of `CoverModel`.

Shares no code with the kernels: what docs/forest.md says, written down again. A context's local models know their rows
by number: x is (number of the row, inputs in units of order one); a question has the number -1.
"""

import numpy as np
from scipy import stats
from scipy.special import logsumexp

from coverwalk.base import Cover, LocalModel, Posterior

NU_0 = 2.0
BINS, BIN = 128, 1 / 16
WIDTHS = 2.0 ** (-0.6 * np.arange(8))
BASE_WEIGHT, BASE_WIDTH = np.array([0.6, 0.3, 0.1]), np.array([1.0, 3.0, 9.0])
CENTRES = (np.arange(BINS) - BINS / 2) * BIN
SHAPE_ROWS, PROMISING, GIVE_UP = 12, 4.0, 2.0


def basis(X, degree):
    columns = [np.ones(len(X))]
    if degree >= 1:
        columns += list(X.T)
    if degree == 2:
        columns += [X[:, a] * X[:, b] for a in range(X.shape[1]) for b in range(a + 1)]
    return np.column_stack(columns)


def base_density(e):
    return stats.norm.pdf(np.asarray(e)[..., None], scale=BASE_WIDTH) @ BASE_WEIGHT


class Regressions:
    """Every degree and ridge of one context: leave-one-out evidence, and the average of the functions."""

    def __init__(self, X, r, above, degree, ridges, many):
        self.low, self.high = np.floor(256 * X.min(axis=0)) / 256, np.ceil(256 * X.max(axis=0)) / 256  # outwards
        n, psi_0 = len(r), NU_0 * above
        self.df = NU_0 + n
        scores, errors, held_out, self.coefficients, psis, self.solved = [], [], [], [], [], []
        for g in range(degree + 1):
            F = basis(X, g)
            d = F.shape[1]
            plenty = g == 0 or n >= many * d
            for l, ridge in enumerate(ridges):
                Lam = F.T @ F + ridge * np.eye(d)
                c = np.linalg.solve(Lam, F.T @ r)
                psi = psi_0 + r @ r - c @ Lam @ c
                h = np.einsum("nd,dn->n", F, np.linalg.solve(Lam, F.T))
                if plenty:
                    h = np.full(n, h.mean())
                e = r - F @ c
                if plenty and l != len(ridges) // 2:
                    scores.append(-np.inf)
                elif plenty:  # the formula with the mean leverage; no refit has it
                    nu = self.df - 1
                    scale = np.sqrt((psi - e**2 / (1 - h)) / nu / (1 - h))
                    scores.append(stats.t.logpdf(e / (1 - h), nu, 0, scale).sum())
                else:
                    scores.append(sum(self._refit(F, r, i, ridge, psi_0) for i in range(n)))
                errors.append(e)
                held_out.append(e / (1 - h))
                psis.append(psi)
                self.coefficients.append((g, c))
                self.solved.append(h.mean())
        self.log_evidence = logsumexp(scores) - np.log(len(scores))
        self.weight = np.exp(np.array(scores) - logsumexp(scores))
        self.s2 = self.weight @ psis / self.df
        self.rest = self.weight @ np.array(errors)  # for the children
        self.held_out = self.weight @ np.array(held_out)

    @staticmethod
    def _refit(F, r, i, ridge, psi_0):
        G, t = np.delete(F, i, 0), np.delete(r, i)
        Lam = G.T @ G + ridge * np.eye(F.shape[1])
        c = np.linalg.solve(Lam, G.T @ t)
        nu = NU_0 + len(t)
        psi = psi_0 + t @ t - c @ Lam @ c
        scale = np.sqrt(psi / nu * (1 + F[i] @ np.linalg.solve(Lam, F[i])))
        return stats.t.logpdf(r[i], nu, F[i] @ c, scale)

    def value(self, x):
        """What this context adds to its parent's function."""
        return sum(w * (basis(x, g) @ c)[0] for w, (g, c) in zip(self.weight, self.coefficients))

    def leverage(self):
        """The mean, of the best regression."""
        return self.solved[int(np.argmax(self.weight))]


class Kernels:
    """A binned kernel density of e: leave-one-out evidence averaged over bandwidths, and the density of the best."""

    def __init__(self, e):
        n = len(e)
        self.scale = np.sqrt(np.mean(e**2))
        place = e / (self.scale * BIN) + BINS / 2 + 0.5
        inside = (place >= 0) & (place < BINS)
        self.counts = np.bincount(place[inside].astype(int), minlength=BINS)
        n_out = n - inside.sum()
        beyond = np.sum(np.log(base_density(e[~inside] / self.scale))) + n_out * np.log(max(n_out, 1))
        base, scores = base_density(CENTRES), []
        for h in WIDTHS:
            K = stats.norm.pdf(CENTRES[:, None], CENTRES, h)
            others = np.maximum((1 + n_out) * base - K[0, 0] + K @ self.counts, base)
            scores.append(self.counts @ np.log(others) + beyond - n * np.log(n * self.scale))
            if len(scores) > 1 and scores[-1] < scores[-2] - GIVE_UP:
                break
        self.log_evidence = logsumexp(scores) - np.log(len(WIDTHS))
        self.width, self.n = WIDTHS[int(np.argmax(scores))], n

    def density(self, e):
        e = e / self.scale
        kernels = stats.norm.pdf(e, CENTRES, self.width) @ self.counts
        base = (self.n + 1 - self.counts.sum()) * base_density(e)
        return (kernels + base) / (self.n + 1) / self.scale


class SlowTree:
    """The local models of every context of one tree, by the numbers of its rows."""

    def __init__(self, tree, Z, y, degree, ridges, many, min_scale):
        self.tree, self.Z, self.y = tree, Z, y
        self.path_of = [self.path(z) for z in Z]
        self.rows = {
            k: np.array([i for i, path in enumerate(self.path_of) if k in path]) for k in range(len(tree.feature))
        }
        self.of_rows = {frozenset(rows.tolist()): k for k, rows in self.rows.items()}
        self.regressions, self.kernels, r = {}, {}, y.copy()
        for k, i in self.rows.items():  # parents first
            above = self.regressions[tree.parent[k]].s2 if k else min_scale**2 + np.mean(y**2)
            fit = self.regressions[k] = Regressions(Z[i], r[i], above, degree, ridges, many)
            r[i] = fit.rest
            self.kernels[k] = [None, None]
            if len(i) >= SHAPE_ROWS:
                of_residuals, deviation = Kernels(fit.held_out), y[i] - y[i].mean()
                promising = np.sum(deviation**2) <= len(i) * (PROMISING * of_residuals.scale) ** 2
                self.kernels[k] = [of_residuals, Kernels(deviation) if promising else None]

    def path(self, z):
        """The contexts of inputs z, coarse to fine."""
        path = [0]
        while self.tree.left[path[-1]] >= 0:
            k = path[-1]
            path.append(int(self.tree.left[k] + (z[self.tree.feature[k]] > self.tree.split[k])))
        return path

    def centre(self, k, z):
        """mu_M: the function of the context, inputs clamped to its rows."""
        fit = self.regressions[k]
        x = np.clip(z, fit.low, fit.high)[None]
        total, j = 0.0, k
        while j >= 0:
            total += self.regressions[j].value(x)
            j = int(self.tree.parent[j])
        return total

    def log_evidence(self, k, which):
        if which == 0:
            return self.regressions[k].log_evidence
        kernels = self.kernels[k][which - 1]
        return -np.inf if kernels is None else kernels.log_evidence

    def log_density(self, k, which, z, y):
        loc = self.centre(k, z)
        if which == 0:
            fit = self.regressions[k]
            return float(stats.t.logpdf(y, max(fit.df, 3.0), loc, np.sqrt(fit.s2 * (1 + fit.leverage()))))
        kernels = self.kernels[k][which - 1]
        if kernels is None:
            return -np.inf
        return float(np.log(kernels.density(y - (loc if which == 1 else self.y[self.rows[k]].mean()))))


class TreeCover(Cover):
    """An adaptive tree as a cover: one context a level."""

    nested = True

    def __init__(self, slow):
        self.slow = slow

    def contexts(self, x):
        return [[k] for k in self.slow.path(x[1])]

    def __eq__(self, other):
        return self.slow is other.slow


class OfForest(LocalModel):
    """One local model of the forest's contexts: 0 the regressions, 1 and 2 the kernel densities."""

    def __init__(self, slow, which):
        self.slow, self.which = slow, which

    def start(self, parent=None):
        return OfForestPosterior(self)

    def check(self, x, y):
        return x, y


class OfForestPosterior(Posterior):
    """Known by the numbers of the rows it has seen; its evidence is leave-one-out, no product of predictions."""

    def __init__(self, model):
        self.model, self.seen = model, frozenset()

    def update(self, x, y):
        self.seen |= {x[0]}

    def merge(self, other):
        self.seen |= other.seen

    def log_evidence(self):
        return self.model.slow.log_evidence(self.model.slow.of_rows[self.seen], self.model.which)

    def logpdf(self, x, y):
        k = self.model.slow.of_rows.get(self.seen)
        # while rows come in: what is predicted then is not asked for
        return 0.0 if k is None or x[0] >= 0 else self.model.slow.log_density(k, self.model.which, x[1], y)

    def sample(self, x, rng):
        raise NotImplementedError
