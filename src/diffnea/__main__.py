"""`python -m diffnea`: the command line, for whoever has no `diffnea` on the path."""

import sys

from diffnea.cli import main

if __name__ == "__main__":
    sys.exit(main())
