"""The components for x in a double tree: with which probability the walk stops where, and in which local model."""

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.double_tree.state import Settings, State
from coverwalk._kernels.double_tree.walk import O_EXPONENT, O_ODDS, V_EXPONENT, V_ODDS, find
from coverwalk._kernels.odds import mixture

__all__ = ["component_weights"]


@kernel
def component_weights(s: State, c: Settings, X: Floats, path: Ints, normal: Floats, depth: Floats) -> None:
    """Write, for each row of X (n, p), the weight of the normals (n,) and the mean depth of stopping (n,).

    path is scratch for as many contexts as there are depths.
    """
    for t in range(X.shape[0]):
        deepest = find(s, X, t, path)
        reach, weight, stopped = 1.0, 0.0, 0.0
        for j in range(deepest + 1):
            k = j if c.refine else deepest - j
            m = path[k]
            stop = 1.0 if j == deepest else mixture(s.xf[m, O_ODDS], s.xi[m, O_EXPONENT], 0.0, 1.0)
            weight += reach * stop * mixture(s.xf[m, V_ODDS], s.xi[m, V_EXPONENT], 0.0, 1.0)
            stopped += reach * stop * k
            reach *= 1.0 - stop
        normal[t] = weight
        depth[t] = stopped
