"""The parts of `coverwalk.Density`: trees of cells, trees of normals, and the forest of both."""
