"""The command line as a person meets it."""

import subprocess
import sys

import pytest

from coverwalk.cli import main


def test_demo_prints_three_densities_and_a_loss(capsys):
    assert main(["demo"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("█") >= 3
    assert "nats" in printed


def test_help_imports_nothing_heavy():
    code = "import sys, coverwalk.cli as c; c._parser().format_help(); print({'numpy', 'numba'} & set(sys.modules))"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
        == "set()"
    )


def test_a_wrong_command_is_a_usage_error(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["dance"])
    assert stopped.value.code == 2
    assert "dance" in capsys.readouterr().err
