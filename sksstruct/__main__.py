"""``python -m sksstruct`` is the command ``sksstruct``."""

import sys

from sksstruct.commands import main

if __name__ == "__main__":
    sys.exit(main())
