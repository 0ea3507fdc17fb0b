"""Run the command by ``python -m skdirdp``."""

import sys

from skdirdp.command import main

if __name__ == "__main__":
    sys.exit(main())
