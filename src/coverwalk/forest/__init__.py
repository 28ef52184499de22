"""The forest that learns: when its trees grow, and what their contexts learn in between."""
