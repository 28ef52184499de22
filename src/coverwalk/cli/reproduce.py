"""``coverwalk reproduce``: every table and figure of the paper's Section 5, and a page that shows them."""

import argparse

from coverwalk.cli._models import add_output

HELP = "reproduce the tables and figures of the paper, with a page that shows which of its claims hold"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where to write, how much to run, where the robot's rows are."""
    parser.add_argument("--quick", action="store_true", help="use fewer rows: seconds instead of minutes")
    add_output(parser, "folder to write to", "reproduction", "DIR")
    parser.add_argument("--data", metavar="FOLDER", help="folder with robot/sensor_readings_24.csv (or COVERWALK_DATA)")


def run(arguments: argparse.Namespace) -> None:
    """Run the experiments in order and print which claims held."""
    from coverwalk.paper.run import reproduce

    page, results = reproduce(arguments.output, quick=arguments.quick, data=arguments.data)
    for result in results:
        print(result.title)
        for claim in result.claims:
            print(f"  {'held    ' if claim.held else 'not held'}  {claim.paper}\n            {claim.measured}")
    print(f"\n{page}")
