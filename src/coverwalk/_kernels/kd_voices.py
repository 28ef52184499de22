"""Who speaks for x in a double pseudo-tree: with which probability the walk stops where, and in which local model."""

from coverwalk._kernels._compile import kernel
from coverwalk._kernels.kd_state import Floats, KdState, Longs, Settings
from coverwalk._kernels.kd_walk import O_ODDS, O_STEPS, V_ODDS, V_STEPS, find
from coverwalk._kernels.odds import mixture

__all__ = ["voices"]


@kernel
def voices(s: KdState, c: Settings, X: Floats, path: Longs, normal: Floats, depth: Floats) -> None:
    """Write, for each row of X (n, p), the probability that a normal speaks (n,) and the mean depth of stopping (n,).

    path is scratch for as many contexts as there are depths.
    """
    for t in range(X.shape[0]):
        deepest = find(s, X, t, path)
        reach, spoken, stopped = 1.0, 0.0, 0.0
        for j in range(deepest + 1):
            k = j if c.refine else deepest - j
            m = path[k]
            stop = 1.0 if j == deepest else mixture(s.xf[m, O_ODDS], s.xi[m, O_STEPS], 0.0, 1.0)
            spoken += reach * stop * mixture(s.xf[m, V_ODDS], s.xi[m, V_STEPS], 0.0, 1.0)
            stopped += reach * stop * k
            reach *= 1.0 - stop
        normal[t] = spoken
        depth[t] = stopped
