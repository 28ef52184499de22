"""coverwalk's models with the interfaces of river, skpro and Dask. Each is optional, and one file."""
