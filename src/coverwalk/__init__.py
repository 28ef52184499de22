"""Given x, the whole distribution of y: halting walks over sequences of covers.

The public names are loaded when first used, so that ``import coverwalk`` and ``coverwalk --help`` stay instant.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coverwalk.classifier import ContextClassifier
    from coverwalk.conditional_density import ConditionalDensity
    from coverwalk.cover_model import CoverModel
    from coverwalk.density import Density
    from coverwalk.distributions import Distribution
    from coverwalk.distributions.calibrated import CalibratedDistribution
    from coverwalk.distributions.joint import JointDistribution
    from coverwalk.distributions.mixture import PredictiveDistribution
    from coverwalk.double_tree.estimator import DoubleTree
    from coverwalk.files import ModelFileError, load
    from coverwalk.sequence import SequenceModel
    from coverwalk.sequence_classifier import SequenceClassifier
    from coverwalk.shards import merge

__version__ = "0.2.0"

_HOME = {
    "CalibratedDistribution": "coverwalk.distributions.calibrated",
    "ConditionalDensity": "coverwalk.conditional_density",
    "ContextClassifier": "coverwalk.classifier",
    "CoverModel": "coverwalk.cover_model",
    "Density": "coverwalk.density",
    "Distribution": "coverwalk.distributions",
    "DoubleTree": "coverwalk.double_tree.estimator",
    "JointDistribution": "coverwalk.distributions.joint",
    "ModelFileError": "coverwalk.files",
    "PredictiveDistribution": "coverwalk.distributions.mixture",
    "SequenceClassifier": "coverwalk.sequence_classifier",
    "SequenceModel": "coverwalk.sequence",
    "load": "coverwalk.files",
    "merge": "coverwalk.shards",
}

__all__ = [
    "CalibratedDistribution",
    "ConditionalDensity",
    "ContextClassifier",
    "CoverModel",
    "Density",
    "Distribution",
    "DoubleTree",
    "JointDistribution",
    "ModelFileError",
    "PredictiveDistribution",
    "SequenceClassifier",
    "SequenceModel",
    "__version__",
    "load",
    "merge",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'coverwalk' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
