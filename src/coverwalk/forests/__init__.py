"""Forests of contexts that look at y: one for densities, one for classes, and what they share."""
