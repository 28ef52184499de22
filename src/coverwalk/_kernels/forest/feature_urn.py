"""Which feature a candidate splits: those that have divided contexts of the tree before are drawn more often.

A Pólya urn: the next feature is that of an earlier split, or a new one with the weight of a few splits. So the drawn
features follow a Dirichlet prior over all of them, updated by the splits that were found. Where few of many features
matter, the trees find them; where all do, they are drawn as evenly as before.
"""

from typing import NamedTuple

import numpy as np

from coverwalk._arrays import Ints, UInts
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.linalg.splitmix import uniform

PRIOR_SPLITS = 10.0  # the weight of all features together before any split, in splits
CLEAR = 3.0  # nats that a split must gain to count: odds of 20 to 1


class Urn(NamedTuple):
    """The features of the splits that a tree has had so far."""

    feature: Ints  # (n,) of which the first are known
    known: Ints  # (1,) how many


def empty_urn(n: int) -> Urn:
    """For a tree of n rows."""
    return Urn(np.empty(n, np.int64), np.zeros(1, np.int64))


@kernel
def draw_feature(urn: Urn, p: int, state: UInts) -> int:
    """One of p features."""
    known = urn.known[0]
    u = uniform(state) * (PRIOR_SPLITS + known)
    if u < PRIOR_SPLITS or known == 0:
        return min(int(u * (p / PRIOR_SPLITS)), p - 1)  # the product may be rounded up
    return int(urn.feature[min(int(u - PRIOR_SPLITS), known - 1)])


@kernel
def put_feature(urn: Urn, feature: int, gain: float) -> None:
    """A split was found; gain: of its log evidence, or log likelihood, over that of none."""
    if feature >= 0 and gain > CLEAR:
        urn.feature[urn.known[0]] = feature
        urn.known[0] += 1
