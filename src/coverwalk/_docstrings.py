"""What parameters and results mean is written once, and put into the docstrings of all functions that share them.

A docstring without a section Parameters or Returns gets it from the method that it overrides, or else from a table of
words. The keys of a table are names of parameters ("X"), names that mean something else in one function
("learn_one.y"), and results ("fit ->").
"""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from types import FunctionType
from typing import Any, ClassVar

Words = Mapping[str, str]

_SECTION = re.compile(r"^([A-Z]\w+)\n-{3,}\n", re.MULTILINE)

ROWS: Words = {
    "X": "array-like of shape (n, p)\n    Rows of inputs: an array, or a pandas, Polars or Arrow frame.",
    "y": "array-like of shape (n,) or (n, q)\n    The outputs of the rows.",
    "sample_weight": "array-like of shape (n,), optional\n    Weights of the rows. A row with weight 0 is ignored.",
    "chunks": "iterable of pairs (X, y), or a function that returns one\n    They are read several times, so pass a "
    "list or a function that returns a new iterator.",
    "options": "\n    ``sample_rows``, ``second_pass`` and ``state_bytes``; see `coverwalk.forest.passes.Options`.",
    "learn_one.x": "float or array-like of shape (p,)\n    Inputs of one row.",
    "learn_one.y": "float or array-like of shape (q,)\n    Its output, or outputs.",
    "fit ->": "self\n    The fitted estimator.",
    "fit_chunks ->": "self\n    The fitted estimator.",
    "partial_fit ->": "self\n    The estimator, which has learned the rows.",
    "prequential ->": "ndarray of shape (n,)\n    Log densities in nats, each before its row was learned.",
    "learn_one ->": "float\n    Log density of the row, in nats, before it was learned.",
    "logpdf ->": "ndarray of shape (n,)\n    Log densities in nats.",
    "predict_dist ->": "Distribution\n    The predictions for all rows.",
    "log_likelihood ->": "float\n    Mean log density in nats.",
    "predict_proba ->": "ndarray of shape (n, n_classes)\n    Columns are in the order of ``classes_``.",
    "predict_log_proba ->": "ndarray of shape (n, n_classes)\n    Columns are in the order of ``classes_``.",
    "n_repeats": "int\n    How often each feature is shuffled.",
    "importance.random_state": "int, RandomState or None\n    Seed of the shuffles.",
    "importance ->": "Importance\n    ``importances_mean`` and ``importances_std`` (p,) in nats per row, with "
    "scikit-learn's names.",
}

EVENTS: Words = {
    "low": "float or array-like of shape (n,)\n    Lower end of the interval; by default there is none.",
    "high": "float or array-like of shape (n,)\n    Upper end of the interval; by default there is none.",
    "threshold": "float or array-like\n    One for all rows, or (n,).",
    **dict.fromkeys(
        ("prob ->", "exceedance ->"),
        "float or ndarray of shape (n,)\n    Probabilities; (n, q) where several outputs are predicted.",
    ),
}

SCORES: Words = {
    "y_true": "array-like of shape (n,)\n    The observed values; (n, q) for scores of several outputs.",
    "dist": "Distribution\n    The predictions for the same rows.",
    "plot_contexts.dist": "Distribution\n    The prediction for one row, such as ``dist[0]``.",
    "plot_conditional.dist": "Distribution\n    The predictions for the values of the grid, one row for each.",
    "plot_conditional.x": "array-like of shape (n,)\n    The grid.",
    "data": "pair of array-like, optional\n    Inputs and outputs of rows, drawn as points.",
    "quantiles": "array-like of shape (k,)\n    Levels between 0 and 1.",
    "importance": "Importance\n    From `importance`.",
    "dependence": "Dependence\n    From `partial_dependence`.",
    "levels": "array-like of shape (k,)\n    Confidence levels.",
    "confidence": "float\n    Confidence of the central interval.",
    "quantile": "float\n    Level between 0 and 1.",
    "bins": "int\n    Number of bins.",
    "n_draws": "int\n    Number of draws for each row.",
    "random_state": "int, RandomState, Generator or None\n    Seed of the draws.",
    "ax": "matplotlib Axes, optional\n    Where to draw; by default a new figure.",
    "top": "int\n    Maximum number of bars, the largest first.",
    "estimator": "object\n    A fitted estimator with ``predict_dist``, or a search or a pipeline with one.",
    "X": ROWS["X"],
    "y": ROWS["y"],
    **dict.fromkeys(("nll_scorer ->", "crps_scorer ->"), "float\n    Higher is better."),
    "predictive_distribution ->": "Distribution\n    The predictions for the rows.",
    **dict.fromkeys(
        (f"{score} ->" for score in ("log_loss", "crps", "energy_score", "interval_score", "pinball_loss")),
        "float\n    The mean over the rows.",
    ),
    "coverage ->": "float\n    Between 0 and 1.",
    "pit ->": "ndarray of shape (n,)\n    Numbers between 0 and 1.",
    "reliability ->": "ndarray of shape (k,)\n    Fractions of rows.",
    "calibration_error ->": "float\n    Between 0 and 1/2.",
    **dict.fromkeys(
        (f"plot_{what} ->" for what in ("conditional", "pit", "reliability", "contexts", "importance", "dependence")),
        "matplotlib Axes\n    With the plot.",
    ),
}


class Documented:
    r"""Methods of subclasses get the sections Parameters and Returns that their docstrings lack.

    >>> class Shape(Documented):
    ...     _words = {"unit": "str\n    Unit of length."}
    ...     def area(self, unit):
    ...         '''The area.
    ...
    ...         Returns
    ...         -------
    ...         float
    ...             In square units.
    ...         '''
    >>> class Square(Shape):
    ...     def area(self, unit):
    ...         '''The side, squared.'''
    >>> Square.area.__doc__.splitlines()[2:6]
    ['Parameters', '----------', 'unit : str', '    Unit of length.']
    >>> Square.area.__doc__.splitlines()[7:]
    ['Returns', '-------', 'float', '    In square units.']
    """

    _words: ClassVar[Words] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        words = {key: text for base in reversed(cls.__mro__) for key, text in vars(base).get("_words", {}).items()}
        for name, method in vars(cls).items():
            method = getattr(method, "fn", method)  # of scikit-learn's `available_if`
            if not name.startswith("_") and isinstance(method, FunctionType):
                overridden = (vars(base)[name].__doc__ for base in cls.__mro__[1:] if name in vars(base))
                _complete(method, words, overridden)


def document(namespace: Mapping[str, Any], words: Words) -> None:
    """Complete the docstrings of the public functions of a module."""
    for name in namespace["__all__"]:
        if isinstance(namespace[name], FunctionType):
            _complete(namespace[name], words, ())


def _complete(function: Callable[..., Any], words: Words, overridden: Iterable[str | None]) -> None:
    """Put in the sections that a function's docstring lacks, as far as they are known."""
    if not function.__doc__:
        return
    text, sections = _parsed(function.__doc__)
    others = [_parsed(doc)[1] for doc in overridden if doc]
    name = function.__name__
    parameters = [p for p in inspect.signature(function).parameters if p not in ("self", "cls")]
    meanings = {p: words.get(f"{name}.{p}", words.get(p, "")) for p in parameters}
    known = "\n".join(_entry(p, meanings[p]) for p in parameters) if all(meanings.values()) else ""
    inherited = {section: body for other in reversed(others) for section, body in other.items()}
    first = {
        "Parameters": sections.pop("Parameters", None) or known or inherited.get("Parameters"),
        "Returns": sections.pop("Returns", None) or inherited.get("Returns") or words.get(f"{name} ->"),
    }
    shown = {section: body for section, body in (first | sections).items() if body}
    function.__doc__ = "\n\n".join([text, *(f"{head}\n{'-' * len(head)}\n{body}" for head, body in shown.items())])


def _entry(name: str, words: str) -> str:
    """A parameter and what it is; those of any name have no type."""
    return f"**{name}{words}" if words.startswith("\n") else f"{name} : {words}"


def _parsed(doc: str) -> tuple[str, dict[str, str]]:
    """The text before all sections, and the sections by their names."""
    text, *rest = _SECTION.split(inspect.cleandoc(doc))
    return text.strip(), {name: body.strip("\n") for name, body in zip(rest[::2], rest[1::2])}
