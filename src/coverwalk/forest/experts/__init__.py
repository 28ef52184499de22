"""Experts of the pool beside the trees: the trend, the global kernel, the cells of y."""
