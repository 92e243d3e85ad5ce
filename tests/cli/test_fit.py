"""`rightfit fit`: which models fit one's cards."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rightfit import facts
from rightfit.planner import cards as verb

SMALL = ("Qwen/Qwen2.5-0.5B", "meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-405B")


@pytest.fixture
def _few_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three models of three sizes: the walk is over cards."""
    table = facts.table

    def few(name: str) -> Any:
        return [row for row in table(name) if row["model"] in SMALL] if name == "fit_models" else table(name)

    monkeypatch.setattr(facts, "table", few)


def _fits(run: Any, *words: str) -> list[dict[str, Any]]:
    result = run("fit", *words, "--format", "json")
    assert result.code == 0, result.err
    found: list[dict[str, Any]] = json.loads(result.out)
    return found


@pytest.mark.usefixtures("_few_models")
def test_every_card_of_the_fact_base_is_answered(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verb, "WAYS", {"language": {"serve_4": verb.WAYS["language"]["serve_4"]}, "pictures": {}})
    names = list(facts.accelerators())
    found = _fits(run, ",".join(names))
    assert {row["gpu"] for row in found} == set(names)
    for row in found:
        memory = facts.accelerators()[row["gpu"]].memory_bytes
        if row["fits"]:
            assert memory > 0.45 * verb.parameters(row["model"])  # four bits a parameter, at least
    assert sum(row["fits"] for row in found) > len(names)  # most hold the two smaller ones


@pytest.mark.usefixtures("_few_models")
def test_more_memory_and_more_cards_never_hold_less() -> None:
    from rightfit.search.ownership import Machine

    def held(gpu: str, count: int = 1) -> set[tuple[str, str]]:
        return {(one.model, one.way) for one in verb.fits_of(Machine(gpu, count, "")) if one.fits}

    small, large = held("A100-SXM-40GB"), held("A100-SXM-80GB")
    assert small <= large <= held("A100-SXM-80GB", 8)
    assert held("T4") < small


@pytest.mark.usefixtures("_few_models")
def test_the_host_beside_the_card_is_not_asked() -> None:
    """256 GiB of card tune eight billion parameters in full, whatever host memory is assumed
    of a home machine."""
    from rightfit.search.ownership import Machine

    found = {(one.model, one.way): one.fits for one in verb.fits_of(Machine("MI325X", 1, ""), task="finetune")}
    assert found["meta-llama/Llama-3.1-8B", "full"]


@pytest.mark.usefixtures("_few_models")
def test_the_number_of_cards_is_read_from_both_places(run: Any) -> None:
    one = _fits(run, "2xRTX-3090", "--task", "serve")
    assert one == _fits(run, "RTX-3090", "--count", "2", "--task", "serve")
    assert {row["count"] for row in one if row["way"] == "serve_4"} == {2}
    assert run("fit", "2xRTX-3090", "--count", "3").code == 2


@pytest.mark.usefixtures("_few_models")
@pytest.mark.parametrize(("lang", "says"), [("en", "serves up to"), ("zh", "推理最大")])
def test_languages(run: Any, lang: str, says: str) -> None:
    result = run("fit", "RTX-4090", "--task", "serve", "--lang", lang)
    assert result.code == 0
    assert says in result.out
    assert "lora" not in result.out


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("RTX-490",), "RTX-4090"),
        (("RTX-4090,RTX-390",), "RTX-3090"),
        (("RTX-4090", "--task", "servee"), "serve"),
        (("RTX-4090", "--task", "batch"), "serve"),
        (("RTX-4090", "--count", "0"), "1"),
        (("RTX-4090", "--count", "1000000"), "999"),
        (("RTX-4090", "--count", "two"), "--count"),
        (("RTX-4090@hom",), "home"),
        (("",), "RTX-4090"),
        ((",",), "RTX-4090"),
        (("0xRTX-4090",), "1"),
    ],
)
def test_what_is_wrong_is_one_line_with_the_nearest(run: Any, words: tuple[str, ...], told: str, lang: str) -> None:
    result = run("fit", *words, "--lang", lang)
    assert (result.code, result.out) == (2, "")
    assert len(result.err.strip().splitlines()) == 1
    assert told in result.err, result.err
