"""What a method takes and returns is told once, in the docstring of the class that declares it."""

import inspect
import re
from types import FunctionType
from typing import Any

__all__ = ["Documented"]

_SECTIONS = re.compile(r"^(?:Parameters|Returns)\n-+\n.*?(?=^(?:Examples|Notes)\n-+\n|\Z)", re.MULTILINE | re.DOTALL)


class Documented:
    """Methods of subclasses take over the sections Parameters and Returns of the method that they override.

    A method with a section of its own keeps its docstring as it is.

    >>> class Shape(Documented):
    ...     def area(self):
    ...         '''The area.
    ...
    ...         Returns
    ...         -------
    ...         float
    ...             In square metres.
    ...         '''
    >>> class Square(Shape):
    ...     def area(self):
    ...         '''The side, squared.'''
    >>> Square.area.__doc__.splitlines()
    ['The side, squared.', '', 'Returns', '-------', 'float', '    In square metres.']
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, method in vars(cls).items():
            if name.startswith("_") or not isinstance(method, FunctionType) or not method.__doc__:
                continue
            doc = inspect.cleandoc(method.__doc__)
            if _SECTIONS.search(doc):
                continue
            inherited = (_SECTIONS.search(inspect.cleandoc(vars(base)[name].__doc__ or ""))
                         for base in cls.__mro__[1:] if name in vars(base))  # fmt: skip
            told = next((found[0].strip() for found in inherited if found), None)
            if told:
                summary, header, examples = doc.partition("\n\nExamples\n--------\n")
                method.__doc__ = f"{summary}\n\n{told}{header}{examples}"
