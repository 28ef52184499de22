"""Bits per byte, speed and memory of SequenceModel beside xz, bzip2, PPMd, brotli, zstd, ZPAQ and lpaq, if installed.

    python benchmarks/sequences.py --data FOLDER       (or set COVERWALK_DATA)

FOLDER/seq holds any files. Model: ideal code length; others: size of the file they write. Speed is per second of CPU.
Then bounded memory: the longest file in a quarter of its memory, and small files after it, beside PPMd in the same
memory; decay rates on sources that change; and a Markov chain of known entropy.
"""

import argparse
import resource
from importlib import import_module
from importlib.util import find_spec

import numpy as np

from coverwalk import SequenceModel
from coverwalk.datasets import data_folder
from coverwalk.sequences.compression import compress
from coverwalk.sequences.compressors import compressors


def cpu_seconds():
    """Of this process and of the commands that it ran."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def timed(function, *arguments):
    start = cpu_seconds()
    result = function(*arguments)
    return result, max(cpu_seconds() - start, 1e-9)


def models(efforts):
    """By name, a function from bytes to the size of their ideal code in bytes; and the memory it took, noted beside."""
    memory = {}

    def size(data, effort):
        model = SequenceModel(256, effort=effort)
        bits = model.prequential(data, unit="bits").sum()
        memory[f"effort {effort}"] = model.nbytes_ / len(data)
        return bits / 8

    found = {f"effort {effort}": lambda data, effort=effort: size(data, effort) for effort in efforts}
    return {**found, "compress": lambda data: len(compress(data))}, memory


def files(folder, efforts):
    ours, memory = models(efforts)
    everybody = {**ours, **compressors()}
    print(f"{'bits per byte':14}" + "".join(f"{name:>10}" for name in everybody) + f" {'memory per byte':>16}")
    sizes, seconds, total = np.zeros(len(everybody)), np.zeros(len(everybody)), 0
    table = []
    for path in sorted((folder / "seq").iterdir()):
        data = path.read_bytes()
        measured = [timed(size, data) for size in everybody.values()]
        table.append([8 * length / len(data) for length, _ in measured])
        sizes += [length for length, _ in measured]
        seconds += [spent for _, spent in measured]
        total += len(data)
        print(
            f"{path.name:14}" + "".join(f"{bits:10.4f}" for bits in table[-1]) + f" {list(memory.values())[-1]:16.0f}",
            flush=True,
        )
    print(f"{'mean':14}" + "".join(f"{bits:10.4f}" for bits in np.mean(table, axis=0)))
    print(f"{'all bytes':14}" + "".join(f"{8 * size / total:10.4f}" for size in sizes))
    print(f"{'kB/s':14}" + "".join(f"{total / spent / 1000:10.0f}" for spent in seconds))


def bounded(folder):
    """A quarter of the memory on the longest file; and what another source costs after it, beside PPMd."""
    data = max((path.read_bytes() for path in (folder / "seq").iterdir()), key=len)
    free = SequenceModel(256)
    unlimited = free.prequential(data, unit="bits").mean()
    quarter = max(free.nbytes_ // 4, 8 << 20)
    small = SequenceModel(256, memory=quarter)
    bits = small.prequential(data, unit="bits").mean()
    print(f"\nlongest file in {quarter / 2**20:.1f} MB {bits:.4f}, in {free.nbytes_ / 2**20:.1f} MB {unlimited:.4f}")
    for path in sorted((folder / "seq").iterdir(), key=lambda path: path.stat().st_size)[:3]:
        other = path.read_bytes()
        model = SequenceModel(256, memory=quarter).fit(data)
        after = model.prequential(other, unit="bits", new_document=False).mean()
        print(f"{path.name} after it in {quarter / 2**20:.1f} MB: {after:.4f}", end="")
        if find_spec("pyppmd"):
            ppmd = import_module("pyppmd").compress
            sizes = [len(ppmd(d, max_order=16, mem_size=quarter, variant="I")) for d in (data, data + other)]
            print(f", PPMd {8 * (sizes[1] - sizes[0]) / len(other):.4f}", end="")
        print()


def changing(folder, rates=(0.0, 1e-4, 3e-4, 1e-3)):
    """Decay rates: chains and alphabets that change, files one after the other, and one text."""
    rng, data = np.random.default_rng(0), [path.read_bytes() for path in sorted((folder / "seq").iterdir())]
    text = max(data, key=len)[:100_000]
    sources = {
        "order 2, 16 letters": np.concatenate([letters(rng, 10_000, 16) for _ in range(8)]).astype(np.uint8).tobytes(),
        "permuted text": b"".join(
            text[k : k + 20_000].translate(
                bytes.maketrans(bytes(range(97, 123)), bytes(97 + rng.permutation(26).astype(np.uint8)))
            )
            for k in range(0, 100_000, 20_000)
        ),
        "files": b"".join(one[:20_000] for one in data),
        "one text": text,
    }
    print(f"\n{'forget':20}" + "".join(f"{rate:10g}" for rate in rates))
    for name, source in sources.items():
        bits = [SequenceModel(256, forget=rate).prequential(source, unit="bits").mean() for rate in rates]
        print(f"{name:20}" + "".join(f"{b:10.4f}" for b in bits), flush=True)


def letters(rng, n, size):
    """A chain of order 2 with tables of its own."""
    table, at, out = rng.dirichlet(np.full(size, 0.1), size**2).cumsum(1), 0, np.empty(n, np.int64)
    for t, u in enumerate(rng.random(n)):
        out[t] = min(int((u >= table[at]).sum()), size - 1)
        at = (size * at + out[t]) % size**2
    return out


def chain(seeds=3, half=100_000):
    """Four letters of an order-3 chain: the loss on the second half against that under the chain itself."""
    print("\norder-3 chain, 4 letters: loss on symbols 10^5 to 2 10^5, bits")
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        table = rng.dirichlet(np.ones(4), size=64)
        cumulative, entropies = table.cumsum(1), -(table * np.log2(table)).sum(1)
        codes, entropy, at = np.empty(2 * half, np.int64), 0.0, 0
        for t, u in enumerate(rng.random(2 * half)):
            codes[t] = min(int((u >= cumulative[at]).sum()), 3)
            entropy += entropies[at] * (t >= half) / half
            at = (4 * at + codes[t]) % 64
        for walk in ("coarsen", "refine"):
            model = SequenceModel(4, walk=walk)
            loss = model.prequential(codes, unit="bits")[half:].mean()
            excess = 100 * (loss / entropy - 1)
            print(f"  seed {seed} {walk:8} {loss:.4f}  entropy rate {entropy:.4f}  excess {excess:+.2f} %")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder that holds seq/")
    parser.add_argument("--efforts", type=int, nargs="+", default=[1, 2], choices=[0, 1, 2, 3])
    arguments = parser.parse_args()
    for effort in arguments.efforts:
        SequenceModel(256, effort=effort).fit(b"compile first")
    folder = data_folder(arguments.data, needs="seq")
    files(folder, arguments.efforts)
    bounded(folder)
    changing(folder)
    chain()
