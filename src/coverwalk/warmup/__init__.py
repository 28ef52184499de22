"""Compile kernels ahead: small fits that call every kernel as the estimators do, in processes side by side."""

from coverwalk.warmup.processes import compile_ahead, help_compiling
from coverwalk.warmup.tasks import TASKS

__all__ = ["TASKS", "compile_ahead", "help_compiling"]
