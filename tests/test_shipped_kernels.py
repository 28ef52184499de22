"""Machine code in a wheel: used where it fits, and only there."""

import json
import shutil
import sys
from pathlib import Path

import numba
import pytest
from numba.core.caching import NullCache
from numba.core.registry import cpu_target

from coverwalk._kernels._compile import _DIGESTS
from coverwalk._kernels._shipped import ShippedCache, base_of, shipped
from coverwalk._kernels.forest.polynomial import n_features

pytestmark = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")


def manifest(**changes):
    target = list(cpu_target.target_context.codegen().magic_tuple())
    made = {"python": sys.implementation.cache_tag, "numba": numba.__version__, "target": target, "needs": []}
    return {**made, "sources": _DIGESTS, **changes}


@pytest.mark.parametrize(
    ("changes", "fits"),
    [
        ({}, True),
        ({"python": "cpython-399"}, False),
        ({"numba": "0.1"}, False),
        ({"sources": {**_DIGESTS, "_compile.py": "changed"}}, False),
        ({"needs": ["an instruction that no machine has"]}, False),
    ],
)
def test_machine_code_is_used_where_it_fits(changes, fits, tmp_path):
    (tmp_path / "manifest.json").write_text(json.dumps(manifest(**changes)))
    assert bool(shipped(_DIGESTS, tmp_path)) == fits


def test_without_machine_code_there_is_none(tmp_path):
    assert shipped(_DIGESTS, tmp_path) is None


def test_a_kernel_is_found_among_what_was_shipped(tmp_path):
    assert n_features(2, 3) == 10
    (tmp_path / "forest").mkdir()
    files = list(Path(n_features._cache.cache_path).glob(f"{base_of(n_features.py_func)}.*nb[ic]"))
    for file in files:
        shutil.copy(file, tmp_path / "forest")
    signature, context = next(iter(n_features.overloads)), n_features.targetctx
    found = ShippedCache(n_features.py_func, NullCache(), manifest(), tmp_path)
    assert found.load_overload(signature, context).signature.args == signature
    for other in (manifest(target=["another", *manifest()["target"][1:]]), manifest(target=["x", "y", "z"])):
        assert ShippedCache(n_features.py_func, NullCache(), other, tmp_path).load_overload(signature, context) is None
    assert found.load_overload((numba.types.float32,), context) is None
