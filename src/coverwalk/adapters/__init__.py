"""coverwalk in other libraries' words: one optional library a file, imported only where it is asked for."""
