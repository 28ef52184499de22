"""How columns of more categories than splits tell apart become numbers, chosen on held-out rows."""

from dataclasses import replace
from typing import Any

import numpy as np

from coverwalk._arrays import Floats
from coverwalk.forest.settings import Settings
from coverwalk.forest.target_choice import bounded, choose_y, held_out, score_of
from coverwalk.preparation.columns import MixedInputs, recoded


def choose_categories(
    X: Floats,
    Y: Floats,
    weight: Floats | None,
    tables: tuple[MixedInputs, MixedInputs],
    settings: Settings,
    bounds: Any,
) -> MixedInputs:
    """Tables by which columns keep their most frequent categories, or have the effects of all on Y (n, q).

    X (n, p): rows numbered by the first of the given tables, which have every category; the second have the most
    frequent ones. The effects that judge are those in rows that are not held out.
    """
    every, frequent = tables
    if frequent.categories == every.categories:
        return every
    gain, plain = 0.0, recoded(X, every, frequent)
    for j in range(Y.shape[1]):
        y = np.ascontiguousarray(Y[:, j])
        given = bounded(replace(settings, n_categories=frequent.n_categories), bounds, j, Y.shape[1])
        judge = choose_y(plain, y, given, weight=weight)
        for part, rest in held_out(plain, y, judge):
            others = np.delete(np.arange(len(y)), part)
            found = every.with_effects(X[others], Y[others], None if weight is None else weight[others])
            for mixed, sign in ((found, 1.0), (frequent, -1.0)):
                of_rest, of_part = ((recoded(X[rows], every, mixed), y[rows]) for rows in (rest, part))
                coded = replace(judge, n_categories=mixed.n_categories)
                gain += sign * float(score_of(of_rest, of_part, coded).sum())
    return every.with_effects(X, Y, weight) if gain > 0.0 else frequent
