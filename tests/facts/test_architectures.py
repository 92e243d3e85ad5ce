"""Bundled models are read one by one."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest

from rightfit import facts
from rightfit.facts import bundled, tables

ONE_MODEL = """
import rightfit.facts as facts
from rightfit.facts import bundled as architectures
facts.model("meta-llama/Meta-Llama-3-8B")
import sys
print(architectures.load.cache_info().currsize, architectures._family_text.cache_info().currsize)
heavy = {"numpy", "pydantic", "difflib", "huggingface_hub", "rightfit.facts.dimensions", "rightfit.facts.config_json"}
print(sorted(heavy & set(sys.modules)))
"""


def test_one_name_reads_one_row_and_imports_nothing_heavy() -> None:
    result = subprocess.run([sys.executable, "-c", ONE_MODEL], capture_output=True, text=True, check=True)
    loaded, heavy = result.stdout.splitlines()
    assert loaded == "1 1"
    assert heavy == "[]"


def test_models_is_a_mapping_over_all_families() -> None:
    every = facts.models()
    assert len(every) == len(bundled.index()) >= 1465
    assert next(iter(every)) == "openai-community/gpt2"
    assert "timm/resnet50" in every
    assert "no such" not in every
    with pytest.raises(KeyError):
        every["no such"]


def test_a_name_with_a_comma_is_found() -> None:
    record = facts.models()["unet-original (64..1024, same padding)"]
    assert record.name == "unet-original (64..1024, same padding)"


@pytest.mark.parametrize("family", bundled.FAMILIES)
def test_every_row_of_a_family_has_its_line_in_the_index(family: str) -> None:
    """A model is found through the index: without its line there the row is there
    and nobody sees it."""
    rows = [row["name"] for row in tables.table(f"models_{family}")]
    lines = [entry.name for entry in bundled.index() if entry.family == family]
    unseen = [f"models_index.csv lacks '{family},{name},' for the row of models_{family}.csv" for name in rows if name not in set(lines)]
    empty = [f"models_{family}.csv has no row {name}, which models_index.csv names" for name in lines if name not in set(rows)]
    assert not unseen + empty, "; ".join(unseen + empty)
    twice = [name for name, number in Counter(rows + lines).items() if number > 2]
    assert not twice, f"more than one row is called {', '.join(twice)}"


def test_no_name_or_alias_has_two_owners() -> None:
    owner: dict[str, str] = {}
    for entry in bundled.index():
        for text in (entry.name, *entry.aliases):
            first = owner.setdefault(text.casefold(), entry.name)
            assert first == entry.name, f"models_index.csv: {text} is a name of {first} and of {entry.name}"


def test_every_name_and_alias_resolves_to_its_own_record() -> None:
    for entry in bundled.index():
        for text in (entry.name, *entry.aliases):
            assert facts.model(text, network=False).name == entry.name


def test_aliases_are_in_the_record() -> None:
    assert "llama3-8b" in facts.model("meta-llama/Meta-Llama-3-8B").aliases
