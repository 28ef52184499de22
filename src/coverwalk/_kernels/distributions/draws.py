"""Exact draws from rows of mixtures: a component by its weight, then a value of its shape, without inversion."""

# A compiled function is Any to its caller.
# mypy: disable-error-code="no-any-return"

import math

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels._compile import kernel
from coverwalk._kernels.distributions.mixture import Components
from coverwalk._kernels.distributions.shapes import CELLS, KERNELS, STUDENT, Table, find_cell


@kernel
def _student(df: float, u: float, v: float) -> float:
    """A Student t from two uniforms, u > 0: the polar form of Box and Muller with a radius that has heavy tails.

    Bailey (1994), Mathematics of Computation 62, 779: r^2 = df (u^(-2/df) - 1), and -2 log u for the normal.
    """
    square = -2.0 * math.log(u)
    if df < math.inf:
        square = df * math.expm1(square / df)
    return math.sqrt(square) * math.cos(2.0 * math.pi * v)


@kernel
def _choose(weight: Floats, first: int, last: int, u: float) -> tuple[int, float]:
    """The component of first:last that a uniform u chooses by its weight, and what is left of u within it."""
    chosen = -1
    for m in range(first, last):
        if weight[m] > 0.0:
            chosen = m  # the last one with a weight, should rounding leave a rest
            if u < weight[m]:
                break
            u -= weight[m]
    return chosen, u


@kernel
def draw_components(components: Components, u: Floats, out: Ints) -> None:
    """Fill out (n, k): the component of row i, chosen by the uniform u[i, j] with its weight."""
    for i in range(u.shape[0]):
        for j in range(u.shape[1]):
            out[i, j] = _choose(components.weight, components.offsets[i], components.offsets[i + 1], u[i, j])[0]


@kernel
def draw_rows(components: Components, table: Table, u: Floats, out: Floats) -> None:
    """Fill out (n, k) with draws of row i from uniforms u (3, n, k) in [0, 1).

    The first chooses the component and, by what is left of it within the component's weight, an atom of its shape.
    """
    offsets, weights, locs, scales, shape = components
    kind, df, start, mass = table.kind, table.df, table.start, table.weight
    center, width, below = table.center, table.width, table.below
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            m, rest = _choose(weights, offsets[i], offsets[i + 1], u[0, i, j])
            s = shape[m]
            if kind[s] == STUDENT:
                e = _student(df[s], 1.0 - u[1, i, j], u[2, i, j])
            else:
                inside = min(rest / weights[m], 1.0)
                a = max(find_cell(below, start[s], start[s + 1], inside), start[s])
                while a > start[s] and mass[a] == 0.0:
                    a -= 1
                if kind[s] == KERNELS:
                    e = center[a] + width[a] * _student(math.inf, 1.0 - u[1, i, j], u[2, i, j])
                elif kind[s] == CELLS:
                    e = center[a] + width[a] * u[1, i, j]
                else:
                    # generators give 0 too, whose quantile would be -inf
                    p = max(center[a] + width[a] * u[1, i, j], 2.0**-54)
                    e = (2.0 * p - 1.0) / math.sqrt(2.0 * p * (1.0 - p))
            out[i, j] = locs[m] + scales[m] * e
