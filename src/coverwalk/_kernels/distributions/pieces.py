"""What y is of the latent y: piece by piece constant, linear or exponential; and the grid to which it is rounded."""

# A compiled function is Any to its caller.
# mypy: disable-error-code="no-any-return"

import math

from coverwalk._arrays import Floats, Ints
from coverwalk._kernels._compile import kernel

CONSTANT, LINEAR, EXPONENTIAL = range(3)

# Edges (P + 1,), kinds (P,) and forms (P, 4): y is a + b phi(z) between two edges of z, with a, b, rate and origin in
# the form; phi is 0, z - origin, or exp(rate (z - origin)), at most one, the rate being 1 or -1
Pieces = tuple[Floats, Ints, Floats]
# origin and step of the grid to which y is rounded, step 0 for none; the limits of y
Grid = tuple[float, float, float, float]


@kernel
def _piece(edges: Floats, z: float) -> int:
    """The piece in which z lies."""
    k = 0
    while k < len(edges) - 2 and edges[k + 1] < z:
        k += 1
    return k


@kernel
def value_of(pieces: Pieces, z: float) -> float:
    """The y of a latent y, before it is rounded."""
    edges, kind, form = pieces
    k = _piece(edges, z)
    part = z - form[k, 3]
    if kind[k] == CONSTANT:
        return form[k, 0]
    return form[k, 0] + form[k, 1] * (part if kind[k] == LINEAR else math.exp(form[k, 2] * part))


@kernel
def latent_of(pieces: Pieces, y: float) -> float:
    """The latent y of a y that no constant piece has inside."""
    edges, kind, form = pieces
    k = 1 if kind[0] == CONSTANT else 0
    while k < len(kind) - 1 and kind[k + 1] != CONSTANT and y > value_of(pieces, edges[k + 1]):
        k += 1
    part = (y - form[k, 0]) / form[k, 1]
    return form[k, 3] + (part if kind[k] == LINEAR else math.log(part) / form[k, 2])


@kernel
def slope_of(pieces: Pieces, z: float) -> float:
    """dy/dz at z; in a constant piece that at its end."""
    edges, kind, form = pieces
    k = _piece(edges, z)
    if kind[k] == CONSTANT:
        k, z = (k + 1, edges[k + 1]) if k == 0 else (k - 1, edges[k])
    return form[k, 1] * (1.0 if kind[k] == LINEAR else form[k, 2] * math.exp(form[k, 2] * (z - form[k, 3])))
