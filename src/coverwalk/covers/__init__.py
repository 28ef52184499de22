"""C: which contexts hold x, from coarse to fine."""
