"""What users read has the field's words: pages, docstrings, the command line, the report, messages and `repr`."""

import argparse
import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest

from coverwalk import cli

from .test_docstrings import CALLABLES, MODULES

ROOT = Path(__file__).parents[1]
BUILT = {"_build", "auto_examples", "generated"}
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if not BUILT & set(page.parts)),
    *sorted(page for folder in ("examples", "benchmarks") for page in (ROOT / folder).glob("*.py")),
]
REPORT = sorted((ROOT / "src" / "coverwalk" / "evaluation" / "report").glob("*.[hj]*"))

# A pattern, and the word to use. Each is private to the history of the project: none has another meaning here.
PRIVATE = {
    r"voices?": "component",
    r"heard|hears": "of nonzero weight",
    r"speaks?|spoken": "predict, has weight",
    r"left-one-out|left one out": "leave-one-out",
    r"rows left out|left-out rows": "held-out rows",
    r"to ask|asks? (?:the|a) model|asked (?:about|after)|asking (?:costs|takes)": "predict, evaluate",
    r"laws? of (?:y|one|each|the)|base laws?|(?:Student(?:'s|'s t| t)|uniform|normal) laws?": "distribution",
    r"(?:model|forest|tree|context|expert|component)s? (?:says?|said|told|answers?|answered|asks?|asked)": "predict",
    r"sheaf|sheaves": "duplicate rows",
    r"seats?": "slot",
    r"too sure|too timid": "overconfident, underconfident",
    r"double kernel": "conditional kernel density",
    r"(?:bits|bytes) a byte|microseconds a row|µs a row|rows a second|us a row": "per",
    r"planting": "growth parameters",
    r"soundness": "validity",
    r"n_trees=|min_rows=": "n_estimators, min_samples_leaf",
    r"covers=.kd.|kd stream": "DoubleTree",
    r"unseen rows?": "held-out rows",
    r"candidate cuts|cuts the covers|covers cut": "splits",
}


def found(text):
    """Private words in a text, with the line each is in."""
    hits = []
    for pattern, instead in PRIVATE.items():
        for match in re.finditer(rf"(?<![\w/])(?:{pattern})(?:(?<=\W)|(?!\w))", text):
            line = text[text.rfind("\n", 0, match.start()) + 1 :].split("\n", 1)[0].strip()
            hits.append(f"{match[0]!r} ({instead}): {line[:120]}")
    return hits


def test_private_words_are_found():
    text = "the voice is heard; it takes 3 microseconds a row; the law of y; asked about nothing; what trees said"
    assert len(found(text)) == 6
    assert found("the invoice was overheard; laws of large numbers; a law; uniform distribution; the page says") == []


@pytest.mark.parametrize("page", [*PAGES, *REPORT], ids=lambda page: str(page.relative_to(ROOT)))
def test_pages(page):
    assert found(page.read_text()) == []


def test_docstrings():
    hits = {name: hit for name, member in CALLABLES.items() if (hit := found(inspect.getdoc(member) or ""))}
    for name in MODULES:
        module = importlib.import_module("coverwalk" + name)
        for public in module.__all__:
            if hit := found(inspect.getdoc(getattr(module, public)) or ""):
                hits[f"{module.__name__}.{public}"] = hit
    assert hits == {}


def parsers(parser):
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                yield from parsers(sub)


def test_command_line():
    assert {hit for parser in parsers(cli._parser()) for hit in found(parser.format_help())} == set()


def messages(path):
    """Texts in errors, warnings and `repr` of a source file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Raise) or (isinstance(node, ast.FunctionDef) and node.name in ("__repr__", "__str__")):
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.value


def test_messages():
    sources = sorted((ROOT / "src").rglob("*.py"))
    assert {str(p): hit for p in sources for text in messages(p) if (hit := found(text))} == {}
