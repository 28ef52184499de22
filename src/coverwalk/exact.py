"""The slow oracle: enumerates every context map, for tests on tiny cases. Shares no code with anything.

A context map is one outcome of all stop and move variables of the walk; its prior probability is the product of
their probabilities, and the posterior is prior times likelihood, summed over all maps.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import pairwise, product
from math import exp, fsum

__all__ = ["coarsening_predictive", "refining_evidence", "refining_maps", "refining_stop"]

Partitions = Mapping[Hashable, Sequence[Sequence[Hashable]]]  # context -> its partitions, each a list of contexts
StopOf = Callable[[Hashable], float]


def refining_maps(
    partitions: Partitions, stop: StopOf, root: Hashable
) -> Iterator[tuple[float, frozenset[Hashable], frozenset[Hashable]]]:
    """Every context map below a context: its prior probability, where it stops, and what it passes through.

    Partitions of a context are equally probable.
    """
    choices = partitions.get(root, [])
    if not choices:
        yield 1.0, frozenset([root]), frozenset()
        return
    yield stop(root), frozenset([root]), frozenset()
    for children in choices:
        for below in product(*(list(refining_maps(partitions, stop, child)) for child in children)):
            prior = (1 - stop(root)) / len(choices)
            for p, _, _ in below:
                prior *= p
            stops = frozenset().union(*(s for _, s, _ in below))
            passes = frozenset([root]).union(*(t for _, _, t in below))
            yield prior, stops, passes


def refining_evidence(
    partitions: Partitions, stop: StopOf, root: Hashable, log_evidence: Callable[[Hashable], float]
) -> float:
    """Probability of the data: each context that a map stops in explains all of its own rows."""
    return fsum(
        prior * exp(fsum(log_evidence(M) for M in stops)) for prior, stops, _ in refining_maps(partitions, stop, root)
    )


def refining_stop(
    partitions: Partitions, stop: StopOf, root: Hashable, log_evidence: Callable[[Hashable], float], context: Hashable
) -> float:
    """Posterior probability that the walk stops in a context, given that it gets there."""
    stopped, passed = [], []
    for prior, stops, passes in refining_maps(partitions, stop, root):
        posterior = prior * exp(fsum(log_evidence(M) for M in stops))
        if context in stops:
            stopped.append(posterior)
        elif context in passes:
            passed.append(posterior)
    return fsum(stopped) / (fsum(stopped) + fsum(passed))


def coarsening_predictive(
    paths: Sequence[Sequence[Hashable]], densities: Sequence[Mapping[Hashable, float]], stop: StopOf
) -> list[float]:
    """Density of each row given those before it, over all settings of the stop variables of all contexts.

    paths[t] lists the contexts of row t from fine to coarse, the last of which always stops; densities[t] holds the
    predictive density of row t in each of them. Row t belongs to the first context of its path that stops.
    """
    contexts = sorted({M for path in paths for M in path[:-1]}, key=repr)
    totals = [0.0] * (len(paths) + 1)
    for bits in product((True, False), repeat=len(contexts)):
        stops = dict(zip(contexts, bits))
        likelihood = 1.0
        for M, stopped in stops.items():
            likelihood *= stop(M) if stopped else 1 - stop(M)
        totals[0] += likelihood
        for t, (path, density) in enumerate(zip(paths, densities)):
            end = next((M for M in path[:-1] if stops[M]), path[-1])
            likelihood *= density[end]
            totals[t + 1] += likelihood
    return [after / before for before, after in pairwise(totals)]
