"""Arrays by their addresses: how one kernel reads the trees of a whole forest, each with arrays of its own.

A tree can so be replaced without moving the others. Who makes a table of addresses keeps the arrays alive, and checks
their types and layout (`coverwalk.forest.tree_table`).
"""

from typing import Any

import numpy as np
from numba import carray  # type: ignore[attr-defined]
from numba.core import types
from numba.extending import intrinsic

from coverwalk._arrays import Ints
from coverwalk._kernels._compile import kernel


def _pointer(typing: Any, address: Any) -> Any:
    """A pointer from an integer."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.int64), generate


pointer: Any = intrinsic(_pointer)


@kernel
def floats_1(where: Ints, size: Ints, t: int, a: int) -> Any:
    """Array a of tree t: floats, one dimension."""
    return carray(pointer(where[t, a]), (size[t, a, 0],), np.float64)


@kernel
def floats_2(where: Ints, size: Ints, t: int, a: int) -> Any:
    """Two dimensions."""
    return carray(pointer(where[t, a]), (size[t, a, 0], size[t, a, 1]), np.float64)


@kernel
def floats_3(where: Ints, size: Ints, t: int, a: int) -> Any:
    """Three dimensions."""
    return carray(pointer(where[t, a]), (size[t, a, 0], size[t, a, 1], size[t, a, 2]), np.float64)


@kernel
def ints_2(where: Ints, size: Ints, t: int, a: int) -> Any:
    """Integers of 64 bits, two dimensions."""
    return carray(pointer(where[t, a]), (size[t, a, 0], size[t, a, 1]), np.int64)


@kernel
def ints_1(where: Ints, size: Ints, t: int, a: int) -> Any:
    """Integers of 64 bits, one dimension."""
    return carray(pointer(where[t, a]), (size[t, a, 0],), np.int64)
