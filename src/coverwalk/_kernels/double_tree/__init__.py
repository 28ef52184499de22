"""Kernels of the double tree."""
