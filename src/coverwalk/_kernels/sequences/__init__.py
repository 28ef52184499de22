"""Kernels of the lattice of covers on byte sequences."""
