"""``coverwalk compress FILE``: an arithmetic coder on the predictions of a lattice of covers."""

import argparse
from pathlib import Path

from coverwalk.cli._models import add_json, print_json

HELP = "compress a file with a sequence model, losslessly"
SUFFIX = ".cwz"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The file, where to write, and how much to spend on it."""
    add_files(parser, "file to compress", f"FILE{SUFFIX}")
    parser.add_argument("--effort", type=int, choices=(1, 2, 3), default=2, help="1: fastest; 2; 3: smallest")
    parser.add_argument("--memory", default="256MB", help="memory of the model, also to decompress (default: 256MB)")


def add_files(parser: argparse.ArgumentParser, words: str, default: str) -> None:
    """The file, where to write, and ``--json``."""
    parser.add_argument("file", type=Path, help=f"{words}; it is not changed")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help=f"file to write (default: {default})")
    parser.add_argument("-f", "--force", action="store_true", help="overwrite an existing file")
    add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Compress, and print the sizes."""
    from coverwalk.files.saving import write_whole
    from coverwalk.sequences.compression import compress

    output = arguments.output or arguments.file.with_name(arguments.file.name + SUFFIX)
    refuse_to_overwrite(output, arguments.force)
    data = arguments.file.read_bytes()
    with progress_bar(len(data), arguments.file.name) as bar:
        packed = compress(data, effort=arguments.effort, memory=arguments.memory, progress=bar.update)
    write_whole(output, [packed])
    if arguments.json:
        print_json({"file": str(output), "bytes": len(packed), "original_bytes": len(data)})
        return
    bits = f", {8 * len(packed) / len(data):.3f} bits per byte" if data else ""
    print(f"{output}: {len(data)} bytes to {len(packed)}{bits}")


def progress_bar(total: int, name: str):  # type: ignore[no-untyped-def]  # noqa: ANN201
    """Bytes done, on a terminal only."""
    from tqdm import tqdm

    return tqdm(total=total, desc=name, unit="B", unit_scale=True, disable=None, leave=False)


def refuse_to_overwrite(output: Path, force: bool) -> None:
    """Raise FileExistsError for a file that exists, unless with ``force``."""
    if output.exists() and not force:
        raise FileExistsError(f"{output} exists: name another file with -o, or write over it with --force")
