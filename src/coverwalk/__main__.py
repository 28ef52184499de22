"""``python -m coverwalk`` is the command ``coverwalk``."""

import sys

from coverwalk.cli import console

if __name__ == "__main__":
    sys.exit(console())
