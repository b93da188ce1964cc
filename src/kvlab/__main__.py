"""`python -m kvlab` is the same as the command `kvlab`."""

import sys

from kvlab.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
