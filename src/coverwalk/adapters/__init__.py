"""coverwalk's models in the clothes of other libraries: river and skpro. Each is optional, and one file."""
