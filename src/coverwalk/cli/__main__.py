"""``python -m coverwalk.cli``."""

import sys

from coverwalk.cli import console

sys.exit(console())
