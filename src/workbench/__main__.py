"""``python -m workbench`` is the command ``workbench``."""

import sys

from workbench.cli import command

if __name__ == "__main__":
    sys.exit(command())
