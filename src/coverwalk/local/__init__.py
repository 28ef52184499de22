"""Phi: what a context predicts, and its evidence."""
