"""Ask one tree: for every row the contexts on its path, their local models, and what each says."""

import math

import numpy as np
from numpy.typing import NDArray

from coverwalk._kernels._compile import kernel
from coverwalk._kernels.contexts import gram_of
from coverwalk._kernels.linear_algebra import factorise, leverage, pack, packed_leverage, forward_solve
from coverwalk._kernels.polynomial import features, inner_product, n_features, value
