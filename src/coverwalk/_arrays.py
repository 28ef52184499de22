"""Arrays as signatures name them, by what they hold."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Ints32 = NDArray[np.int32]
UInts = NDArray[np.uint64]
Bytes = NDArray[np.uint8]
Bools = NDArray[np.bool_]
