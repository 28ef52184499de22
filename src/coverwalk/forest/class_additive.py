"""Whether a forest for classes is joined by an additive expert, and by which: held-out rows decide."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from coverwalk._arrays import Floats, Ints
from coverwalk.forest.class_pool import HeldOut
from coverwalk.forest.experts.additive import Additive
from coverwalk.forest.threads import in_threads

FOLDS = 4
MIN_ROWS = 64  # fewer cannot tell
MAX_FLOATS = 2**23  # of all functions at all rows
MAX_FITTED = 2**23  # of all functions at the rows of a fit, times the classes
ERRORS = 2.0  # standard errors that the pool must gain: a chance gain is not worth the time
VARIANCES = (0.3, 3.0, 30.0, 300.0)  # of the prior of a coefficient, tried in turn while held-out rows gain


def held_out_additive(
    rows: tuple[Floats, Ints, Floats],
    trees: Sequence[Floats],
    gain: float,
    n_categories: Ints,
    category: Ints,
    folds: Sequence[Ints],
    n_jobs: int,
) -> tuple[Additive, Floats] | None:
    """The expert, fitted to rows (Z, y, weight), and what fits without a row's fold say of it, (n, C); or None.

    trees: what the kinds of trees say of the rows (n, C, E), which they had not seen, and what two halves of these
    trees say; gain: how far to extrapolate to the whole forest. n_categories (p,) of each column; category (m,): the
    column of each indicator.
    """
    Z, y, weight = rows
    n, C = len(y), trees[0].shape[1]
    if n < MIN_ROWS or not all(len(fold) for fold in folds):  # copies of heavy rows may all be in one
        return None

    def worth(rows: Ints, said: Floats) -> float:
        return _worth([means[rows] for means in trees], said, y[rows], weight[rows], gain)

    single = Additive.planned(Z, n_categories)
    paired = single.paired(Z, category)
    plans = [single, paired] if len(paired.pairs) else [single]
    held = folds[0]
    best = None
    for plan in plans:
        values = plan.functions(Z)
        if values.size > MAX_FLOATS:
            continue
        fit, last, expert = _Fit(values, y, weight, C), np.inf, plan
        for variance in VARIANCES[VARIANCES.index(best[3]) if best else 0 :]:
            expert = fit.without(held, expert, variance)
            said = expert.psi(values[held])
            loss = -float(weight[held] @ np.log(said[np.arange(len(held)), y[held]]))
            if best is None or loss < best[0]:
                best = (loss, plan, fit, variance, said)
            if loss > last:
                break
            last = loss
            if len(plans) == 1 and not worth(held, said) > 0.0:
                return None
    if best is None:
        return None
    _, plan, fit, variance, said = best
    if not worth(held, said) > 0.0:
        return None

    psi = np.empty((n, C))
    psi[held] = said
    for fold, expert in zip(folds[1:], in_threads(lambda fold: fit.without(fold, plan, variance), folds[1:], n_jobs)):
        psi[fold] = expert.psi(fit.values[fold])
    if not worth(np.arange(n), psi) > ERRORS:
        return None
    return fit.without(held[:0], plan, variance), psi


class _Fit(NamedTuple):
    """What coefficients are fitted to."""

    values: Floats  # (n, F) of the functions
    y: Ints
    weight: Floats
    n_classes: int

    def without(self, fold: Ints, plan: Additive, variance: float) -> Additive:
        """From the first rows that are not in a fold, as many as there is time for: their order is random."""
        rows = np.delete(np.arange(len(self.y)), fold)[: MAX_FITTED // (self.values.shape[1] * self.n_classes) + 1]
        return plan.fitted(self.values[rows], self.y[rows], self.weight[rows], self.n_classes, variance)


def _worth(trees: Sequence[Floats], said: Floats, y: Ints, weight: Floats, gain: float) -> float:
    """What the pool with all trees gains by one more expert, in standard errors.

    Few trees judge a row that they have not seen, and leave an expert more to mend than all of them will.
    """
    log_p = []
    for others in (trees, [np.concatenate([means, said[:, :, None]], axis=2) for means in trees]):
        pool = HeldOut(others[0].shape[2])
        pool.add(others[0], y, weight)
        whole, first, second = (pool.log_proba(means)[np.arange(len(y)), y] for means in others)
        log_p.append(whole + gain * (whole - 0.5 * (first + second)))
    gained = log_p[1] - log_p[0]
    mean = float(weight @ gained / weight.sum())
    error = float(np.sqrt(weight @ (gained - mean) ** 2)) / float(weight.sum())
    return mean / error if error > 0.0 else 0.0
