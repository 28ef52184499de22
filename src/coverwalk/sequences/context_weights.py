"""Why a prediction is what it is: the contexts that had a say in it, with their weights."""

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from coverwalk._arrays import Ints
from coverwalk._kernels.sequences import suffix_store, suffix_walk
from coverwalk.sequences.context_tree import context_text


class ContextWeight(NamedTuple):
    """What one context has to say about the next symbol."""

    order: int  # its length
    context: tuple[Hashable, ...]  # its symbols, old to new
    visits: int  # how often it was met
    stop: float  # w: the probability that the walk stops here if it comes by
    weight: float  # the probability that it stops here and nowhere else
    tables: float  # v of the Pitman-Yor process with fractional tables
    full_counts: float  # v of the Dirichlet
    repeat: float  # v of the newest symbol again


def context_weights(
    tree: suffix_store.SuffixStore, path: Ints, length: int, longest: int, past: Sequence[Hashable]
) -> list[ContextWeight]:
    """One row a context of the path, from the empty one on; ``past`` are the symbols before, old to new."""
    level = np.empty((len(path), suffix_store.LEVEL_COLUMNS))
    suffix_walk.weigh(tree, path, length, longest, level)
    mode = tree.settings[suffix_store.MODE]
    w = level[:length, suffix_store.W]
    outward = w if mode == suffix_store.REFINE else w[::-1]  # in the order of the walk
    weights = outward * np.cumprod(np.append(1.0, 1.0 - outward[:-1]))
    if mode != suffix_store.REFINE:
        weights = weights[::-1]
    rows = []
    for order in range(length):
        q, r = level[order, [suffix_store.REPEAT, suffix_store.R]] if mode == suffix_store.COARSEN_MIXED else (0.0, 1.0)
        node = path[order]
        visits = tree.node_value[node, suffix_store.N] if node >= 0 else node != suffix_store.FRESH
        v = (float((1 - q) * (1 - r)), float((1 - q) * r), float(q))
        context = tuple(past[len(past) - order :])
        rows.append(ContextWeight(order, context, int(visits), float(w[order]), float(weights[order]), *v))
    return rows


def weights_text(rows: list[ContextWeight]) -> str:
    """The rows as a table."""
    lines = ["order    visits  stop w  weight  tables    full  repeat  context"]
    for row in rows:
        numbers = "  ".join(f"{x:6.3f}" for x in row[3:])
        lines.append(f"{row.order:5d} {row.visits:9d}  {numbers}  {context_text(row.context)}")
    return "\n".join(lines)
