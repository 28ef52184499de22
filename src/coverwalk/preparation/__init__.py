"""Tables and rows as users bring them, made ready for the models."""
