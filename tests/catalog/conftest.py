"""One store for all catalog tests, in a temporary folder: nothing touches the user's cache."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rightfit.market import Catalog, open_catalog

sys.path.insert(0, str(Path(__file__).parent))  # the fake clouds in fakes/


@pytest.fixture(scope="session")
def store_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "catalog.sqlite"
    open_catalog(path).close()
    return path


@pytest.fixture(scope="session")
def catalog(store_file: Path) -> Iterator[Catalog]:
    opened = open_catalog(store_file)
    yield opened
    opened.close()
