"""``coverwalk COMMAND``: finds the command's file beside this one, and turns users' mistakes into one line.

Each has ``HELP``, ``add_arguments(parser)`` and ``run(arguments)``. Nothing heavy is imported before ``run``:
``coverwalk --help`` prints at once.
"""

import argparse
import gc
import os
import signal
import sys
import threading
import warnings
from collections.abc import Sequence
from importlib import import_module
from types import FrameType
from typing import Any

from coverwalk import __version__
from coverwalk.cli._light import lighten_sklearn

COMMANDS = (
    *("fit", "predict", "score", "show", "plot", "learn", "report"),
    *("bits", "compress", "decompress", "reproduce", "demo", "warmup"),
)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="coverwalk", description="Given x, predict the whole distribution of y, from tables or files."
    )
    parser.add_argument("--version", action="version", version=f"coverwalk {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name in COMMANDS:
        command = import_module(f"coverwalk.cli.{name}")
        subparser = subparsers.add_parser(name, help=command.HELP, description=command.HELP)
        command.add_arguments(subparser)
        subparser.set_defaults(run=command.run)
    return parser


def _check_files(arguments: argparse.Namespace) -> None:
    """Report a missing file at once: to load what reads it takes seconds."""
    model, data = getattr(arguments, "model", None), getattr(arguments, "data", None)
    if model is not None and not os.path.exists(model):
        raise ValueError(f"there is no file {model}; create one with: coverwalk fit data.csv --target y -o {model}")
    for file in (data, getattr(arguments, "file", None), *getattr(arguments, "files", ())):
        if file not in (None, "-") and not os.path.exists(file):
            raise ValueError(f"there is no file {file}")


def console() -> int:
    """`main` as a process of its own, which Ctrl-C ends with 130; it comes too late once the command is done."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a shell may have it ignored
        signal.signal(signal.SIGINT, _interrupt)
    warnings.showwarning = _warn
    gc.set_threshold(50_000)  # what is imported stays: to look for rubbish in it, at the end too, takes half a second
    try:
        lighten_sklearn()
        code = main()
        gc.freeze()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    except KeyboardInterrupt:
        code = 130
    return code


def _warn(message: Warning | str, *where: Any, **more: Any) -> None:
    """A warning in one line: users have no interest in the line of ours that it came from."""
    print(f"coverwalk: warning: {' '.join(str(message).split())}", file=sys.stderr)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, a moment later where LLVM, or the end of an object, calls Python: what is raised there
    is dropped.
    """
    outer = frame
    while outer is not None:
        if outer.f_globals.get("__name__", "").startswith("llvmlite") or _of_import_lock(outer):
            again = threading.Timer(0.02, os.kill, (os.getpid(), number))
            again.daemon = True
            again.start()
            return
        outer = outer.f_back
    raise KeyboardInterrupt


def _of_import_lock(frame: FrameType) -> bool:
    """Whether this is what `importlib` has called when the lock of a module is gone."""
    return (frame.f_code.co_filename, frame.f_code.co_name) == ("<frozen importlib._bootstrap>", "cb")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 when it worked, 1 for a mistake in the input, 2 in the call, 130 after Ctrl-C."""
    try:
        parser = _parser()
        arguments = parser.parse_args(argv)
        if arguments.command is None:
            parser.print_help()
            return 2
        return _run(arguments)
    except KeyboardInterrupt:
        return 130


def _run(arguments: argparse.Namespace) -> int:
    try:
        _check_files(arguments)
        arguments.run(arguments)
    except BrokenPipeError:  # `coverwalk ... | head`: the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (ValueError, OSError, ImportError) as mistake:
        print(f"coverwalk {arguments.command}: {' '.join(str(mistake).split())}", file=sys.stderr)
        return 1
    return 0
