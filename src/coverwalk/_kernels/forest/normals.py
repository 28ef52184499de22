"""The density of a mixture of multivariate Student t distributions."""

import math

import numpy as np

from coverwalk._arrays import Floats
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.distributions.student import log1p

LEAST = 1e-60  # densities below this are nothing beside the tails of the cells


@kernel
def add_normals(Z: Floats, log_norm: Floats, df: Floats, loc: Floats, factor: Floats, out: Floats) -> None:
    """Add to out (n,) the densities at Z (n, q) of multivariate Student t's, log_norm (V,) their logs at loc.

    Most distributions are far from a point: they are passed over as soon as that is known.
    """
    n, q = Z.shape
    V = len(factor)
    z, far, inverse = np.empty(q), np.empty(V), factor.copy()
    for v in range(V):
        far[v] = df[v] * math.expm1(2.0 * (log_norm[v] - math.log(LEAST)) / (df[v] + q))
        at = 0
        for i in range(q):
            inverse[v, at] = 1.0 / factor[v, at]
            at += q - i
    for r in range(n):
        total = 0.0
        for v in range(V):
            for i in range(q):
                z[i] = Z[r, i] - loc[v, i]
            square, at = 0.0, 0
            for i in range(q):
                t = z[i] * inverse[v, at]
                square += t * t
                if square > far[v]:
                    break
                for j in range(i + 1, q):
                    z[j] -= t * factor[v, at + j - i]
                at += q - i
            if square <= far[v]:
                total += math.exp(log_norm[v] - 0.5 * (df[v] + q) * log1p(square / df[v]))
        out[r] += total
