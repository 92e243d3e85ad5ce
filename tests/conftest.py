"""Every test process uses a catalog store of its own, never the user's."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

os.environ.setdefault("RIGHTFIT_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"rightfit-tests-{os.getuid()}"))
os.environ.setdefault("HF_HUB_OFFLINE", "0")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # small arrays: threads of two test processes would only wait for each other
