"""Exported files before the programs that will read them. Runs in an environment of its own: python
-m pytest tests/exporters."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "export")]
os.environ.setdefault("RIGHTFIT_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"rightfit-tests-{os.getuid()}"))
# Each target is tried with the plans that it takes, which only the plans tell: these files may
# work them out while they are collected, as each runs in one process.
os.environ.pop("RIGHTFIT_TEST_COLLECTING", None)
