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
