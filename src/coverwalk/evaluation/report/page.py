"""Put facts, arrays, style and script into one page."""

import html
import json
import os
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from coverwalk import __version__
from coverwalk.evaluation.report.explorer import export
from coverwalk.evaluation.report.facts import Subject, gather

_WITHOUT_EXPLORER = (
    "The interactive explorer is left out: it needs numeric inputs without missing values, and a model that comes from "
    "fit, is not calibrated, and has no forest for values that repeat."
)
_SCRIPTS = ("rounding.js", "mixture.js", "charts.js", "explorer.js", "page.js")


def write_report(subject: Subject, path: str | os.PathLike[str], title: str, notes: Sequence[str] = ()) -> None:
    """Write the page about one target's predictions on rows of data; notes are shown at its head."""
    facts, notes = gather(subject), list(notes)
    if subject.forest is not None and (rounding := subject.forest.settings.rounding):
        notes.append(f"Values of the target: {rounding}. Scores are about the probabilities of these values.")
    if facts["explore"] is None:
        notes.append(_WITHOUT_EXPLORER)
    else:
        assert subject.forest is not None
        facts["forest"], facts["n_trees_here"] = export(subject.forest)
    write_page(facts, path, title, notes)


def write_page(facts: dict[str, Any], path: str | os.PathLike[str], title: str, notes: Sequence[str]) -> None:
    """Write the page that shows these facts."""
    facts = {**facts, "title": title, "notes": list(notes), "version": __version__}
    text = json.dumps(facts, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")  # no </script> in a name
    home = files("coverwalk.evaluation.report")
    parts = {
        "title": html.escape(title),
        "style": (home / "style.css").read_text(encoding="utf-8"),
        "script": "\n".join((home / name).read_text(encoding="utf-8") for name in _SCRIPTS),
        "facts": text,
    }
    page = Template((home / "page.html").read_text(encoding="utf-8"))
    Path(path).write_text(page.substitute(parts), encoding="utf-8")
