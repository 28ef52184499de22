"""Phi: what a context predicts, and its evidence."""

from coverwalk.local.dirichlet import Dirichlet
from coverwalk.local.kernel_density import KernelDensity
from coverwalk.local.polynomial import Polynomial
from coverwalk.local.tree_density import TreeDensity

__all__ = ["Dirichlet", "KernelDensity", "Polynomial", "TreeDensity"]
