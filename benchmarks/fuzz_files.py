"""Forge model files, many of them, and load them: each is refused with ModelFileError, or is a model that works.

Real files of every estimator and state are changed by somebody who knows the format and its checksum: keys, items and
arrays are deleted, added, copied and swapped, numbers become -1, a length, 2**31, 2**63 - 1 or NaN; some files are
damaged blindly as well. What loads must predict, learn a row and be saved, without an error of any kind. Workers are
forked from one process that has compiled everything. A worker that dies is replaced, and its file counts as a failure,
as does one that takes more than 5 s of CPU time, or more memory than 10 times the file and 300 MB, or that raises
another error than ModelFileError.

    python benchmarks/fuzz_files.py [--files 200000] [--seed 0] [--workers 2] [--models TEXT] [--only NUMBER]
"""

import argparse
import collections
import copy
import json
import os
import pickle
import resource
import signal
import struct
import tempfile
import time
import traceback
import warnings
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from fuzz_models import models
from tqdm import tqdm

from coverwalk import ModelFileError, load
from coverwalk.files.container import FORMAT, pieces
from coverwalk.files.saving import encoded

SECONDS, TIMES, SPARE = 5.0, 10, 300 * 2**20
NUMBERS = [-1, 0, 1, 2, 7, 63, 64, 511, 2**31 - 1, 2**31, 2**53, 2**62, 2**63 - 1, -(2**31), -(2**63), 2**64, 10**40]
REALS = [-1.0, 0.0, 0.5, 1.0, 1e-99, 1e-300, 5e-324, 1e50, 1e99, 1e150, 1e300, 1.7e308, -1e300, np.nan, np.inf, -np.inf]
OTHERS = [None, True, False, "", "x", "@", [], {}, [[]], {"list": []}, "y" * 5000, {"array": "<f8", "of": [1.0]}]
NAMES = [
    "_check_loaded",
    "logpdf",
    "save",
    "__class__",
    "__dict__",
    "_schema",
    "__setstate__",
    "is",
    "new",
    "n_estimators",
]


def file_of(tree, arrays):
    """The bytes of a file, with a right checksum."""
    metadata = {"format": "coverwalk", "version": str(FORMAT), "written_by": "fuzz", "model": json.dumps(tree)}
    return b"".join(map(bytes, pieces(metadata, arrays)))


def places(node):
    """All places of a tree that hold a value: (container, key)."""
    found, stack = [], [node]
    while stack:
        here = stack.pop()
        for key in here if isinstance(here, dict) else range(len(here)):
            found.append((here, key))
            if isinstance(here[key], dict | list):
                stack.append(here[key])
    return found


def change_tree(tree, arrays, others, rng):
    """One change of the header's values."""
    spots = places(tree) or [([0], 0)]
    here, key = spots[rng.integers(len(spots))]
    kind = rng.choice(["set", "set", "set", "nudge", "delete", "add", "copy", "swap", "repeat", "foreign"])
    if kind == "set":
        lengths = [len(here), *(array.size for array in arrays.values())]
        pool = [*NUMBERS, *REALS, *OTHERS, lengths[rng.integers(len(lengths))]]
        here[key] = copy.deepcopy(pool[rng.integers(len(pool))])
    elif kind == "nudge" and isinstance(here[key], int | float):
        here[key] += int(rng.choice([-1, 1]))
    elif kind == "delete":
        del here[key]
    elif kind == "add" and isinstance(here, dict):
        here[str(rng.choice(NAMES))] = copy.deepcopy(OTHERS[rng.integers(len(OTHERS))])
    elif kind in ("repeat", "add") and isinstance(here, list):
        here[key:key] = [copy.deepcopy(here[key])] * int(rng.choice([1, 1, 1, 50]))
    elif kind == "foreign":
        there, other = (spots := places(others))[rng.integers(len(spots))]
        here[key] = copy.deepcopy(there[other])
    else:
        there, other = spots[rng.integers(len(spots))]
        value = copy.deepcopy(there[other])
        if kind == "swap":
            there[other] = copy.deepcopy(here[key])
        here[key] = value


def change_arrays(tree, arrays, others, rng):
    """One change of the arrays."""
    names = sorted(name for name in arrays if arrays[name].size)
    name, other = names[rng.integers(len(names))], names[rng.integers(len(names))]
    array = arrays[name] = arrays[name].copy()
    flat = array.reshape(-1)
    kind = rng.choice(
        ["set"] * 6 + ["delete", "add", "swap", "copy", "shorter", "dtype", "shuffle", "fill", "part", "turn"]
    )
    if kind in ("set", "fill"):
        if array.dtype.kind == "f":
            value = REALS[rng.integers(len(REALS))]
        elif array.dtype.kind == "b":
            value = bool(rng.integers(2))
        else:
            ends = np.iinfo(array.dtype)
            pool = [n for n in [*NUMBERS, len(array), array.size, len(array) - 1] if ends.min <= n <= ends.max]
            value = pool[rng.integers(len(pool))]
        at = slice(None) if kind == "fill" else rng.integers(flat.size, size=int(rng.choice([1, 1, 1, 5])))
        flat[at] = value
    elif kind == "delete":
        del arrays[name]
    elif kind == "add":
        arrays[f"model.{rng.choice(NAMES)}"] = array
    elif kind == "swap":
        arrays[name], arrays[other] = arrays[other], arrays[name]
    elif kind == "copy":
        arrays[name] = arrays[other].copy()
    elif kind == "shorter":
        shorter = array[:-1].copy() if rng.random() < 0.5 else np.concatenate([array, array])
        if shorter.size:
            arrays[name] = shorter
    elif kind == "dtype":
        arrays[name] = array.astype(rng.choice(["f8", "f4", "i8", "i4", "u1"]))
    elif kind == "shuffle":
        rng.shuffle(array)
    elif kind == "turn":
        arrays[name] = np.ascontiguousarray(array.T)
    else:  # the arrays of one part for those of another
        ours, theirs = name.rpartition(".")[0], other.rpartition(".")[0]
        for field in [n for n in names if n.rpartition(".")[0] == ours]:
            twin = theirs + field[len(ours) :]
            if twin in arrays:
                arrays[field], arrays[twin] = arrays[twin], arrays[field]


def damaged(content, rng):
    """The bytes of a file, damaged blindly or in the entries of its arrays; the checksum knows nothing of it."""
    content = bytearray(content)
    (length,) = struct.unpack("<Q", content[:8])
    at = int(rng.integers(len(content) if rng.random() < 0.3 else min(8 + length, len(content))))
    kind = rng.integers(5)
    if kind == 0:
        content[at] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        del content[at:]
    elif kind == 2:
        content[at:at] = rng.bytes(int(rng.integers(1, 20)))
    elif kind == 3:
        content[:8] = struct.pack("<Q", int(rng.choice([0, 1, 7, length - 1, length + 1, 2**31, 2**62])))
    else:
        header = json.loads(content[8 : 8 + length])
        spots = [(here, key) for here, key in places(header) if here is not header.get("__metadata__")]
        here, key = spots[rng.integers(len(spots))]
        here[key] = copy.deepcopy([*NUMBERS, *OTHERS][rng.integers(len(NUMBERS) + len(OTHERS))])
        text = json.dumps(header).encode()
        content[: 8 + length] = struct.pack("<Q", len(text)) + text
    return bytes(content)


def forge(number, originals, seed):
    """File number so and so: its bytes, and what to do with the model if it loads."""
    rng = np.random.default_rng([seed, number])
    name, tree, arrays, use = originals[number % len(originals)]
    others = originals[rng.integers(len(originals))][1]
    tree, arrays = pickle.loads(tree), dict(arrays)
    for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
        change = change_arrays if arrays and rng.random() < 0.6 else change_tree
        inner = tree.get("fields")
        whole = not isinstance(inner, dict | list) or not inner or rng.random() < 0.01
        change(tree if whole else inner, arrays, pickle.loads(others), rng)
    content = file_of(tree, {key: array for key, array in arrays.items() if array.size})
    return name, damaged(content, rng) if rng.random() < 0.1 else content, use


def outcome(path, content, use):
    """Load the file and use the model; a word for what came of it."""
    path.write_bytes(content)
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    room = 1024 * int(status["VmSize"].split()[0]) + TIMES * len(content) + SPARE
    resource.setrlimit(resource.RLIMIT_AS, (room, resource.RLIM_INFINITY))
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        model = load(path)
    except ModelFileError:
        return "refused"
    except BaseException as error:
        return f"FAILED: load raised {type(error).__name__}: {error}"[:200]
    try:
        with np.errstate(all="ignore"):
            use(model)
        model.save(path)
    except MemoryError:
        return "FAILED: memory\n" + traceback.format_exc()
    except BaseException as error:
        return f"FAILED: {type(error).__name__}: {error}\n{traceback.format_exc()}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return "loaded, predicted, learned and saved"


def work(numbers, originals, seed, folder, pipe):
    """A worker: says which file it begins, and what came of it."""
    path = Path(folder) / f"{os.getpid()}.cover"
    warnings.simplefilter("ignore")
    with os.fdopen(pipe, "w", buffering=1) as out:
        for number in numbers:
            name, content, use = forge(number, originals, seed)
            out.write(json.dumps([number, name, None, 0.0]) + "\n")
            start = time.process_time()
            said = outcome(path, content, use)
            out.write(json.dumps([number, name, said, time.process_time() - start]) + "\n")
    path.unlink(missing_ok=True)


class Worker:
    """A forked process that works through its numbers, and the end of a pipe in which it tells of them."""

    def __init__(self, numbers, *about):
        self.numbers, self.about = numbers, about
        here, there = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(here)
                work(numbers, *about, there)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(0)
        os.close(there)
        self.lines = os.fdopen(here)

    def outcomes(self):
        """Of all its files; where it died, it is replaced."""
        last = None
        for line in self.lines:
            number, name, said, seconds = json.loads(line)
            last = (number, name) if said is None else None
            if said is not None:
                yield number, name, said, seconds
        _, status = os.waitpid(self.pid, 0)
        if last is not None:
            number, name = last
            died = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else "the worker ended"
            yield number, name, f"FAILED: {died}", SECONDS
            rest = self.numbers[self.numbers.index(number) + 1 :]
            if rest:
                yield from Worker(rest, *self.about).outcomes()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=200_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first file")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--models", default="", help="those whose names have this text")
    parser.add_argument("--only", type=int, help="forge one file again, without a worker, and leave it in fuzz.cover")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        originals = []
        for name, model, use in models():
            if arguments.models not in name:
                continue
            path = Path(folder) / "whole.cover"
            model.save(path)
            use(load(path))  # which compiles all that the workers will need
            tree, arrays = encoded(model)
            originals.append((name, pickle.dumps(tree), arrays, use))
        if arguments.only is not None:
            name, content, use = forge(arguments.only, originals, arguments.seed)
            Path("fuzz.cover").write_bytes(content)
            print(name, outcome(Path(folder) / "only.cover", content, use))
            return
        numbers = range(arguments.first, arguments.first + arguments.files)
        about = originals, arguments.seed, folder
        workers = [Worker(numbers[k :: arguments.workers], *about) for k in range(arguments.workers)]
        counts, failures, slowest = collections.Counter(), [], (0.0, 0, "")
        with tqdm(total=arguments.files, disable=None) as bar:
            streams = [worker.outcomes() for worker in workers]
            while streams:
                for stream in list(streams):
                    told = next(stream, None)
                    if told is None:
                        streams.remove(stream)
                        continue
                    number, name, said, seconds = told
                    slowest = max(slowest, (seconds, number, name))
                    counts[name, said.split("\n")[0]] += 1
                    if said.startswith("FAILED"):
                        failures.append(told)
                        print(f"file {number}, {name}: {said}", flush=True)
                    bar.update()
                    if bar.disable and sum(counts.values()) % 10_000 == 0:
                        print(f"{sum(counts.values())} files, {len(failures)} failures", flush=True)
    seconds, number, name = slowest
    print(f"{arguments.files} files, {len(failures)} failures; {seconds:.2f} s of CPU time for file {number}, {name}")
    totals = collections.Counter()
    for (_, said), count in counts.items():
        totals[said] += count
    for said, count in totals.most_common():
        print(f"  {count:7d}  {said}")
    by_name = collections.Counter()
    for (name, _), count in counts.items():
        by_name[name] += count
    print("; ".join(f"{name} {count}" for name, count in by_name.items()))


if __name__ == "__main__":
    main()
