"""Files of models: one file each, checked whole against the schemas of its classes; no code runs on load.

`schema` says how a class declares what a file may hold of it.
"""

from coverwalk.files.container import ModelFileError
from coverwalk.files.loading import load
from coverwalk.files.saving import save

__all__ = ["ModelFileError", "load", "save"]
