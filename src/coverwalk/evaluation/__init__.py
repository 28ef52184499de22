"""Scores of predictive distributions, scorers for scikit-learn's searches, plots, and the report."""

from coverwalk.evaluation.metrics import (
    calibration_error,
    coverage,
    crps,
    energy_score,
    interval_score,
    log_loss,
    pinball_loss,
    pit,
    pit_histogram,
    reliability,
)
from coverwalk.evaluation.plotting import (
    plot_conditional,
    plot_contexts,
    plot_density,
    plot_dependence,
    plot_importance,
    plot_pit,
    plot_reliability,
)
from coverwalk.evaluation.scorers import (
    IntervalScorer,
    PinballScorer,
    crps_scorer,
    interval_scorer,
    nll_scorer,
    pinball_scorer,
)

__all__ = [
    "IntervalScorer",
    "PinballScorer",
    "calibration_error",
    "coverage",
    "crps",
    "crps_scorer",
    "energy_score",
    "interval_score",
    "interval_scorer",
    "log_loss",
    "nll_scorer",
    "pinball_loss",
    "pinball_scorer",
    "pit",
    "pit_histogram",
    "plot_conditional",
    "plot_contexts",
    "plot_density",
    "plot_dependence",
    "plot_importance",
    "plot_pit",
    "plot_reliability",
    "reliability",
]
