"""What a context of a forest is, in the units and names of the inputs, as people read it."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np


class Context(NamedTuple):
    """A context that predicts: which, how many rows it holds, the degree of its best polynomial, and where it is."""

    tree: int  # -1: the kernel density of y given x over the whole space; -2: cells of y common to all x
    context: int
    n_rows: int
    degree: int
    # the half-open intervals (low, high] of the inputs that were split; lists of categories
    box: Mapping[str, tuple[float, float] | list[str]]

    def __str__(self) -> str:
        """Short, for plots.

        >>> print(Context(3, 7, 42, 1, {"age": (-np.inf, 30.0), "town": ["Bern", "Rome"]}))
        age <= 30, town in Bern, Rome (42 rows)
        """
        if self.tree < 0:
            return "kernels over all rows" if self.tree == -1 else "cells of y common to all x"
        sides = []
        for name, side in self.box.items():
            if isinstance(side, list):
                sides.append(f"{name} in {', '.join(side)}")
            else:
                low, high = (f"{end:.3g}" for end in side)
                below = f" <= {high}" if side[1] < np.inf else ""
                sides.append(f"{low} < {name}{below}" if side[0] > -np.inf else f"{name}{below}")
        text = ", ".join(sides) or "everywhere"
        return f"{text if len(text) <= 40 else text[:39] + '…'} ({self.n_rows} rows)"
