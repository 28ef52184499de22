"""Kernels of `coverwalk.forest`."""
