"""One self-contained page about a model: what it is, how good it is, and an explorer of its predictions."""

from coverwalk.evaluation.report.page import write_report

__all__ = ["write_report"]
