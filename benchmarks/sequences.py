"""Bits per byte, speed and memory of SequenceModel beside xz, bzip2 and PPMd; and a Markov chain of known entropy.

    python benchmarks/sequences.py --data FOLDER       (or set COVERWALK_DATA)

FOLDER/seq holds any files. Model: ideal code length, defaults; compressors: size of the file they write. CPU seconds.
"""

import argparse
import time

import numpy as np

from coverwalk import SequenceModel
from coverwalk.datasets import data_folder
from coverwalk.sequences.compressors import compressors


def timed(function, *arguments):
    start = time.process_time()
    result = function(*arguments)
    return result, time.process_time() - start


def files(folder, depth):
    peers = compressors()
    print(f"{'file':8} {'bytes':>8} {'coverwalk':>9}" + "".join(f"{name:>9}" for name in peers), end="")
    print(f" {'kB/s':>7}" + "".join(f"{name + ' kB/s':>11}" for name in peers) + f" {'memory a byte':>14}")
    table = []
    for path in sorted((folder / "seq").iterdir()):
        data = path.read_bytes()
        model = SequenceModel(256, depth=depth)
        losses, seconds = timed(model.prequential, data)
        row = [losses.sum() / np.log(2) / len(data)]
        speeds = [len(data) / seconds / 1000]
        for size in peers.values():
            length, seconds = timed(size, data)
            row.append(8 * length / len(data))
            speeds.append(len(data) / seconds / 1000)
        table.append(row)
        print(f"{path.name:8} {len(data):8d} {row[0]:9.4f}" + "".join(f"{bits:9.3f}" for bits in row[1:]), end="")
        print(f" {speeds[0]:7.0f}" + "".join(f"{s:11.0f}" for s in speeds[1:]) + f" {model.nbytes_ / len(data):14.0f}")
    means = np.mean(table, axis=0)
    print(f"{'mean':8} {'':8} {means[0]:9.4f}" + "".join(f"{bits:9.3f}" for bits in means[1:]))


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
    parser.add_argument("--depth", type=int, default=16)
    arguments = parser.parse_args()
    SequenceModel(256, depth=arguments.depth).fit(b"compile first")
    files(data_folder(arguments.data, needs="seq"), arguments.depth)
    chain()
