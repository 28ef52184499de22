"""Schemas: what a file may hold of a class is declared once, beside the class, and read by one checker.

    @stored(check=_check)                                                     # of a NamedTuple or a dataclass
    class Tree(NamedTuple):
        left: Annotated[Ints, Array(np.int64, "N", children=True)]            # tells N; pairs of children, or -1
        feature: Annotated[Ints, Array(np.int64, "N", index="p", none=True)]  # p comes from whoever holds the tree
        weight: Annotated[Floats, Array(float, "N", "p + 1", low=0, total=1)]

    @stored(trees_=Absent(List(Object(Tree, p="n_features_in_"))))            # of an estimator: what a fit sets
    @dataclass(eq=False, repr=False)
    class Estimator(Saved, BaseEstimator):
        stop: Annotated[float, Real(above=0, below=1)] = 0.5                  # a parameter

    class Model:                                            # other classes have a _schema
        _schema = Schema(
            n_features_in_=Whole(1, 10**6),                 # numbers, flags and texts are known by their name
            trees=List(Object(Tree, p="n_features_in_"), low=1),
            offsets=Array(np.int64, "len(trees) + 1", ...), # parts are known too: trees[0].N
            scale=Maybe(Real(above=0)),                     # or None
            names=Absent(List(Text(), length="n_features_in_")),  # the attribute may be missing
            check=_check,
        )

- The fields are those of ``__getstate__`` (of ``_asdict`` for a NamedTuple); ``__setstate__`` takes them back, where a
  class has one. So locks, caches and spare room are dropped and made again by the two methods that pickle calls, too.
- A file with a key that is not declared, or without one that is, is refused. An object is made without calling its
  class, and only declared fields are set. Nothing in a file names a class, but where a `Object` has several.
- Fields are read in the order of the schema: what tells a dimension stands before what uses it. A dimension belongs to
  its object; a part gets those that its keywords pass on, as expressions of ours, and ``i``, its place in a list.
- The scope of a part also has ``kind``, the name of its class. A `Link` is an object that its holder sets again.
- Dimensions are Python's ints, so no comparison overflows. Arrays are as long as the file; everything else is a
  number. Bound what later work depends on: ``Whole(1, 10_000)`` for a number of trees, not ``Whole(1)``.
- ``check(state, scope)`` says what a table cannot: it sees the checked fields as attributes of ``state`` and the
  dimensions as items of ``scope``, before the object is made, and calls ``require(what, condition)``. Keep it rare.
- `save` reads what it wrote before it touches the disk: a class that has changed beside its schema cannot be saved.
"""

from coverwalk.files.fields import Array, Flag, Names, Real, Text, Whole
from coverwalk.files.limits import Limits, SchemaError, Scope, refuse, require
from coverwalk.files.nesting import Absent, Either, Link, List, Maybe, Random, Set, Table, Tuple
from coverwalk.files.objects import Object, Schema, stored
from coverwalk.files.plain import Labels, Plain

__all__ = [
    "Absent",
    "Array",
    "Either",
    "Flag",
    "Labels",
    "Limits",
    "Link",
    "List",
    "Maybe",
    "Names",
    "Object",
    "Plain",
    "Random",
    "Real",
    "Schema",
    "SchemaError",
    "Scope",
    "Set",
    "Table",
    "Text",
    "Tuple",
    "Whole",
    "refuse",
    "require",
    "stored",
]
