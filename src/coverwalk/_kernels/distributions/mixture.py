"""Rows of mixtures: every row is a weighted set of components, a component is y = loc + scale * e."""

import math
from typing import NamedTuple

from coverwalk._arrays import Floats, Ints, Ints32
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.distributions.shapes import STUDENT, Table, atoms_tails
from coverwalk._kernels.distributions.student import student_tail


class Components(NamedTuple):
    """The n rows' m components, flat; row i is answered by components offsets[i]:offsets[i+1]."""

    offsets: Ints  # (n + 1,)
    weight: Floats  # (m,) sums to one in each row
    loc: Floats  # (m,)
    scale: Floats  # (m,) positive
    shape: Ints32  # (m,) index into the table of shapes


@kernel
def row_tails(components: Components, table: Table, i: int, y: float) -> tuple[float, float]:
    """P(Y <= y) and P(Y > y) of row i."""
    weight, loc, scale, shape = components.weight, components.loc, components.scale, components.shape
    kind, df, log_norm = table.kind, table.df, table.log_norm
    lower, upper = 0.0, 0.0
    for m in range(components.offsets[i], components.offsets[i + 1]):
        s = shape[m]
        e = (y - loc[m]) / scale[m]
        if kind[s] == STUDENT:
            tail = student_tail(e, df[s], log_norm[s])
            lower += weight[m] * (tail if e < 0.0 else 1.0 - tail)
            upper += weight[m] * (1.0 - tail if e < 0.0 else tail)
        else:
            below, above = atoms_tails(table, s, e)
            lower += weight[m] * below
            upper += weight[m] * above
    # weights sum to one to rounding only; a probability of 1 + 2e-16 would not be one
    return min(lower, 1.0), min(upper, 1.0)


@kernel
def mixture_cdf(components: Components, table: Table, y: Floats, lower: Floats, upper: Floats) -> None:
    """Fill lower, upper (n, k): P(Y <= y[i, j]) and P(Y > y[i, j]) of row i. NaN in, NaN out."""
    for i in range(y.shape[0]):
        for j in range(y.shape[1]):
            at = y[i, j]
            if math.isnan(at):
                lower[i, j] = upper[i, j] = math.nan
            elif math.isinf(at):
                lower[i, j] = 1.0 if at > 0.0 else 0.0
                upper[i, j] = 1.0 - lower[i, j]
            else:
                lower[i, j], upper[i, j] = row_tails(components, table, i, at)


@kernel
def mixture_moments(components: Components, table: Table, mean: Floats, var: Floats) -> None:
    """Fill mean, var (n,): exact sums over components; the variance about the mean by a second pass."""
    for i in range(mean.size):
        first, last = components.offsets[i], components.offsets[i + 1]
        center = 0.0
        for m in range(first, last):
            if components.weight[m] > 0.0:
                center += components.weight[m] * (
                    components.loc[m] + components.scale[m] * table.mean[components.shape[m]]
                )
        spread = 0.0
        for m in range(first, last):
            if components.weight[m] > 0.0:
                s, scale = components.shape[m], components.scale[m]
                away = components.loc[m] + scale * table.mean[s] - center
                # 0 * inf is NaN: a component whose scale^2 underflows still has no variance if its shape has none
                own = table.var[s] if table.var[s] == math.inf else scale * scale * table.var[s]
                spread += components.weight[m] * (own + away * away)
        mean[i], var[i] = center, spread


@kernel
def draw_components(components: Components, u: Floats, out: Ints) -> None:
    """Fill out (n, k): the component of row i, chosen by the uniform u[i, j] with its weight."""
    for i in range(u.shape[0]):
        first, last = components.offsets[i], components.offsets[i + 1]
        for j in range(u.shape[1]):
            rest = u[i, j]
            chosen = -1
            for m in range(first, last):
                if components.weight[m] > 0.0:
                    chosen = m  # the last component with a weight, should rounding leave a rest
                    rest -= components.weight[m]
                    if rest < 0.0:
                        break
            out[i, j] = chosen
