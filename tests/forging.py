"""Files that someone has changed who knows the format and its checksum."""

import json

import numpy as np

from coverwalk.files.container import FORMAT, pieces
from coverwalk.files.objects import Object
from coverwalk.files.saving import encoded


def file_of(tree, arrays, **metadata):
    """The bytes of a file, with a right checksum."""
    text = tree if isinstance(tree, str) else json.dumps(tree)
    known = {"format": "coverwalk", "version": str(FORMAT), "written_by": "x", "model": text}
    return b"".join(map(bytes, pieces({**known, **metadata}, arrays)))


def rewritten(model, change):
    """The bytes of a file whose header was changed as text."""
    tree, arrays = encoded(model)
    return file_of(change(json.dumps(tree)), arrays)


def retold(model, change):
    """The bytes of a file whose header was changed as values."""
    tree, arrays = encoded(model)
    tree = json.loads(json.dumps(tree))
    change(tree["fields"])
    return file_of(tree, arrays)


def forged(model, name, change):
    """The bytes of a file one of whose arrays was changed."""
    tree, arrays = encoded(model)
    arrays = {key: np.array(array) for key, array in arrays.items()}
    arrays[name] = change(arrays[name])
    return file_of(tree, arrays)


def put(value, at=0):
    """A change of one number of an array."""

    def change(array):
        array.reshape(-1)[at] = value
        return array

    return change


def mutate(content, rng):
    """A damaged copy, never equal to the original."""
    damaged = bytearray(content)
    at = int(rng.integers(len(content))) if rng.random() < 0.5 else int(rng.integers(min(2000, len(content))))
    kind = rng.integers(4)
    if kind == 0:
        damaged[at] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        del damaged[at:]
    elif kind == 2:
        damaged[at:at] = rng.bytes(int(rng.integers(1, 20)))
    else:
        damaged[at : at + 8] = rng.bytes(min(8, len(damaged) - at))
    return bytes(damaged) if damaged != content else content[:-1]


def check(thing, **dimensions):
    """Raise SchemaError for an object that its schema does not allow."""
    field, store = Object(type(thing), **dimensions), {}
    return field.read(field.write(thing, "it", store), "it", store, {}, "it")
