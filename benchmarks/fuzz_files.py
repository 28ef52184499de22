"""Damage model files at random, many times: each must be refused with ModelFileError, never load, crash or hang.

Half of the files are damaged blindly (flipped bits, cuts, insertions, overwritten stretches: the checksum must notice).
The others are forged by someone who knows the checksum: hostile numbers in an array or in the header; these may load
only as a model that answers and goes on learning.

    python benchmarks/fuzz_files.py [--files 100000] [--seed 0]
"""

import argparse
import collections
import json
import tempfile
import time
from pathlib import Path

import numpy as np
from coverwalk._encoding import encode
from tqdm import tqdm

from coverwalk import (
    ConditionalDensity,
    ContextClassifier,
    CoverModel,
    Density,
    ModelFileError,
    SequenceModel,
    load,
)
from coverwalk import persistence as files
from coverwalk.covers import KDTree, ShiftedGrids, SuffixTree
from coverwalk.datasets import MIXTURES
from coverwalk.local import Dirichlet, KernelDensity, Polynomial, TreeDensity
from coverwalk.streams.double_tree import DoubleTree

HOSTILE = ["-1", "0", "7", "null", '"x"', "[]", "{}", "1e300", "9223372036854775807", "-9223372036854775808", "true"]


def models(rng):
    """Small models of every kind that files hold, each with what a loaded one is asked and goes on to learn."""
    X, y = rng.uniform(-1, 1, (60, 2)), rng.standard_normal(60)
    cover = CoverModel(KDTree(), [Polynomial(1), TreeDensity(), KernelDensity()], priors="parent")
    cover.update_many(X[:20, :1], y[:20])
    boxes = CoverModel(ShiftedGrids(-1, 1, 2), Polynomial(0), walk="coarsen")
    boxes.update_many(X[:20, :1], y[:20])
    letters = CoverModel(SuffixTree(2), Dirichlet("ab"))
    letters.update_many(["", "a", "ab", "aba"], "abab")
    forest = ConditionalDensity(n_trees=2, stop=0.5).fit(X, y)
    ring, z = MIXTURES["ring"].make(100, 0)
    kernel = ConditionalDensity(n_trees=2).fit(ring, z)  # with a kernel density beside the trees
    stream = ConditionalDensity(covers="kd").fit(X, y)
    copies = DoubleTree(children="parent", walk="refine", settle=16).fit(X, np.stack([y, -y], axis=1))
    classes = ContextClassifier(2, 2, random_state=0).fit(X, np.array(["no", "yes", "maybe"])[np.arange(60) % 3])
    text = SequenceModel(alphabet="abc").fit("abcabccbaabc" * 4)

    def vectors(model):
        for x, value in zip(X[:3, :1], y):
            model.log_predict(x, value)
            model.update(x, value)

    def rows(model):
        model.logpdf(X, y)
        model.predict_dist(X[:5]).cdf(0.0)
        if hasattr(model, "partial_fit"):
            model.partial_fit(np.tile(X, (3, 1)), np.tile(y, 3))

    def outputs(model):
        model.logpdf(X, np.stack([y, y], axis=1))
        model.partial_fit(np.tile(X, (3, 1)), np.tile(np.stack([y, y], axis=1), (3, 1)))

    def points(model):
        model.score_samples(y)
        model.predict_dist().cdf(0.0)
        if hasattr(model, "partial_fit"):
            model.partial_fit(np.tile(y, 3))

    def labels(model):
        model.predict_proba(X)
        model.contexts(X[:2])
        model.partial_fit(X[:9], model.classes_[np.arange(9) % len(model.classes_)])

    def symbols(model):
        model.log_predict("ab", "a")
        model.update("ab", "a")

    def documents(model):
        model.log_loss("abcab")
        model.partial_fit("abcba")

    return [
        *((cover, vectors), (boxes, vectors), (letters, symbols), (forest, rows), (stream, rows), (copies, outputs)),
        (kernel, lambda model: model.logpdf(ring, z)),
        *((Density(2).fit(y), points), (Density(covers="kd").fit(y), points), (classes, labels), (text, documents)),
    ]


def blind(content, rng):
    """A damaged copy, never equal to the original."""
    damaged = bytearray(content)
    at = int(rng.integers(len(content) if rng.random() < 0.5 else min(2000, len(content))))
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


def forged(text, arrays, rng):
    """A file with a right checksum around one hostile number."""
    arrays = dict(arrays)
    if arrays and rng.random() < 0.7:
        name = rng.choice(sorted(arrays))
        array = arrays[name] = arrays[name].copy()
        kinds = {"f": [-1.0, 0.0, 1e300, -1e300, np.nan, np.inf], "b": [True]}
        hostile = kinds.get(array.dtype.kind, [-1, 0, 1, 2**31 - 1, -(2**31), array.size])
        array.reshape(-1)[rng.integers(array.size)] = rng.choice(hostile)
    else:
        pieces = text.split(":")
        at = int(rng.integers(1, len(pieces)))
        value, comma, rest = pieces[at].partition(",")
        closing = value[len(value.rstrip("}]")) :]
        pieces[at] = rng.choice(HOSTILE) + closing + comma + rest
        text = ":".join(pieces)
    metadata = {"format": "coverwalk", "version": "1", "written_by": "fuzz", "model": text}
    metadata["digest"] = files._digest(metadata, arrays)
    return files.serialize(arrays, metadata)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    outcome, slowest = collections.Counter(), 0.0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.cw"
        originals = []
        for model, use in models(rng):
            model.save(path)
            tree, arrays = encode(model)
            originals.append((path.read_bytes(), json.dumps(tree, separators=(",", ":")), arrays, use))
        for i in tqdm(range(arguments.files), disable=None):
            content, text, arrays, use = originals[i % len(originals)]
            knows = rng.random() < 0.5
            path.write_bytes(forged(text, arrays, rng) if knows else blind(content, rng))
            start = time.perf_counter()
            try:
                loaded = load(path)
            except ModelFileError:
                outcome["forged, refused" if knows else "blind, refused"] += 1
            else:
                assert knows, "a damaged file was taken for a whole one"
                outcome["forged, sound"] += 1
                with np.errstate(all="ignore"):
                    try:
                        use(loaded)
                    except (ValueError, ArithmeticError, LookupError, TypeError, AttributeError) as error:
                        outcome[f"  of these, {str(loaded)[:40]} said {type(error).__name__}: {error}"[:160]] += 1
            slowest = max(slowest, time.perf_counter() - start)
    print(f"{arguments.files} files, none loaded that was damaged, no crash; slowest {slowest:.2f} s")
    for what, count in outcome.items():
        print(f"  {count:7d}  {what}")


if __name__ == "__main__":
    main()
