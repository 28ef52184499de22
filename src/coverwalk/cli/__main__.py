"""``python -m coverwalk.cli``."""

import sys

from coverwalk.cli import main

sys.exit(main())
