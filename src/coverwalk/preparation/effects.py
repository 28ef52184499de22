"""Columns of more categories than splits tell apart, as numbers: how y lies in each category; or, for classes, as
groups of categories.

Countries, shops, patients: of hundreds of categories each has few rows, and a set of them is one of very many. Their
order is what matters, and rows of one category tell it. Effects are those of a one-way model with random effects,
t = mean + effect of the category + rest, where t are the normal scores of y: what a category's rows say of it is drawn
to the mean, the more the fewer they are (Robinson, "That BLUP is a good thing", Statistical Science 1991).
"""

import numpy as np
from scipy.special import ndtri

from coverwalk._arrays import Floats, Ints

MIN_ROWS = 3  # of a category with an effect: that of fewer rows would tell these rows their own y
MIN_IN_GROUP = 2  # rows of a category in a group


def normal_scores(y: Floats, weight: Floats) -> Floats:
    """Where y (n,) lie among all, as quantiles of a standard normal distribution.

    >>> normal_scores(np.array([3.0, 1.0, 1.0]), np.ones(3)).round(2).tolist()
    [0.97, -0.43, -0.43]
    """
    _, place = np.unique(y, return_inverse=True)
    mass = np.bincount(place, weight)
    scores: Floats = ndtri((np.cumsum(mass) - 0.5 * mass) / mass.sum())[place]
    return scores


def category_effects(code: Floats, Y: Floats, weight: Floats | None = None) -> dict[float, float]:
    """The effects of the categories with enough rows, from their codes (n,), NaN where one is missing, on Y (n, q): on
    the mean of the normal scores of several outputs.

    >>> code = np.repeat([7.0, 8.0, 9.0], [4, 4, 1])
    >>> effects = category_effects(code, np.array([[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]]).T)
    >>> {code: round(effect, 2) for code, effect in effects.items()}
    {7.0: -0.81, 8.0: 0.44}
    """
    known = ~np.isnan(code)
    weight = np.ones(len(Y)) if weight is None else weight
    t, weight = np.mean([normal_scores(y, weight) for y in Y.T], axis=0)[known], weight[known]
    codes, place, n_rows = np.unique(code[known], return_inverse=True, return_counts=True)
    K, total = len(codes), weight.sum()
    if K < 2:
        return {}
    mass = np.bincount(place, weight)
    mean, overall = np.bincount(place, weight * t) / mass, weight @ t / total
    within = weight @ (t - mean[place]) ** 2 / (total - K) if total > K else np.inf
    size = (total - mass @ mass / total) / (K - 1)  # rows of a category, were all equal
    between = max((mass @ (mean - overall) ** 2 / (K - 1) - within) / size, 0.0) if within < np.inf else 0.0
    kept = between * mass / (between * mass + within) if between > 0.0 else np.zeros(K)
    effects = kept * (mean - overall)
    enough = n_rows >= MIN_ROWS
    return dict(zip(codes[enough].tolist(), effects[enough].tolist()))


def category_groups(code: Floats, y: Ints, weight: Floats, n_groups: int) -> dict[float, int]:
    """Groups, from 1 to n_groups, of categories in whose rows the classes y (n,) are alike, from their codes (n,), NaN
    where one is missing; no group has categories of few rows.

    Categories are sorted by the class that most of their rows have, and by how many have it; a group is a run of them
    that holds about as many rows as any other.

    >>> code = np.repeat([7.0, 8.0, 9.0, 10.0], [4, 5, 4, 1])
    >>> category_groups(code, np.array([0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 0, 0, 1, 1]), np.ones(14), 2)
    {9.0: 1, 7.0: 1, 8.0: 2}
    """
    known = ~np.isnan(code)
    codes, place, n_rows = np.unique(code[known], return_inverse=True, return_counts=True)
    K = int(y.max()) + 1
    mass = np.bincount(place * K + y[known], weight[known], len(codes) * K).reshape(-1, K)
    share = (mass + mass.sum(axis=0) / mass.sum()) / (mass.sum(axis=1, keepdims=True) + 1.0)  # one row of all
    enough = np.flatnonzero(n_rows >= MIN_IN_GROUP)
    order = enough[np.lexsort((share[enough].max(axis=1), share[enough].argmax(axis=1)))]
    rows = n_rows[order]
    if len(order) <= n_groups:
        group = np.arange(len(order))
    else:
        group = ((np.cumsum(rows) - 0.5 * rows) * n_groups / rows.sum()).astype(np.int64)
    return dict(zip(codes[order].tolist(), (1 + group).tolist()))
