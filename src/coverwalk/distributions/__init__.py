"""What all predictive distributions share."""

from coverwalk.distributions.base import Distribution

__all__ = ["Distribution"]
