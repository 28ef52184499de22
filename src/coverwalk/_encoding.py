"""Between a model and plain values: what JSON can say, arrays by name, and objects of the classes listed here.

Nothing else is ever made on the way back: a file can name no class that is not in the list and calls no code but the
checks of these classes.
"""

import math
from collections import Counter
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Arrays", "EncodingError", "decode", "encode"]

Arrays = dict[str, NDArray[Any]]

# The classes that files may hold, by their home. `_check_loaded(self)`, where a class has it, raises ValueError
# for values that could not have come from this class.
_CLASSES = {
    "CoverModel": "coverwalk.cover_model",
    "_Belief": "coverwalk.cover_model",
    "_Row": "coverwalk.cover_model",
    "Stopping": "coverwalk.walk",
    "Refining": "coverwalk.walk",
    "Coarsening": "coverwalk.walk",
    "DyadicBoxes": "coverwalk.covers.boxes",
    "ChoiceBoxes": "coverwalk.covers.boxes",
    "ShiftedGrids": "coverwalk.covers.boxes",
    "KDTree": "coverwalk.covers.kdtree",
    "_Node": "coverwalk.covers.kdtree",
    "SuffixTree": "coverwalk.covers.suffix",
    "CoverTree": "coverwalk.covers.metric",  # only to say that its metric is a function
    "Polynomial": "coverwalk.local.polynomial",
    "PolynomialPosterior": "coverwalk.local.polynomial",
    "TreeDensity": "coverwalk.local.tree_density",
    "TreeDensityPosterior": "coverwalk.local.tree_density",
    "KernelDensity": "coverwalk.local.kernel_density",
    "KernelDensityPosterior": "coverwalk.local.kernel_density",
    "Dirichlet": "coverwalk.local.dirichlet",
    "DirichletPosterior": "coverwalk.local.dirichlet",
    "ConditionalDensity": "coverwalk.conditional_density",
    "Forest": "coverwalk.forests.forest",
    "FittedTree": "coverwalk.forests.forest",
    "Part": "coverwalk.forests.forest",
    "Settings": "coverwalk.forests.forest",
    "Steps": "coverwalk.forests.steps",
    "Cells": "coverwalk.forests.cells",
    "Trend": "coverwalk.forests.trend",
    "KernelContext": "coverwalk.forests.kernel_context",
    "Scaling": "coverwalk.forests.scaling",
    "AdaptiveTree": "coverwalk.covers.adaptive",
    "Records": "coverwalk._kernels.voices",
    "Fill": "coverwalk.forests.local_columns",
    "DensityForest": "coverwalk.densities.density_forest",
    "CellTree": "coverwalk.densities.cell_tree",
    "Normals": "coverwalk.densities.normal_tree",
    "MixedInputs": "coverwalk.mixed_inputs",
    "StreamChain": "coverwalk.streams.chain",
    "ForestStream": "coverwalk.streams.forest_stream",
    "StreamSettings": "coverwalk.streams.growth",
    "Growth": "coverwalk.streams.growth",
    "StreamState": "coverwalk._kernels.stream_state",
    "Shapes": "coverwalk.shapes",
    "SequenceModel": "coverwalk.sequence",
    "Alphabet": "coverwalk.sequences.alphabet",
    "SuffixStore": "coverwalk._kernels.suffix_tree",
    "LatticeStore": "coverwalk._kernels.sequences.store",
    "ContextClassifier": "coverwalk.classifier",
    "_Rows": "coverwalk.classifier",
    "ClassForest": "coverwalk.forests.class_forest",
    "Standard": "coverwalk.forests.class_forest",
    "Unseen": "coverwalk.forests.pooling",
    "ClassTree": "coverwalk.covers.classes",
    "Planting": "coverwalk.covers.classes",
    "Density": "coverwalk.density",
    "DoubleTree": "coverwalk.streams.double_tree",
    "KdEngine": "coverwalk.streams.kd_engine",
    "Plan": "coverwalk.streams.kd_engine",
    "Units": "coverwalk.streams.running_scale",
}


class EncodingError(ValueError):
    """A value that files cannot hold, or a file that holds what no model has."""


_INLINE = 32  # smaller arrays stand in the header itself: thousands of tiny ones would swell the file
_DTYPES = {np.dtype(code).str for code in ("f8", "f4", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?")}


def encode(model: Any) -> tuple[Any, Arrays]:
    """The tree of a model as JSON values, and its arrays."""
    encoder = _Encoder()
    return encoder.encode(model, "model"), encoder.arrays


def decode(tree: Any, arrays: Arrays) -> Any:
    """The model of a tree; EncodingError for anything that `encode` could not have written."""
    decoder = _Decoder(arrays)
    try:
        model = decoder.decode(tree)
        for thing in decoder.objects:
            check = getattr(thing, "_check_loaded", None)
            if check is not None:
                check()
    except EncodingError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise EncodingError(f"a value is not what it should be ({type(error).__name__}: {error})") from error
    return model


class _Encoder:
    def __init__(self) -> None:
        self.arrays: Arrays = {}
        self._numbers: dict[int, int] = {}
        self._places: dict[int, str] = {}  # where an array, by its id, is written
        self._alive: list[Any] = []  # an id is only good while its object lives

    def encode(self, value: Any, where: str) -> Any:
        if value is None or (isinstance(value, bool | int | str) and not isinstance(value, np.generic)):
            return value
        if isinstance(value, np.generic):
            return {"scalar": value.dtype.str, "value": self.encode(value.item(), where)}
        if isinstance(value, float):
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, np.ndarray):
            return self._array(value, where)
        name = type(value).__name__
        if _CLASSES.get(name) == type(value).__module__:
            return self._object(value, name, where)
        if isinstance(value, dict):
            pairs = [[self.encode(k, where), self.encode(v, f"{where}[{k!r}]")] for k, v in value.items()]
            return {"counter" if isinstance(value, Counter) else "dict": pairs}
        for kind in (list, tuple, set, frozenset):
            if type(value) is kind:
                items = sorted(value, key=repr) if kind in (set, frozenset) else value
                return {kind.__name__: [self.encode(item, f"{where}[{i}]") for i, item in enumerate(items)]}
        if isinstance(value, np.random.RandomState | np.random.Generator):
            return self._random(value, where)
        hint = "functions cannot be stored" if callable(value) else "only coverwalk's own parts and plain values can"
        raise EncodingError(f"{where} is a {type(value).__module__}.{type(value).__qualname__}; {hint}")

    def _array(self, value: NDArray[Any], where: str) -> Any:
        if value.dtype.kind in "UO":
            return {"objects": self.encode(value.tolist(), where), "dtype": "U" if value.dtype.kind == "U" else "O"}
        if value.dtype.str not in _DTYPES:
            raise EncodingError(f"{where} is an array of {value.dtype}, which files do not hold")
        if value.size <= _INLINE:
            values = [self.encode(item, where) for item in value.ravel().tolist()]
            return {"values": values, "dtype": value.dtype.str, "shape": list(value.shape)}
        if id(value) not in self._places:  # parts of a model may share an array
            self._places[id(value)] = where
            self._alive.append(value)
            self.arrays[where] = np.ascontiguousarray(value)
        return {"array": self._places[id(value)]}

    def _random(self, value: np.random.RandomState | np.random.Generator, where: str) -> Any:
        """The state of a generator of one of the two usual kinds; its next draw is the same after loading."""
        old = isinstance(value, np.random.RandomState)
        state = value.get_state(legacy=False) if isinstance(value, np.random.RandomState) else value.bit_generator.state
        if state["bit_generator"] != ("MT19937" if old else "PCG64"):
            raise EncodingError(f"{where} draws with {state['bit_generator']}, which files do not hold")
        return {"random": "RandomState" if old else "Generator", "state": self.encode(state, where)}

    def _object(self, value: Any, name: str, where: str) -> Any:
        if id(value) in self._numbers:
            return {"again": self._numbers[id(value)]}
        number = self._numbers[id(value)] = len(self._numbers)
        self._alive.append(value)
        head = {"object": name, "number": number}
        if isinstance(value, tuple):  # a NamedTuple
            return {**head, "fields": [self.encode(item, f"{where}.{i}") for i, item in enumerate(value)]}
        return {**head, "state": {k: self.encode(v, f"{where}.{k}") for k, v in (value.__getstate__() or {}).items()}}


class _Decoder:
    def __init__(self, arrays: Arrays) -> None:
        self._arrays = arrays
        self._objects: dict[int, Any] = {}

    @property
    def objects(self) -> list[Any]:
        return list(self._objects.values())

    def decode(self, node: Any) -> Any:
        if node is None or isinstance(node, bool | int | float | str):
            return node
        if not isinstance(node, dict):
            raise EncodingError(f"a bare {type(node).__name__} stands where a value should")
        tag = next(iter(node), "nothing")
        return self._READERS.get(tag, _Decoder._unknown)(self, node)

    def _unknown(self, node: dict[str, Any]) -> Any:
        raise EncodingError(f"no value is written as {next(iter(node), 'nothing')!r}")

    def _scalar(self, node: dict[str, Any]) -> Any:
        if node["scalar"] not in _DTYPES:
            raise EncodingError(f"no model has a number of type {node['scalar']!r}")
        return np.dtype(node["scalar"]).type(self.decode(node["value"]))

    def _float(self, node: dict[str, Any]) -> float:
        if node["float"] not in ("inf", "-inf", "nan"):
            raise EncodingError(f"{node['float']!r} is no number")
        return float(node["float"])

    def _list(self, node: dict[str, Any]) -> list[Any]:
        return [self.decode(item) for item in node["list"]]

    def _tuple(self, node: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(self.decode(item) for item in node["tuple"])

    def _set(self, node: dict[str, Any]) -> set[Any]:
        return {self.decode(item) for item in node["set"]}

    def _frozenset(self, node: dict[str, Any]) -> frozenset[Any]:
        return frozenset(self.decode(item) for item in node["frozenset"])

    def _dict(self, node: dict[str, Any]) -> dict[Any, Any]:
        return {self.decode(k): self.decode(v) for k, v in node["dict"]}

    def _counter(self, node: dict[str, Any]) -> "Counter[Any]":
        return Counter({self.decode(k): self.decode(v) for k, v in node["counter"]})

    def _values(self, node: dict[str, Any]) -> NDArray[Any]:
        if node["dtype"] not in _DTYPES:
            raise EncodingError(f"no model has an array of {node['dtype']!r}")
        return np.array([self.decode(v) for v in node["values"]], dtype=node["dtype"]).reshape(node["shape"])

    def _objects_array(self, node: dict[str, Any]) -> NDArray[Any]:
        return np.array(self.decode(node["objects"]), dtype=object if node["dtype"] == "O" else None)

    def _array(self, node: dict[str, Any]) -> NDArray[Any]:
        return self._arrays[node["array"]]

    def _random(self, node: dict[str, Any]) -> np.random.RandomState | np.random.Generator:
        state = self.decode(node["state"])
        if node["random"] == "Generator":
            generator = np.random.default_rng(0)
            generator.bit_generator.state = state
            return generator
        if not (isinstance(state["state"]["pos"], int) and 0 <= state["state"]["pos"] <= 624):
            raise EncodingError("a random generator stands where none can")
        old = np.random.RandomState(0)
        old.set_state(state)
        return old

    def _again(self, node: dict[str, Any]) -> Any:
        return self._objects[node["again"]]

    def _object(self, node: dict[str, Any]) -> Any:
        if node["number"] in self._objects:  # the first of the two would go unchecked
            raise EncodingError(f"two parts have the number {node['number']}")
        home = _CLASSES.get(node["object"])
        if home is None:
            raise EncodingError(f"no model has a part of the class {node['object']!r}")
        cls = getattr(import_module(home), node["object"])
        if "fields" in node:
            made = cls._make(self.decode(value) for value in node["fields"])
        else:
            made = cls.__new__(cls)
            self._objects[node["number"]] = made  # before its state: an object may hold itself
            made.__dict__.update({name: self.decode(value) for name, value in node["state"].items()})
        self._objects[node["number"]] = made
        return made

    _READERS = {  # noqa: RUF012  (a table, never changed)
        "scalar": _scalar,
        "float": _float,
        "list": _list,
        "tuple": _tuple,
        "set": _set,
        "frozenset": _frozenset,
        "dict": _dict,
        "counter": _counter,
        "values": _values,
        "objects": _objects_array,
        "array": _array,
        "random": _random,
        "again": _again,
        "object": _object,
    }
