"""Save and load, for every estimator."""

import os
from typing import ClassVar, Self

from coverwalk._docstrings import ROWS, Documented
from coverwalk.files.objects import Schema
from coverwalk.locks import reads


class Saved(Documented):
    """An estimator that can be saved to a file and loaded again."""

    _schema: ClassVar[Schema]
    _words = ROWS

    @reads
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file. If this fails, an existing file is not changed.

        Parameters
        ----------
        path : str or path
            The file; by custom it ends in ``.cover``.
        """
        from coverwalk.files import save

        save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Load a model of this class; `coverwalk.load` loads any.

        Parameters
        ----------
        path : str or path
            A file written by `save`.

        Raises
        ------
        ModelFileError
            If the file is damaged, or holds a model of another class.

        Returns
        -------
        estimator
            Of this class.
        """
        from coverwalk.files import ModelFileError, load

        model = load(path)
        if not isinstance(model, cls):
            raise ModelFileError(f"{path} holds a {type(model).__name__}, expected a {cls.__name__}")
        return model
