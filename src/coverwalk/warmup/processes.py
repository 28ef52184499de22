"""Tasks in processes of their own, which write to the cache of kernels that all share."""

import atexit
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from coverwalk._kernels._compile import at_first_compilation

_PROGRAM = """
import gc, sys
gc.set_threshold(50_000)  # to look for rubbish more often takes a tenth of the time
from coverwalk.warmup.tasks import run_task
for name in sys.argv[1:]:
    run_task(name)
"""


def compile_ahead(names: Sequence[str], n_jobs: int) -> Iterator[tuple[str, float]]:
    """Run tasks, ``n_jobs`` at a time; yields the name of each that is done, and the seconds since the start.

    A task of a part whose kernels another one has compiled, too, finds them in the cache.
    """
    waiting, running, began = list(names), dict[str, Any](), time.perf_counter()
    try:
        while waiting or running:
            while waiting and len(running) < n_jobs:
                name = waiting.pop(0)
                running[name] = _start([name])
            time.sleep(0.05)
            for name in [name for name, process in running.items() if process.poll() is not None]:
                process = running.pop(name)
                with process.stderr as file:
                    errors = file.read()
                if process.returncode:
                    raise RuntimeError(f"the kernels of {name!r} could not be compiled:\n{errors}")
                yield name, time.perf_counter() - began
    finally:
        for process in running.values():
            _stop(process)


def help_compiling(*names: str) -> None:
    """Have tasks run beside this process from when it first compiles, where a core is to spare; they end with it.

    Name what this process needs last: what it comes to first it compiles itself.
    """
    if len(os.sched_getaffinity(0)) > 1:
        at_first_compilation(lambda: atexit.register(_stop, _start(names)))


def _start(names: Sequence[str]) -> Any:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, *names],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def _stop(process: Any) -> None:
    if process.poll() is None:
        process.terminate()
        process.wait()
    if not process.stderr.closed:
        process.stderr.close()
