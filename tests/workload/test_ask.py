"""Plain words: two hundred sentences, half of them Chinese, with what must be read from each; and
what no sentence may do."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies

from rightfit.errors import InputError
from rightfit.market import open_catalog
from rightfit.workload.ask import understand
from rightfit.workload.options import read_wish

FRIDAY = datetime.date(2026, 11, 20)
LINES = [
    line for line in (Path(__file__).parents[1] / "data" / "sentences.txt").read_text(encoding="utf-8").splitlines() if "=>" in line
]  # the rest are comments


def wanted(text: str) -> tuple[dict[str, str], list[str]]:
    parts = [part.strip() for part in text.split(";")]
    pairs = [part.split("=", 1) for part in parts if not part.startswith("!")]
    return {name: value for name, value in pairs}, [part[1:] for part in parts if part.startswith("!")]  # noqa: C416


def attributes(option: str, value: str) -> dict[str, object]:
    """What an option sets, without the words it was written in; a model counts
    without its spelling."""
    if option == "model":
        return {"model": "".join(character for character in value.casefold() if character.isalnum() or character in "./")}
    found = read_wish(option, value.casefold() if option == "gpu" else value)
    return {name: setting for name, setting in found.items() if name not in ("data", "budget") or (option == "data" and len(found) == 1)}


@pytest.mark.parametrize("line", LINES)
def test_sentence(line: str) -> None:
    sentence, _, expected = line.partition("=>")
    wishes, unused = wanted(expected)
    found = understand(sentence, today=FRIDAY)
    for option, value in wishes.items():
        assert option in found.wishes, f"{option} was not read; found {found.wishes}"
        assert attributes(option, found.wishes[option]) == attributes(option, value), f"{option}: {found.wishes[option]!r}"
    extra = set(found.wishes) - set(wishes)
    assert not extra, f"read more than was said: { {name: found.wishes[name] for name in extra} }"
    for words in unused:
        assert words in found.unused


def test_there_are_two_hundred_sentences_and_half_are_chinese() -> None:
    chinese = sum(any("\u4e00" <= character <= "\u9fff" for character in line) for line in LINES)
    assert len(LINES) >= 200
    assert chinese >= 100
    assert len(LINES) - chinese >= 90


def test_every_reading_names_its_words() -> None:
    found = understand("Fine-tune Llama-3-8B with QLoRA on 50k samples within 2 days", today=FRIDAY)
    by_option = {reading.option: reading.words for reading in found.readings}
    assert by_option == {"data": "50k samples", "deadline": "within 2 days", "method": "QLoRA", "model": "Llama-3-8B"}
    assert [reading.option for reading in found.inferred] == ["task"]


@pytest.mark.parametrize("text", ["", "   ", "\u3000"])
def test_nothing_said(text: str) -> None:
    with pytest.raises(InputError, match="describe what you want to run"):
        understand(text)


def test_too_much_said() -> None:
    with pytest.raises(InputError, match="2000 is the most"):
        understand("a" * 2001)


@settings(max_examples=60, deadline=None)
@given(strategies.text(max_size=200))
def test_no_text_breaks_it(text: str) -> None:
    try:
        found = understand(text, today=FRIDAY)
    except InputError:
        return
    for option, value in found.wishes.items():
        if option not in ("model",):
            read_wish(option, value)


@pytest.mark.parametrize(("count", "cards"), [("8", 8), ("八", 8), ("单", 1), ("双", 2)])
@pytest.mark.parametrize("counter", ["", " 张", "块", " 个"])
@pytest.mark.parametrize("name", ["卡", "显卡"])
def test_cards_without_a_name_are_no_amount_of_data(count: str, cards: int, counter: str, name: str) -> None:
    found = understand(f"用{count}{counter}{name} LoRA 微调 Qwen2.5-72B，1万条数据，预算 5000 元")
    assert found.wishes["data"] == "1万条"
    assert found.wishes["budget"] == "5000 元"
    assert found.wishes["num_gpus"] == str(cards)
    assert not found.unused


@pytest.mark.parametrize(
    ("said", "cards"), [("8 GPUs", 8), ("8 gpus", 8), ("2 cards", 2), ("4 graphics cards", 4), ("8 accelerators", 8), ("single GPU", 1)]
)
def test_cards_without_a_name_are_counted(said: str, cards: int) -> None:
    found = understand(f"fine-tune Qwen2.5-72B with LoRA on {said}, 10k samples")
    assert found.wishes["data"] == "10k samples"
    assert found.wishes["num_gpus"] == str(cards)
    assert not found.unused


@pytest.mark.parametrize("amount", ["5Mtok", "5 Mtok", "20Btok", "100ksamples", "2kimages", "118kimages", "1.28Mimages", "10万条", "500GB"])
def test_amounts_are_read_as_the_option_spells_them(amount: str) -> None:
    found = understand(f"train the model on {amount} within 2 days")
    assert found.wishes["data"].replace(" ", "").casefold() == amount.replace(" ", "").casefold()
    assert found.wishes["deadline"] == "2 days"


@pytest.mark.parametrize("figure", ["300ms", "0.5 s"])
@pytest.mark.parametrize(
    "said",
    [
        "under {} first token",
        "first token under {}",
        "{} to first token",
        "{} to the first token",
        "with {} first-token latency",
        "time to first token {}",
        "TTFT {}",
        "{} TTFT",
        "首token {}",
        "首字延迟 {}",
        "{} 首token",
        "{}内首字",
        "{}的首token延迟",
    ],
)
def test_the_first_token_is_no_whole_request(said: str, figure: str) -> None:
    found = understand(f"serve Qwen2.5-7B for 20 users, {said.format(figure)}")
    assert found.wishes.get("ttft", "").replace(" ", "") == figure.replace(" ", "")
    assert "latency" not in found.wishes


@pytest.mark.parametrize(
    ("said", "gpu", "cards"),
    [
        ("一张 8GB 显卡", "8GB", "1"),
        ("一张8G的显卡", "8GB", "1"),
        ("两块 24G 的卡", "24GB", "2"),
        ("one 8GB GPU", "8GB", "1"),
        ("2 24 GB cards", "24GB", "2"),
        ("3张显卡", None, "3"),
        ("一张 16G 显存的卡", "16GB", "1"),
        ("24GB or more of VRAM", "24GB+", None),
        ("显存 24G 以上", "24GB+", None),
    ],
)
def test_cards_with_their_memory_are_no_data(said: str, gpu: str | None, cards: str | None) -> None:
    found = understand(f"fine-tune 7B, {said}")
    assert "data" not in found.wishes
    assert (found.wishes.get("gpu"), found.wishes.get("num_gpus")) == (gpu, cards)


@pytest.mark.parametrize("said", ["budget -5 usd", "data -5Mtok", "-5 epochs", "deadline -3h", "-20 users"])
def test_what_is_below_nothing_is_not_read_without_its_sign(said: str) -> None:
    found = understand(f"qlora 7B, {said}")
    assert not {"budget", "data", "epochs", "deadline", "users"} & found.wishes.keys()
    assert found.unused


def test_a_dash_before_a_line_of_a_list_is_no_sign() -> None:
    found = understand("qlora 7B\n- 5Mtok\n- 3 epochs\n- budget 50 usd")
    assert {name: found.wishes[name] for name in ("data", "epochs", "budget")} == {"data": "5Mtok", "epochs": "3", "budget": "50 usd"}


def test_a_region_is_read_by_each_city_that_the_catalog_names() -> None:
    """Each city of `rightfit regions` is a region, or a country by the same name."""
    cities = {region.city for region in open_catalog().regions() if region.city and not region.is_pseudo}
    missed = [city for city in sorted(cities) if "," not in city and not {"region", "country"} & set(_said_of(city))]
    assert len(cities) > 80
    assert not missed


def _said_of(city: str) -> dict[str, object]:
    return understand(f"LoRA of Qwen2.5-7B on 20k samples in {city}", today=FRIDAY).wishes


@pytest.mark.parametrize("words", ["New York Times articles", "AMD Milan servers", "reviews of Phoenix", "AMD Turin CPUs"])
def test_what_only_begins_like_a_city_is_no_region(words: str) -> None:
    assert "region" not in understand(f"LoRA of Qwen2.5-7B on 20k samples, {words}", today=FRIDAY).wishes


@pytest.mark.parametrize("size", ["7B", "300M", "14 billion parameters", "13B parameters"])
def test_a_size_that_is_not_the_models_is_asked_about(size: str) -> None:
    assert understand(f"LoRA of Qwen2.5-72B {size} on 20k samples", today=FRIDAY).weighty


@pytest.mark.parametrize("words", ["in Frankfurt", "on AWS", "in the EU", "in Germany"])
def test_what_must_be_stays_hard_beside_a_wish_that_is_not(words: str) -> None:
    text = "LoRA of Qwen2.5-7B on 20k samples"
    hard, soft = (understand(f"{text} {one}", today=FRIDAY) for one in (words, f"{words} if possible"))
    places = {"region", "cloud", "residency", "country"}
    assert places & set(hard.wishes)
    assert not places & set(soft.wishes)
    assert f"{words} if possible" in soft.unused
