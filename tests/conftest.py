"""Every test process uses a catalog store of its own, never the user's, and can be interrupted, also when it was started in the
background."""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path

os.environ.setdefault("RIGHTFIT_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"rightfit-tests-{os.getuid()}"))
os.environ.setdefault("HF_HUB_OFFLINE", "0")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # small arrays: threads of two test processes would only wait for each other

# A shell without job control starts what runs in the background with Ctrl-C ignored, and processes hand that down to those they start:
# a test that interrupts a process of its own would wait for ever.
for _number in (signal.SIGINT, signal.SIGTERM):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number is signal.SIGINT else signal.SIG_DFL)

import pytest  # noqa: E402 (the settings above come first)

from rightfit.catalog import Catalog, open_catalog  # noqa: E402


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    """The bundled catalog, without any price book."""
    return open_catalog()
