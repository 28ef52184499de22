"""The categories of one column: which have a number of their own, and which."""

import hashlib
from collections import Counter
from collections.abc import Iterable
from numbers import Real
from typing import Any

import numpy as np

from coverwalk._arrays import Floats
from coverwalk._kernels.forest.node import OWN_CATEGORIES, UNSEEN

OTHERS = "(others)"  # the name that categories without a number of their own share


def column_values(column: Any) -> list[Any]:
    """Python values, None where one is missing."""
    if not isinstance(column, list):
        column = column.to_list() if hasattr(column, "to_list") else np.asarray(column).tolist()
    plain = (value.item() if isinstance(value, np.generic) else value for value in column)
    return [None if value is None or type(value).__name__ == "NAType" or value != value else value for value in plain]


def most_frequent(column: Any) -> list[Any]:
    """The distinct values in a fixed order; of too many the most frequent, and one name for all others."""
    return frequent_categories(Counter(value for value in column_values(column) if value is not None))


def all_categories(column: Any) -> list[Any]:
    """The distinct values in a fixed order."""
    return in_order({value for value in column_values(column) if value is not None}) or [OTHERS]


def in_order(categories: Iterable[Any]) -> list[Any]:
    """Categories in a fixed order, whatever their types."""
    return sorted(categories, key=lambda value: (str(type(value)), int(value) if isinstance(value, bool) else value))


def frequent_categories(counts: dict[Any, int]) -> list[Any]:
    """The table of categories that came so often; of equally frequent ones those that pseudo-random numbers choose."""
    categories = in_order(counts)
    if len(categories) > OWN_CATEGORIES:
        named = (category for category in categories if category != OTHERS)
        kept = set(sorted(named, key=lambda value: (-counts[value], digest(value)))[:OWN_CATEGORIES])
        categories = [*(category for category in categories if category in kept), OTHERS]
    return categories or [OTHERS]  # a column without values has one category, which never came


def digest(value: Any) -> float:
    """A pseudo-random number that a category alone decides."""
    kind = "text" if isinstance(value, str) else "number" if isinstance(value, Real) else type(value).__name__
    name = f"{kind}:{float(value) if kind == 'number' else value}".encode()  # 1, 1.0 and True are one category
    return float(int.from_bytes(hashlib.blake2b(name, digest_size=6).digest(), "little"))


def extended(categories: list[Any], column: Any) -> list[Any]:
    """A table with the new categories of a column behind it as long as there are numbers; itself where none is new."""
    known, new = set(categories), []
    for value in column_values(column):
        if value is not None and value not in known:
            if len(known) - (OTHERS in known) >= OWN_CATEGORIES:
                new += [] if OTHERS in known else [OTHERS]
                break
            known.add(value)
            new.append(value)
    return categories + new if new else categories


def numbered(categories: list[Any]) -> dict[Any, float]:
    """The number of each category of a table."""
    return {category: float(i) for i, category in enumerate(categories)}


def encoded(column: Any, numbers: dict[Any, float]) -> Floats:
    """The number of each value's category; of others that of OTHERS, or UNSEEN where the table has none."""
    others = numbers.get(OTHERS, float(UNSEEN))
    return np.array([np.nan if value is None else numbers.get(value, others) for value in column_values(column)])
