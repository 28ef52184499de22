"""``coverwalk warmup``: compile all kernels ahead, for images, CI, and whoever does not want to wait later."""

import argparse
import os
import sys

HELP = "compile everything in advance, so that later starts are fast"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """How many processes, and which parts."""
    parser.add_argument("--jobs", type=int, default=None, help="number of processes (default: one per core)")
    parser.add_argument("--only", nargs="+", metavar="PART", help="compile only these parts")


def run(arguments: argparse.Namespace) -> None:
    """Compile, with a line for each part that is done."""
    from coverwalk.warmup import TASKS, compile_ahead

    names = arguments.only or list(TASKS)
    unknown = [name for name in names if name not in TASKS]
    if unknown:
        raise ValueError(f"there is no part {unknown[0]!r}; there are {', '.join(TASKS)}")
    jobs = arguments.jobs or len(os.sched_getaffinity(0))
    seconds = 0.0
    for done, (name, seconds) in enumerate(compile_ahead(names, jobs), 1):
        print(f"{done} of {len(names)}: {name}, {seconds:.0f} s", file=sys.stderr, flush=True)
    print(f"coverwalk: all kernels are compiled, in {seconds:.0f} s")
