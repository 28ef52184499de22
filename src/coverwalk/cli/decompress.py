"""``coverwalk decompress FILE``: the way back from ``coverwalk compress``."""

import argparse

from coverwalk.cli._models import print_json
from coverwalk.cli.compress import SUFFIX, add_files, progress_bar, refuse_to_overwrite

HELP = "restore a file that coverwalk compress wrote"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The file, and where to write."""
    add_files(parser, "compressed file", f"FILE without {SUFFIX}")


def run(arguments: argparse.Namespace) -> None:
    """Decompress; the checksum has to agree before anything is written."""
    from coverwalk.files.saving import write_whole
    from coverwalk.sequences.compression import decompress, original_length

    output = arguments.output
    if output is None:
        if arguments.file.suffix != SUFFIX:
            raise ValueError(f"{arguments.file} does not end in {SUFFIX}: name the output file with -o")
        output = arguments.file.with_suffix("")
    refuse_to_overwrite(output, arguments.force)
    packed = arguments.file.read_bytes()
    with progress_bar(original_length(packed), arguments.file.name) as bar:
        data = decompress(packed, progress=bar.update)
    write_whole(output, [data])
    print_json({"file": str(output), "bytes": len(data)}) if arguments.json else print(f"{output}: {len(data)} bytes")
