"""Tables written a batch of rows at a time: CSV, Parquet or lines of JSON; a file appears when it is whole."""

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from coverwalk.files.saving import write_whole
from coverwalk.preparation.table import polars_here
from coverwalk.preparation.tables import is_parquet, separator_of

if TYPE_CHECKING:
    import polars


def write_table(path: str, frames: Iterable["polars.DataFrame"], json: bool = False) -> None:
    """Write frames of the same columns as one table: lines of ``json``, or by the ending of the file.

    ``-`` is CSV, or JSON, to standard output.
    """
    if is_parquet(path) and not json:
        _write_parquet(path, frames)
        return
    text = _text(frames, None if json else separator_of(path))
    if path != "-":
        write_whole(path, text)
        return
    for piece in text:
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


def _text(frames: Iterable["polars.DataFrame"], separator: str | None) -> Iterator[bytes]:
    """CSV whose first line has the names, or lines of JSON where there is no separator."""
    for i, frame in enumerate(frames):
        text = frame.write_csv(include_header=i == 0, separator=separator) if separator else frame.write_ndjson()
        yield text.encode()


def _write_parquet(path: str, frames: Iterable["polars.DataFrame"]) -> None:
    """One Parquet file of several, which are not held in memory together."""
    with tempfile.TemporaryDirectory(prefix=".coverwalk", dir=os.path.dirname(os.path.abspath(path))) as beside:
        parts = []
        for i, frame in enumerate(frames):
            parts.append(os.path.join(beside, f"{i}.parquet"))
            frame.write_parquet(parts[-1])
        whole = os.path.join(beside, "whole")
        polars_here().scan_parquet(parts).sink_parquet(whole)
        os.replace(whole, path)
