# ruff: noqa: D101, D102
"""The methods that `uci.py` compares: ours, and peers at their defaults; each is fitted when it is made.

``answer`` gives the log densities of test rows and is timed; ``rest`` gives means, how much of y 90 % intervals hold,
and CRPS, and is not. Where y is rounded to whole steps it stands for a step's width, and what counts is the share of
the step's probability that lies inside: an interval cannot end within an atom.
"""

import numpy as np
from scipy import stats

from coverwalk import ConditionalDensity, PredictiveDistribution
from coverwalk.distributions.shapes import Shapes
from coverwalk.evaluation import crps
from coverwalk.paper.double_kernel import DoubleKernel

PATIENCE = 50  # rounds without progress after which a booster stops


class Coverwalk:
    def __init__(self, X, y):
        self.model = ConditionalDensity(n_jobs=1).fit(X, y)

    def answer(self, X, y):
        self.dist = self.model.predict_dist(X)
        return self.dist.logpdf(y)

    def rest(self, X, y, step):
        return scores(self.dist, y, step)


def scores(dist, y, step):
    return dist.mean(), inside(dist.cdf, y, step), crps(y, dist)


def inside(cdf, y, step):
    """How much of each y, of this width, lies between the quantiles of 5 and of 95 %."""
    low, high = cdf(y - step / 2), cdf(y + step / 2)
    if step == 0:
        return (low >= 0.05) & (low <= 0.95)
    return (np.clip(0.95, low, high) - np.clip(0.05, low, high)) / np.maximum(high - low, 1e-300)


class Gaussian:
    """A peer that gives a mean and a standard deviation."""

    def answer(self, X, y):
        self.mean, self.std = self.moments(X)
        return stats.norm.logpdf(y, self.mean, self.std)

    def rest(self, X, y, step):
        z = (y - self.mean) / self.std
        score = self.std * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi))
        return self.mean, inside(lambda at: stats.norm.cdf(at, self.mean, self.std), y, step), score


def held_out(X, y):
    """A tenth of the rows tells a booster when to stop: without it the deviations of small sets go to zero."""
    from sklearn.model_selection import train_test_split

    return train_test_split(X, y, test_size=0.1, random_state=0)


class NGBoost(Gaussian):
    def __init__(self, X, y):
        from ngboost import NGBRegressor

        X, X_out, y, y_out = held_out(X, y)
        self.model = NGBRegressor(verbose=False, random_state=0)
        self.model.fit(X, y, X_val=X_out, Y_val=y_out, early_stopping_rounds=PATIENCE)

    def moments(self, X):
        dist = self.model.pred_dist(X)
        return dist.loc, dist.scale


class CatBoost(Gaussian):
    def __init__(self, X, y):
        from catboost import CatBoostRegressor

        X, X_out, y, y_out = held_out(X, y)
        self.model = CatBoostRegressor(
            loss_function="RMSEWithUncertainty", verbose=False, thread_count=1, random_seed=0, allow_writing_files=False
        )
        self.model.fit(X, y, eval_set=(X_out, y_out), early_stopping_rounds=PATIENCE)

    def moments(self, X):
        mean, var = self.model.predict(X).T
        return mean, np.sqrt(var)


class XGBoostDistribution(Gaussian):
    def __init__(self, X, y):
        from xgboost_distribution import XGBDistribution

        X, X_out, y, y_out = held_out(X, y)
        self.model = XGBDistribution(
            distribution="normal", n_estimators=500, early_stopping_rounds=PATIENCE, n_jobs=1, random_state=0
        )
        self.model.fit(X, y, eval_set=[(X_out, y_out)], verbose=False)

    def moments(self, X):
        dist = self.model.predict(X)
        return dist.loc, dist.scale


class HistGradientBoosting(Gaussian):
    """Means by boosting; one standard deviation, of residuals under cross-validation."""

    def __init__(self, X, y):
        from sklearn.ensemble import HistGradientBoostingRegressor
        from sklearn.model_selection import cross_val_predict

        model = HistGradientBoostingRegressor(random_state=0)
        self.std_ = float(np.sqrt(np.mean((y - cross_val_predict(model, X, y, cv=5)) ** 2)))
        self.model = model.fit(X, y)

    def moments(self, X):
        return self.model.predict(X), np.full(len(X), self.std_)


def kernels_at(weight, y, width, least=1e-5):
    """Row i: normals at the y of the training rows with weight[i], those of next to no weight left out."""
    weight = weight / weight.sum(axis=1, keepdims=True)
    nonzero = weight > np.minimum(least, weight.max(axis=1, keepdims=True) / 2)
    offsets = np.concatenate([[0], np.cumsum(nonzero.sum(axis=1))])
    row, j = np.nonzero(nonzero)
    weight = weight[row, j] / np.add.reduceat(weight[row, j], offsets[:-1])[row]
    shape = np.zeros(len(j), np.int32)
    return PredictiveDistribution(offsets, weight, y[j], np.full(len(j), width), shape, Shapes.student(np.inf))


class DoubleKernelDensity:
    """Kernels on x and y, both bandwidths by 10-fold cross-validation."""

    def __init__(self, X, y):
        self.model, self.X, self.y = DoubleKernel().fit(X, y), X, y

    def answer(self, X, y):
        return self.model.logpdf(X, y)

    def rest(self, X, y, step):
        scale = np.where(self.X.std(0) > 0, self.X.std(0), 1.0) * self.model.hx
        U, V = self.X / scale, X / scale
        square = (U**2).sum(1) + (V**2).sum(1)[:, None] - 2 * V @ U.T
        weight = np.exp(-0.5 * (square - square.min(axis=1, keepdims=True)))
        return scores(kernels_at(weight, self.y, self.model.hy * self.y.std()), y, step)


class LeafKernel:
    """A random forest; kernels at the y of the rows in the leaves of x, 1 % of the marginal mixed in.

    One bandwidth, by the likelihood of rows that trees had left out.
    """

    MARGINAL = 0.01
    WIDTHS = 2.0 ** np.arange(-9.0, 1.0)  # of y's standard deviation

    def __init__(self, X, y):
        from sklearn.ensemble import RandomForestRegressor

        self.y = y
        X_in, X_out, y_in, y_out = held_out(X, y)
        first = RandomForestRegressor(n_estimators=50, min_samples_leaf=3, random_state=0, n_jobs=1).fit(X_in, y_in)
        weight = self.weights(first.apply(X_in), first.apply(X_out))
        losses = [-np.mean(self.log_density(weight, y_in, y_out, w)) for w in self.WIDTHS * y.std()]
        self.width = float(self.WIDTHS[int(np.argmin(losses))] * y.std())
        self.forest = RandomForestRegressor(n_estimators=100, min_samples_leaf=3, random_state=0, n_jobs=1).fit(X, y)
        self.leaves = self.forest.apply(X)

    def weights(self, leaves, asked):
        weight = np.zeros((len(asked), len(leaves)))
        for k in range(leaves.shape[1]):
            same = asked[:, k][:, None] == leaves[:, k]
            weight += same / same.sum(axis=1, keepdims=True) / leaves.shape[1]
        return (1 - self.MARGINAL) * weight + self.MARGINAL / len(leaves)

    def log_density(self, weight, y, at, width):
        total = np.einsum("ij,ij->i", weight, np.exp(-0.5 * ((at[:, None] - y) / width) ** 2))
        return np.log(np.maximum(total, 1e-300)) - np.log(width * np.sqrt(2 * np.pi))

    def answer(self, X, y):
        self.weight = self.weights(self.leaves, self.forest.apply(X))
        return self.log_density(self.weight, self.y, y, self.width)

    def rest(self, X, y, step):
        return scores(kernels_at(self.weight, self.y, self.width, least=2 * self.MARGINAL / len(self.y)), y, step)
