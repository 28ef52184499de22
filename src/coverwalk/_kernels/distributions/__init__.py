"""Kernels of `coverwalk.distributions`."""
