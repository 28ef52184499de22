"""The cache of compiled kernels."""

import errno
import os
from pathlib import Path

import pytest

from coverwalk._kernels._compile import _forget_stale_kernels


def test_a_changed_source_empties_the_cache(tmp_path):
    cache = tmp_path / "__pycache__"
    cache.mkdir()
    (tmp_path / "a.py").write_text("one")
    _forget_stale_kernels(tmp_path)
    (cache / "a.f-1.py311.nbi").write_text("compiled")
    (cache / "a.cpython-311.pyc").write_text("bytecode")
    _forget_stale_kernels(tmp_path)
    assert len(os.listdir(cache)) == 3
    (tmp_path / "b.py").write_text("called by a")
    _forget_stale_kernels(tmp_path)
    assert sorted(os.listdir(cache)) == ["a.cpython-311.pyc", "kernels.digest"]


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS])
def test_a_folder_that_cannot_be_written_is_left_alone(code, tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(code, os.strerror(code))

    (tmp_path / "a.py").write_text("one")
    monkeypatch.setattr(Path, "write_text", refuse)
    _forget_stale_kernels(tmp_path)
    assert not (tmp_path / "__pycache__" / "kernels.digest").exists()


def test_a_full_disk_is_told(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", refuse)
    with pytest.raises(OSError, match="space"):
        _forget_stale_kernels(tmp_path)
