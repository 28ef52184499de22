"""The compiled code: arrays in, arrays out; knows nothing of the classes above it."""
