"""The suffix tree of a sequence: level k knows the last k symbols; the paper's Example 1 and Section 3.1."""

from collections.abc import Sequence
from typing import Any

from coverwalk.base import Context, Cover
from coverwalk.files.schema import Schema, Whole

__all__ = ["SuffixTree"]


class SuffixTree(Cover):
    """Suffixes of x up to a depth, where x is any sequence of hashable symbols: the past.

    The symbol None stands before the beginning, so every past has a context at every level.

    >>> SuffixTree(depth=2).contexts("abc")
    [[()], [('c',)], [('b', 'c')]]
    """

    nested = True
    _schema = Schema(depth=Whole(0, 1000), check=lambda state, scope: scope.update(p=None))  # x is no vector

    def __init__(self, depth: int) -> None:
        if depth < 0:
            raise ValueError(f"depth must be 0 or more, got {depth}")
        self.depth = depth

    def check(self, x: Any) -> tuple[Any, ...]:
        """The last ``depth`` symbols of the past; the rest cannot matter."""
        try:
            recent = tuple(x[len(x) - self.depth :] if len(x) > self.depth else x)
            hash(recent)
        except TypeError as error:
            raise ValueError(f"x must be a sequence of hashable symbols, the past, got {x!r}") from error
        return recent

    def contexts(self, x: Any) -> Sequence[Sequence[Context]]:
        """The last k symbols, for k = 0 to depth."""
        padded = (None,) * (self.depth - len(x)) + tuple(x)
        return [[padded[len(padded) - k :]] for k in range(self.depth + 1)]
