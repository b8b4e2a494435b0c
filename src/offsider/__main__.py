"""``python -m offsider`` is the command ``offsider``."""

import sys

from offsider.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
