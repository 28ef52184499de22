"""``coverwalk bits FILE...``: how well the model predicts a file, in bits per byte, beside the usual compressors."""

import argparse
from pathlib import Path

HELP = "bits per byte of files under a sequence model, beside xz, bzip2 and PPMd; and its memory in bytes per byte"
_CHUNK = 1 << 15


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The files, and the longest context."""
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="any files, each learnt by itself")
    parser.add_argument("--depth", type=int, default=16, help="the longest context, by default 16")


def run(arguments: argparse.Namespace) -> None:
    """Learn each file once; what it cost before each byte was learnt is the ideal code length."""
    from coverwalk.commands.compress import progress_bar
    from coverwalk.sequence import SequenceModel
    from coverwalk.sequences.compressors import compressors

    peers = compressors()
    width = max(max(len(file.name) for file in arguments.files), 4)
    print(f"{'file':{width}}  {'bytes':>9}  {'coverwalk':>9}" + "".join(f"  {peer:>6}" for peer in peers) + "  memory")
    rows = []
    for file in arguments.files:
        data = file.read_bytes()
        if not data:
            raise ValueError(f"{file} is empty: bits per byte need at least one byte")
        model = SequenceModel(alphabet=256, depth=arguments.depth).fit(b"")
        total = 0.0
        with progress_bar(len(data), file.name) as bar:
            for start in range(0, len(data), _CHUNK):
                chunk = data[start : start + _CHUNK]
                total += model.prequential(chunk, unit="bits", new_document=False).sum()
                bar.update(len(chunk))
        rows.append([total / len(data)] + [8 * size(data) / len(data) for size in peers.values()])
        others = "".join(f"  {b:6.3f}" for b in rows[-1][1:])
        print(f"{file.name:{width}}  {len(data):9d}  {rows[-1][0]:9.4f}{others}  {model.nbytes_ / len(data):6.0f}")
    if len(rows) > 1:
        means = [sum(column) / len(rows) for column in zip(*rows)]
        print(f"{'mean':{width}}  {'':9}  {means[0]:9.4f}" + "".join(f"  {b:6.3f}" for b in means[1:]))
