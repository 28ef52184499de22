"""Random numbers by counting: a stream is one number, so trees can be grown in any order and on any thread."""

import numpy as np

from coverwalk._arrays import UInts
from coverwalk._kernels._compile import kernel


@kernel
def mix(bits: np.uint64) -> np.uint64:
    """Splitmix64's finaliser: a counter in, random bits out."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


@kernel
def uniform(state: UInts) -> float:
    """The next number in [0, 1) of a random stream; its state (1,) moves on."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    return float(mix(state[0]) >> np.uint64(11)) * (1.0 / 9007199254740992.0)
