"""The paper's estimator: `DoubleTree`, its engine, its distributions."""
