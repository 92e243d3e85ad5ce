"""Every test process uses a catalog store of its own, never the user's, and can be interrupted,
also when it was started in the background."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
import tomllib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))  # what tests of several rooms share

os.environ.setdefault("RIGHTFIT_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"rightfit-tests-{os.getuid()}"))
os.environ.setdefault("HF_HUB_OFFLINE", "0")
# the day of the newest bundled price, on which the documentation is written too: prices age
os.environ.setdefault("RIGHTFIT_TODAY", (Path(__file__).parent / "data/day.txt").read_text().strip())
os.environ["RIGHTFIT_TEST_COLLECTING"] = str(os.getpid())  # tests/support/answers.py refuses to plan until all is collected
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # small arrays: threads of two test processes would only wait for each other

# A shell without job control starts what runs in the background with Ctrl-C ignored, and
# processes hand that down to those they start: a test that interrupts a process of its own would
# wait for ever.
for _number in (signal.SIGINT, signal.SIGTERM):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number is signal.SIGINT else signal.SIG_DFL)

gc.disable()  # until all is collected: nothing of it is garbage

import pytest  # noqa: E402 (the settings above come first)
from quick import is_quick  # noqa: E402

from rightfit.market import Catalog, open_catalog  # noqa: E402


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    """The bundled catalog, without any price book."""
    return open_catalog()


def pytest_configure(config: pytest.Config) -> None:
    """A folder for what the processes of this run work out for each other
    (tests/support/answers.py)."""
    if not hasattr(config, "workerinput") and "RIGHTFIT_TEST_ANSWERS" not in os.environ:
        os.environ["RIGHTFIT_TEST_ANSWERS"] = tempfile.mkdtemp(prefix="rightfit-answers-")
        config.add_cleanup(lambda: shutil.rmtree(os.environ.pop("RIGHTFIT_TEST_ANSWERS"), ignore_errors=True))


def pytest_collection_finish() -> None:
    """What was collected stays to the end: no search for garbage need go over it."""
    os.environ.pop("RIGHTFIT_TEST_COLLECTING", None)
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)  # trees of the source and tables of plans are looked through seldom
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark as deep what tests/deep.toml leaves out of the quick suite: of each walk that it names
    all but so many cases, spread evenly."""
    table = tomllib.loads((Path(__file__).parent / "deep.toml").read_text(encoding="utf-8"))
    cases: dict[tuple[str, str], list[pytest.Item]] = {}
    for item in items:
        name = item.nodeid.partition("::")[2].partition("[")[0]
        if name in table.get(file := item.nodeid.partition("::")[0], ()):
            cases.setdefault((file, name), []).append(item)
    for (file, name), walk in cases.items():
        for at, item in enumerate(walk):
            if not is_quick(at, len(walk), table[file][name]):
                item.add_marker("deep")
