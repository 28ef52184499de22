"""The paper's double pseudo-tree as a stream: `DoubleTree`, its engine, and units that are learned as it runs."""
