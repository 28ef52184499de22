"""``coverwalk bits FILE...``: how well the model predicts a file, in bits per byte, beside the usual compressors."""

import argparse
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from coverwalk.cli._models import add_json, print_json

HELP = "code length of files in bits per byte, next to other compressors, and what each cover contributes"
_CHUNK = 1 << 14  # bytes: so few are learned in place, without a copy


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The files, and how much to spend on them."""
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="any files, each learned on its own")
    parser.add_argument("--effort", type=int, choices=(0, 1, 2, 3), default=2, help="0: the suffix tree; 3: everything")
    parser.add_argument("--memory", default="256MB", help="memory of each file's model (default: 256MB)")
    parser.add_argument("--jobs", type=int, default=1, help="files learned at the same time (default: 1)")
    add_json(parser, "print one JSON object for each file")


def run(arguments: argparse.Namespace) -> None:
    """Learn each file once; what it cost before each byte was learned is the ideal code length."""
    from coverwalk.cli.compress import progress_bar
    from coverwalk.sequences.compressors import compressors

    peers = compressors()
    for file in arguments.files:
        if file.is_dir():
            raise ValueError(f"{file} is a folder: name the files in it, such as {file}/*")
        if not file.stat().st_size:
            raise ValueError(f"{file} is empty: bits per byte need at least one byte")
    if arguments.jobs < 1:
        raise ValueError(f"--jobs must be at least 1, got {arguments.jobs}")
    width = max(max(len(file.name) for file in arguments.files), 4)
    heads = "".join(f"  {peer:>6}" for peer in peers)
    if not arguments.json:
        print(f"{'file':{width}}  {'bytes':>9}  {'coverwalk':>9}{heads}  memory    kB/s")
    rows, parts = [], []
    total = sum(file.stat().st_size for file in arguments.files)
    with progress_bar(total, "bits") as bar, ThreadPoolExecutor(arguments.jobs) as pool:
        for file, model, bits, speed in pool.map(lambda file: _learn(file, arguments, bar), arguments.files):
            data = file.read_bytes()
            rows.append([bits] + [8 * size(data) / len(data) for size in peers.values()])
            parts.append((file.name, model.contributions()))
            if arguments.json:
                facts = {
                    "file": str(file),
                    "bytes": len(data),
                    "bits_per_byte": dict(zip(["coverwalk", *peers], rows[-1])),
                }
                print_json(facts | {"memory": model.nbytes_, "covers": parts[-1][1]})
                continue
            others = "".join(f"  {b:6.3f}" for b in rows[-1][1:])
            memory = model.nbytes_ / len(data)
            bar.clear()
            print(f"{file.name:{width}}  {len(data):9d}  {bits:9.4f}{others}  {memory:6.0f}  {speed:6.0f}")
    if arguments.json:
        return
    if len(rows) > 1:
        means = [sum(column) / len(rows) for column in zip(*rows)]
        print(f"{'mean':{width}}  {'':9}  {means[0]:9.4f}" + "".join(f"  {b:6.3f}" for b in means[1:]))
    _print_contributions(parts, width)


def _learn(file: Path, arguments: argparse.Namespace, bar: Any) -> tuple[Path, Any, float, float]:
    """A model that has learned the file, its bits per byte, and how fast it learned, in kB of this thread's time."""
    from coverwalk.sequence import SequenceModel

    data = file.read_bytes()
    model = SequenceModel(alphabet=256, effort=arguments.effort, memory=arguments.memory)
    model._learn(b"", expected=len(data))  # in tables as large as `fit` and `compress` would have them
    total, start = 0.0, time.thread_time()
    for begin in range(0, len(data), _CHUNK):
        chunk = data[begin : begin + _CHUNK]
        total += model.prequential(chunk, unit="bits", new_document=False).sum()
        bar.update(len(chunk))
    return file, model, total / len(data), len(data) / 1000 / max(time.thread_time() - start, 1e-9)


def _print_contributions(parts: list[tuple[str, dict[str, float]]], width: int) -> None:
    """One row a file: how much of the log-odds came from each cover."""
    names = sorted(
        {name for _, row in parts for name in row}, key=lambda name: -sum(row.get(name, 0) for _, row in parts)
    )
    print(f"\n{'covers':{width}}" + "".join(f"  {name:>8}" for name in names))
    for file, row in parts:
        print(f"{file:{width}}" + "".join(f"  {row.get(name, 0.0):8.1%}" for name in names))
