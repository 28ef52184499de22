"""The former home of `coverwalk.files`."""

from coverwalk.files import ModelFileError, load, save

__all__ = ["ModelFileError", "load", "save"]
