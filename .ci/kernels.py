"""Compile all kernels of the installed coverwalk for a wheel: python .ci/kernels.py FOLDER

The folder gets Numba's cache files of the kernels that Python calls, and the manifest that `_kernels/_shipped.py`
reads. The target is x86-64-v3 (AVX2, FMA; every x86 server and nearly every PC since 2015) where this machine has it,
else this machine itself.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

V3 = "64bit avx avx2 bmi bmi2 cmov crc32 cx16 cx8 f16c fma fxsr lzcnt mmx movbe popcnt sahf sse sse2 sse3 sse4.1 sse4.2"
V3 = [*V3.split(), "ssse3", "xsave"]

# In a process that finds everything compiled: which kernels did Python ask for, and what is the target?
ASKED = """
import importlib, json, pkgutil, sys
from numba.core.dispatcher import Dispatcher
from numba.core.registry import cpu_target
import coverwalk._kernels
from coverwalk._kernels._compile import _DIGESTS
from coverwalk._kernels._shipped import base_of
from coverwalk.warmup.tasks import run_task
run_task(sys.argv[1])
asked = set()
for module in pkgutil.walk_packages(coverwalk._kernels.__path__, "coverwalk._kernels."):
    for value in vars(importlib.import_module(module.name)).values():
        if isinstance(value, Dispatcher) and value.stats.cache_hits:
            home = value._cache.cache_path, value.py_func.__module__.split(".")[-2]
            asked.add((*home, base_of(value.py_func)))
target = cpu_target.target_context.codegen().magic_tuple()
print(json.dumps({"asked": sorted(asked), "target": target, "sources": _DIGESTS}))
"""


def main(folder: Path) -> None:
    """Compile into a cache of its own, ask what is needed of it, and copy that."""
    import numba
    from llvmlite import binding

    from coverwalk.warmup import TASKS

    host = binding.get_host_cpu_features()
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    if platform.machine() == "x86_64" and all(host.get(name) for name in V3):
        features = ",".join(f"+{name}" for name in V3)
        environment |= {"NUMBA_CPU_NAME": "x86-64-v3", "NUMBA_CPU_FEATURES": features}
    with tempfile.TemporaryDirectory() as cache:
        environment["NUMBA_CACHE_DIR"] = cache
        subprocess.run([sys.executable, "-m", "coverwalk", "warmup"], env=environment, check=True)
        told = [
            json.loads(subprocess.run(
                [sys.executable, "-c", ASKED, name], env=environment, check=True, stdout=subprocess.PIPE
            ).stdout)
            for name in TASKS
        ]  # fmt: skip
        shutil.rmtree(folder, ignore_errors=True)
        for path, home, base in sorted({tuple(kernel) for each in told for kernel in each["asked"]}):
            (folder / home).mkdir(parents=True, exist_ok=True)
            for file in Path(path).glob(f"{base}.*nb[ic]"):
                shutil.copy(file, folder / home)
    target = told[0]["target"]
    manifest = {
        "python": sys.implementation.cache_tag,
        "numba": numba.__version__,
        "target": target,
        "needs": [name[1:] for name in target[2].split(",") if name.startswith("+")],
        "sources": told[0]["sources"],
    }
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1))
    files = list(folder.rglob("*.nb[ic]"))
    print(f"{len(files)} files, {sum(file.stat().st_size for file in files) / 2**20:.1f} MB, for {target[1]}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
