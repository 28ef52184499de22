"""Where the predictions of a SequenceModel come from: covers, contexts, and the posterior over context trees."""

from collections.abc import Hashable
from typing import Any

import numpy as np

from coverwalk._arrays import Floats
from coverwalk._kernels.sequences import suffix_store
from coverwalk._kernels.sequences.store import LatticeStore
from coverwalk.locks import reading, reads
from coverwalk.sequences import lattice_engine, suffix_engine
from coverwalk.sequences.context_tree import BORDER_SIGN, ContextTree, best_trees, stop_weights
from coverwalk.sequences.context_weights import ContextWeight, context_weights, weights_text
from coverwalk.sequences.sequence_parameters import check
from coverwalk.sequences.sequence_reader import SequenceReader
from coverwalk.sequences.tree_posterior import order_posterior, sample_tree


class SequenceExplainer(SequenceReader):
    """How a SequenceModel explains its predictions."""

    def posterior(self, context: Any = None) -> list[ContextWeight]:
        """The contexts of a prediction of the suffix tree, from the empty one to the longest known, with their weights.

        The weights sum to one, except that with the refining walk contexts that were never met have the rest.

        Returns
        -------
        list of ContextWeight
            Order, symbols, visits and weights of each context.
        """
        with reading(self):
            place = self._place(context)
            if isinstance(self._store, LatticeStore):
                raise ValueError(
                    "posterior weights of contexts belong to the suffix tree, and this model mixes covers: see "
                    "`contributions`, or make it with effort=0"
                )
            assert isinstance(place, suffix_engine.Place)
            length, longest = place.lengths
            return context_weights(self._store, place.path, int(length), int(longest), self._past(context))

    @reads
    def contributions(self) -> dict[str, float]:
        """The contribution of each cover to the log-odds of the predictions.

        Returns
        -------
        dict
            Fractions by the name of the cover. They sum to one.
        """
        self._check_fitted()
        if not isinstance(self._store, LatticeStore):
            return {"suffix": 1.0}
        return lattice_engine.contributions(self._store, *self._functions(self._store))

    @reads
    def explain(self, context: Any = None) -> str:
        """A table of the contexts of a prediction; for a lattice, the contribution of each cover.

        Returns
        -------
        str
            The table.
        """
        self._check_fitted()
        if isinstance(self._store, LatticeStore):
            return "\n".join(f"{name:10} {part:6.1%}" for name, part in self.contributions().items())
        return weights_text(self.posterior(context))

    @reads
    def map_tree(self, k: int = 1) -> list[ContextTree]:
        """The k most probable context trees. For the refining walk without switching.

        Returns
        -------
        list of ContextTree
            The most probable tree first, each with its ``posterior``.
        """
        check("k", k, k >= 1, "at least 1")
        return best_trees(stop_weights(self._exact()), self._alphabet.symbols, k)

    @reads
    def sample_trees(self, n: int, seed: int | np.random.Generator | None = None) -> list[ContextTree]:
        """Draw context trees from their posterior. For the refining walk without switching.

        Returns
        -------
        list of ContextTree
            The trees, each with its ``posterior``.
        """
        check("n", n, n >= 0, "0 or more")
        weights, rng = stop_weights(self._exact()), np.random.default_rng(seed)
        return [sample_tree(weights, self._alphabet.symbols, rng) for _ in range(n)]

    @reads
    def order_posterior(self) -> Floats:
        """Posterior of the order of the source: the length of the longest context of its tree, from 0 to ``depth``.

        For the refining walk without switching. Only contexts that were met are considered.

        Returns
        -------
        array (depth + 1,)
            Probabilities that sum to one.
        """
        return order_posterior(stop_weights(self._exact()))

    def _exact(self) -> suffix_store.SuffixStore:
        """The suffix tree, where the walk is the exact posterior over context trees."""
        self._check_fitted()
        store = self._store
        if isinstance(store, suffix_store.SuffixStore) and not self._alphabet.grows:
            mode, share = store.settings[[suffix_store.MODE, suffix_store.SHARE]]
            if mode == suffix_store.REFINE and share == 0:
                return store
        raise ValueError(
            'context trees have a posterior only with walk="refine", no switching and a fixed alphabet, got '
            f"walk={self.walk!r}, switching={self.switching!r}, alphabet={self.alphabet!r}: make such a model"
        )

    def _past(self, context: Any) -> tuple[Hashable, ...]:
        """The symbols before the next one, old to new, at most as many as the suffix tree is deep."""
        assert isinstance(self._store, suffix_store.SuffixStore)
        depth = suffix_engine.depth_of(self._store)
        if context is not None:
            return tuple(context)[max(len(context) - depth, 0) :]
        past = tuple(self._alphabet.decode(suffix_engine.newest(self._store)))
        return (BORDER_SIGN, *past) if len(past) < depth and self.borders else past
