"""``coverwalk demo``: the main job on the shipped data."""

import argparse

HELP = "predict the waiting time of Old Faithful from the last eruption, as a whole distribution"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Nothing to set."""


def run(arguments: argparse.Namespace) -> None:
    """Learn Old Faithful row by row and draw what is predicted."""
    from coverwalk.datasets import load_faithful

    x, y = load_faithful()
    print(x.mean(), y.mean())
