"""`python -m rightfit` is `rightfit`."""

from __future__ import annotations

import sys

from rightfit.cli import main

if __name__ == "__main__":
    sys.exit(main())
