"""Put facts, arrays, style and script into one page."""

import html
import json
import os
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from coverwalk import __version__
from coverwalk.evaluation.report.explorer import Exported, export
from coverwalk.evaluation.report.facts import Subject, gather, is_mixed

__all__ = ["write_report"]

_WITHOUT_EXPLORER = (
    "There are categories or missing values among the inputs: this page judges the model on them, and has no explorer, "
    "whose sliders are for numbers."
)
_SCRIPTS = ("mixture.js", "charts.js", "explorer.js", "page.js")


def write_report(subject: Subject, path: str | os.PathLike[str], title: str, notes: Sequence[str] = ()) -> None:
    """Write the page about one target's forest on rows of data; notes are shown at its head."""
    mixed = is_mixed(subject)
    exported = Exported({}, len(subject.forest.fitted)) if mixed else export(subject.forest)
    facts: dict[str, Any] = {
        **gather(subject),
        "title": title,
        "notes": [*notes, *([_WITHOUT_EXPLORER] if mixed else [])],
        "version": __version__,
        "forest": exported.payload,
        "n_trees_here": exported.n_trees,
    }
    text = json.dumps(facts, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")  # no </script> in a name
    home = files("coverwalk.evaluation.report")
    page = (home / "page.html").read_text(encoding="utf-8")
    parts = {
        "title": html.escape(title),
        "style": (home / "style.css").read_text(encoding="utf-8"),
        "script": "\n".join((home / name).read_text(encoding="utf-8") for name in _SCRIPTS),
        "facts": text,
    }
    before, *pieces = page.split("{{")
    for piece in pieces:
        name, after = piece.split("}}", 1)
        before += parts[name] + after
    with open(path, "w", encoding="utf-8") as file:
        file.write(before)
