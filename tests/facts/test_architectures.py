"""Bundled models are read one by one."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rightfit import facts
from rightfit.facts import architectures

ONE_MODEL = """
import rightfit.facts as facts
from rightfit.facts import architectures
facts.model("meta-llama/Meta-Llama-3-8B")
import sys
print(architectures.load.cache_info().currsize, architectures._family_text.cache_info().currsize)
heavy = {"numpy", "pydantic", "tomllib", "difflib", "huggingface_hub", "rightfit.facts.dimensions", "rightfit.facts.config_json"}
print(sorted(heavy & set(sys.modules)))
"""


def test_one_name_reads_one_row_and_imports_nothing_heavy() -> None:
    result = subprocess.run([sys.executable, "-c", ONE_MODEL], capture_output=True, text=True, check=True)
    loaded, heavy = result.stdout.splitlines()
    assert loaded == "1 1"
    assert heavy == "[]"


def test_models_is_a_mapping_over_all_families() -> None:
    every = facts.models()
    assert len(every) == 1465
    assert next(iter(every)) == "openai-community/gpt2"
    assert "timm/resnet50" in every
    assert "no such" not in every
    with pytest.raises(KeyError):
        every["no such"]


def test_a_name_with_a_comma_is_found() -> None:
    record = facts.models()["unet-original (64..1024, same padding)"]
    assert record.name == "unet-original (64..1024, same padding)"


def test_no_name_or_alias_has_two_owners() -> None:
    owner: dict[str, str] = {}
    for entry in architectures.index():
        for text in (entry.name, *entry.aliases):
            assert owner.setdefault(text.casefold(), entry.name) == entry.name


def test_every_name_and_alias_resolves_to_its_own_record() -> None:
    for entry in architectures.index():
        for text in (entry.name, *entry.aliases):
            assert facts.model(text, network=False).name == entry.name


def test_aliases_are_in_the_record() -> None:
    assert "llama3-8b" in facts.model("meta-llama/Meta-Llama-3-8B").aliases
