"""Ask for memory before it is needed, where a kernel knows where it will read next and the processor cannot."""

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import config, types
from numba.extending import intrinsic

_INT32 = ir.IntType(32)
_READ, _KEEP, _DATA = _INT32(0), _INT32(3), _INT32(1)  # to read; into every level of the cache; data, not code


def _prefetch(typing: Any, array: Any, place: Any) -> Any:
    """Have the processor fetch array[place:place + 8], one line of its cache; it waits for nothing and changes nothing.

    array is flat and place a `numpy.uint64`.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        pointer = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, _INT32, _INT32, _INT32])
        fetch = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], kind)
        builder.call(fetch, [pointer, _READ, _KEEP, _DATA])
        return context.get_dummy_value()

    return types.void(array, place), generate


def _nothing(array: Any, place: Any) -> None:
    """In place of it where kernels run as plain Python."""


prefetch: Any = _nothing if config.DISABLE_JIT else intrinsic(_prefetch)  # type: ignore[attr-defined]
