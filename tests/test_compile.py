"""The cache of compiled kernels."""

import os

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
