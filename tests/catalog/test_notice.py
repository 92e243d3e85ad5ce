"""Every source of the catalog's rows is in NOTICE."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rightfit.market import packed_tables, tables

NOTICE = (Path(__file__).parents[2] / "NOTICE").read_text(encoding="utf-8")
WITH_SOURCE = [name for name in packed_tables.manifest()["tables"] if "source" in tables.load_packed(name)]


@pytest.mark.parametrize("name", WITH_SOURCE)
def test_every_repository_and_file_of_a_table_is_named(name: str) -> None:
    sources = " ".join(tables.load_packed(name)["source"].labels)
    repositories = set(re.findall(r"(?<![…/\w])([A-Za-z][\w.-]+/[\w.-]+)@[0-9a-f]{6,}", sources))
    content_ids = set(re.findall(r"\b\d{10,11}\b", sources))
    assert {repository for repository in repositories if repository not in NOTICE} == set()
    assert {content_id for content_id in content_ids if content_id not in NOTICE} == set()


def test_share_alike_sources_are_marked() -> None:
    block = NOTICE[NOTICE.index("SHARE-ALIKE") : NOTICE.index("Amazon Web Services\n")]
    assert "SpareCores/sc-data-dumps@e8749be" in block
    assert block.count("CC-BY-SA-4.0") == 4
