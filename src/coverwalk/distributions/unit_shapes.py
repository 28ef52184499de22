"""Histograms over (0, 1), in the map of `_kernels.distributions.real_line`, as shapes on the real line."""

import numpy as np

from coverwalk._arrays import Floats
from coverwalk._kernels.distributions.real_line import CORE, TAILS
from coverwalk.distributions.shapes import Shapes

__all__ = ["unit_shapes"]

_NOTHING = 1e-300  # a shape whose component has no weight still has masses


def unit_shapes(left: Floats, width: Floats, mass: Floats) -> tuple[list[Shapes], list[float]]:
    """Masses on cells of (0, 1) as two shapes on the real line, a flat core and two tails; and the mass of each.

    Cells are sorted, and none crosses an end of the core, 1/8 or 7/8.
    """
    core = (left >= 0.125) & (left < 0.875)
    # The tails are those of Student's t, each scaled to 1/8. Both ends are mapped, so that cells meet, and reach 1.
    begin, end = (np.where(u < 0.5, u / TAILS, 1.0 - (1.0 - u) / TAILS) for u in (left[~core], (left + width)[~core]))
    parts = (mass[core], mass[~core])
    flat, tails = (np.maximum(part, _NOTHING / len(part)) for part in parts)
    shapes = [
        Shapes.cells(flat / flat.sum(), (left[core] - 0.5) * (CORE / 0.375), width[core] * (CORE / 0.375)),
        Shapes.t2_cells(tails / tails.sum(), begin, end - begin),
    ]
    return shapes, [max(float(part.sum()), _NOTHING) for part in parts]
