"""``python -m triune``: the command line."""

import sys

from triune.cli import main

if __name__ == "__main__":
    sys.exit(main())
