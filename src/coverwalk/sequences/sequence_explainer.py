"""Where the predictions of a SequenceModel come from: covers, contexts, and the posterior over context trees."""

from collections.abc import Hashable
from typing import Any

import numpy as np

from coverwalk._arrays import Floats
from coverwalk._kernels.sequences import suffix_store
from coverwalk.locks import reading, reads
from coverwalk.sequences.context_tree import (
    BORDER_SIGN,
    ContextTree,
    best_trees,
    context_text,
    order_posterior,
    sample_tree,
    stop_weights,
)
from coverwalk.sequences.lattice_engine import LatticeEngine
from coverwalk.sequences.sequence_parameters import check
from coverwalk.sequences.sequence_reader import SequenceReader
from coverwalk.sequences.suffix_engine import ContextWeight, SuffixEngine


class SequenceExplainer(SequenceReader):
    """How a SequenceModel explains its predictions."""

    _words = {  # noqa: RUF012
        **SequenceReader._words,
        "posterior ->": "list of ContextWeight\n    Order, symbols, visits and weights of each context.",
        "contributions ->": "dict\n    Fractions by the name of the cover. They sum to one.",
        "explain ->": "str\n    The table.",
        "map_tree ->": "list of ContextTree\n    The most probable tree first, each with its ``posterior``.",
        "sample_trees ->": "list of ContextTree\n    The trees, each with its ``posterior``.",
        "order_posterior ->": "array (depth + 1,)\n    Probabilities that sum to one.",
    }

    def posterior(self, context: Any = None) -> list[ContextWeight]:
        """The contexts of a prediction of the suffix tree, from the empty one to the longest known, with their weights.

        The weights sum to one, except that with the refining walk contexts that were never met have the rest.
        """
        with reading(self):
            place = self._place(context)
            if isinstance(self._engine, LatticeEngine):
                raise ValueError(
                    "posterior weights of contexts belong to the suffix tree, and this model mixes covers: see "
                    "`contributions`, or make it with effort=0"
                )
            weights: list[ContextWeight] = self._engine.context_weights(place, self._past(context))
        return weights

    @reads
    def contributions(self) -> dict[str, float]:
        """The contribution of each cover to the log-odds of the predictions."""
        self._check_fitted()
        return self._engine.contributions() if isinstance(self._engine, LatticeEngine) else {"suffix": 1.0}

    @reads
    def explain(self, context: Any = None) -> str:
        """A table of the contexts of a prediction; for a lattice, the contribution of each cover."""
        self._check_fitted()
        if isinstance(self._engine, LatticeEngine):
            return "\n".join(f"{name:10} {part:6.1%}" for name, part in self.contributions().items())
        lines = ["order    visits  stop w  weight  tables    full  repeat  context"]
        for row in self.posterior(context):
            numbers = "  ".join(f"{x:6.3f}" for x in row[3:])
            lines.append(f"{row.order:5d} {row.visits:9d}  {numbers}  {context_text(row.context)}")
        return "\n".join(lines)

    @reads
    def map_tree(self, k: int = 1) -> list[ContextTree]:
        """The k most probable context trees. For the refining walk without switching."""
        check("k", k, k >= 1, "at least 1")
        return best_trees(stop_weights(self._exact()), self._alphabet.symbols, k)

    @reads
    def sample_trees(self, n: int, seed: int | np.random.Generator | None = None) -> list[ContextTree]:
        """Draw context trees from their posterior. For the refining walk without switching."""
        check("n", n, n >= 0, "0 or more")
        weights, rng = stop_weights(self._exact()), np.random.default_rng(seed)
        return [sample_tree(weights, self._alphabet.symbols, rng) for _ in range(n)]

    @reads
    def order_posterior(self) -> Floats:
        """Posterior of the order of the source: the length of the longest context of its tree, from 0 to ``depth``.

        For the refining walk without switching. Only contexts that were met are considered.
        """
        return order_posterior(stop_weights(self._exact()))

    def _exact(self) -> suffix_store.SuffixStore:
        """The suffix tree, where the walk is the exact posterior over context trees."""
        self._check_fitted()
        if isinstance(self._engine, SuffixEngine) and not self._alphabet.grows:
            mode, share = self._engine.store.settings[[suffix_store.MODE, suffix_store.SHARE]]
            if mode == suffix_store.REFINE and share == 0:
                return self._engine.store
        raise ValueError(
            'context trees have a posterior only with walk="refine", no switching and a fixed alphabet, got '
            f"walk={self.walk!r}, switching={self.switching!r}, alphabet={self.alphabet!r}: make such a model"
        )

    def _past(self, context: Any) -> tuple[Hashable, ...]:
        """The symbols before the next one, old to new, at most as many as the suffix tree is deep."""
        depth = self._engine.depth
        if context is not None:
            return tuple(context)[max(len(context) - depth, 0) :]
        past = tuple(self._alphabet.decode(self._engine.newest()))
        return (BORDER_SIGN, *past) if len(past) < depth and self.borders else past
