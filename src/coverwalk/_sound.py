"""The two questions that every check of a loaded model is made of: does this hold, and is this the array we want?"""

from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["check_array", "check_names", "check_with_nan", "hold", "is_real", "is_whole"]


def hold(what: str, condition: Any) -> None:
    """Raise ValueError unless the condition, or every entry of it, is true."""
    if not np.all(condition):
        raise ValueError(f"{what} of the model is not sound")


def check_array(
    name: str, array: NDArray[Any], shape: tuple[int, ...], dtype: Any = np.float64, finite: bool = True
) -> None:
    """Just this shape and dtype, for which kernels are compiled; finite, or else at least no NaN."""
    if (
        not isinstance(array, np.ndarray)
        or array.shape != shape
        or array.dtype != dtype
        or not array.flags.c_contiguous
    ):
        found = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
        raise ValueError(f"{name} of the model must be an array of {np.dtype(dtype)} {shape}, the file has {found}")
    if np.dtype(dtype).kind == "f":
        hold(name, np.isfinite(array) if finite else ~np.isnan(array))


def check_with_nan(name: str, array: NDArray[Any], shape: tuple[int, ...]) -> None:
    """An array of floats that may be NaN but not infinite."""
    hold(name, isinstance(array, np.ndarray) and array.dtype == np.float64)
    check_array(name, array.view(np.int64), shape, np.int64)
    hold(name, ~np.isinf(array))


def is_whole(value: Any, least: float = -np.inf, most: float = np.inf) -> bool:
    """Whether a value is a whole number within bounds; True and False are none."""
    truth = isinstance(value, bool | np.bool_)
    return not truth and isinstance(value, Integral) and least <= int(value) <= most


def is_real(value: Any) -> bool:
    """Whether a value is a finite number; True and False are none."""
    truth = isinstance(value, bool | np.bool_)
    return not truth and isinstance(value, Real) and bool(np.isfinite(float(value)))


def check_names(model: Any) -> None:
    """Raise ValueError unless an estimator's columns and targets have as many names as there are, if any."""
    names, targets = getattr(model, "feature_names_in_", None), getattr(model, "target_names_", None)
    if names is not None:
        hold("names", isinstance(names, np.ndarray) and names.shape == (model.n_features_in_,))
        hold("names", all(isinstance(name, str) for name in names))
    if targets is not None:
        hold("targets", isinstance(targets, list) and len(targets) == getattr(model, "n_outputs_", 1))
        hold("targets", all(isinstance(target, str) for target in targets))
