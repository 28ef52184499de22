"""How columns of more categories than splits tell apart become numbers, chosen on held-out rows."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from coverwalk._arrays import Floats
from coverwalk.forest.class_rows import ClassRows
from coverwalk.forest.settings import Settings
from coverwalk.forest.target_choice import bounded, choose_y, held_out, score_of
from coverwalk.preparation.columns import MixedInputs, recoded
from coverwalk.preparation.row_codes import canonical_order

MAX_ROWS = 2000  # of which half judge groups
FOLDS = 4  # in which they do: a category has few rows, and should not lose many of them


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


def choose_groups(
    rows: ClassRows,
    tables: tuple[MixedInputs, MixedInputs],
    log_proba: Callable[[ClassRows, Floats, MixedInputs], Floats],
) -> MixedInputs:
    """Tables by which columns keep their most frequent categories, or have groups of all in which classes are alike.

    rows: numbered by the first of the given tables, as in `choose_categories`; log_proba: what a forest of some rows
    predicts for others, both numbered by a table.
    """
    every, frequent = tables
    if frequent.categories == every.categories:
        return every
    gain, order = 0.0, canonical_order(rows.X, rows.y.astype(np.float64))
    for fold in range(FOLDS):
        part = order[:MAX_ROWS][fold :: 2 * FOLDS]
        rest = np.delete(order[:MAX_ROWS], slice(fold, None, 2 * FOLDS))
        others = np.delete(np.arange(len(order)), part)
        found = every.with_groups(rows.X[others], rows.y[others], rows.weight[others])
        for mixed, sign in ((found, 1.0), (frequent, -1.0)):
            grown = ClassRows(recoded(rows.X[rest], every, mixed), rows.y[rest], rows.weight[rest])
            predicted = log_proba(grown, recoded(rows.X[part], every, mixed), mixed)
            gain += sign * float(rows.weight[part] @ predicted[np.arange(len(part)), rows.y[part]])
    return every.with_groups(*rows) if gain > 0.0 else frequent
