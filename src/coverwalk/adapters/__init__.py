"""coverwalk's models in the clothes of other libraries: river, skpro and Dask. Each is optional, and one file."""
