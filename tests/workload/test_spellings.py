"""One wish, many spellings, one request: parts in any order, units, digits and words, both
languages, words that say nothing. The spellings are tests/data/spellings.toml."""

from __future__ import annotations

import datetime
import random
import tomllib
from pathlib import Path
from typing import Any

import pytest

from rightfit import facts
from rightfit.errors import InputError
from rightfit.workload.ask import understand
from rightfit.workload.options import read_wishes

FRIDAY = datetime.date(2026, 11, 20)
TABLE = tomllib.loads((Path(__file__).parents[1] / "data" / "spellings.toml").read_text(encoding="utf-8"))
PARTS = {part["name"]: part for part in TABLE["part"]}
MOST_PARTS = 6
BETWEEN = {"en": (", ", "; ", ", and ", " - "), "zh": ("，", "；", ", ", "。")}


def request_of(wishes: dict[str, Any]) -> dict[str, Any]:
    """What the search gets: attributes, without the words that they were read from."""
    named = {name: value for name, value in wishes.items() if name not in ("model", "gpu")}
    found = {name: value for name, value in read_wishes(named).items() if name not in ("data", "budget")}
    cards = frozenset(card for name in wishes.get("gpu", "").split(",") if name for card in facts.named_accelerators(name, field="gpu"))
    model = "".join(char for char in str(wishes.get("model", "")).casefold() if char.isalnum())
    unit = {"data_unit": "samples"} if found.get("data_unit") in ("samples", "documents") else {}
    return {**found, **unit, "model": model, "gpu": cards, "avoid": frozenset(found.get("avoid", ()))}


def drawn(number: int) -> tuple[str, dict[str, Any], list[dict[str, Any]]]:
    """The wish of this number: (name of its head, what it asks for, its parts)."""
    chance = random.Random(number)
    head = chance.choice(sorted(TABLE["heads"]))
    names = list(TABLE["heads"][head]["parts"])
    chosen = [name for name in names if PARTS[name].get("needed")]
    for name in chance.sample(names, k=min(len(names), chance.randint(2, MOST_PARTS))):
        barred = {*PARTS[name].get("excludes", ())}
        if name not in chosen and not barred & {*chosen} and not any(name in PARTS[other].get("excludes", ()) for other in chosen):
            chosen.append(name)
    parts = [chance.choice(PARTS[name]["values"]) for name in chosen]
    model = chance.choice(TABLE["heads"][head]["models"])
    wish = {**TABLE["heads"][head]["wish"], "model": model}
    for part in parts:
        avoided = ",".join(filter(None, (wish.get("avoid", ""), part["wish"].get("avoid", ""))))
        wish |= {**part["wish"], **({"avoid": avoided} if avoided else {})}
    return head, wish, parts


def spelled(number: int, turn: int) -> str:
    """One spelling of the wish of this number."""
    chance = random.Random(f"{number}/{turn}")
    head, wish, parts = drawn(number)
    lang = chance.choice([lang for lang in ("en", "zh") if all(part[lang] for part in parts)] or ["en"])
    said = [chance.choice(part[lang] or part["en"]) for part in parts]
    said.append(chance.choice(TABLE["heads"][head][lang]).format(model=wish["model"]))
    chance.shuffle(said)
    for _ in range(chance.randint(0, 2)):
        said.insert(chance.randint(0, len(said)), chance.choice(TABLE["noise"][lang]))
    text = chance.choice(BETWEEN[lang]).join(said)
    return text.upper() if lang == "en" and chance.random() < 0.05 else text


def differences(numbers: range, turns: int) -> list[str]:
    """Spellings that give another request than their wish, or a question."""
    wrong = []
    for number in numbers:
        _, wish, _ = drawn(number)
        meant = request_of(wish)
        for turn in range(turns):
            text = spelled(number, turn)
            try:
                found = understand(text, today=FRIDAY)
                read = request_of(found.wishes)
            except InputError as error:
                wrong.append(f"{text}: {error}")
                continue
            if read != meant or found.weighty or found.own_machine:
                other = {name: (meant.get(name), read.get(name)) for name in {*meant, *read} if meant.get(name) != read.get(name)}
                wrong.append(f"{text}: {other} {found.weighty}")
    return wrong


def test_one_wish_has_many_spellings() -> None:
    assert not differences(range(300), 3)


@pytest.mark.parametrize("block", range(30))
def test_three_thousand_wishes_in_twenty_spellings(block: int) -> None:
    assert not differences(range(300 + 100 * block, 400 + 100 * block), 20)


@pytest.mark.parametrize("bits", ["4bit", "4-bit", "int4"])
@pytest.mark.parametrize("form", ["awq", "gptq"])
def test_bits_beside_the_name_of_a_format_say_it_again(form: str, bits: str) -> None:
    for said in (f"Qwen2.5-72B {form.upper()} {bits} 部署在两张 A10 上行吗", f"Deploy {bits} {form.upper()} Qwen2.5-72B on two A10"):
        found = understand(said)
        assert dict(found.settled())["quantization"] == form
        assert not found.weighty


@pytest.mark.parametrize("engine", ["vLLM", "SGLang", "TensorRT-LLM"])
def test_a_model_with_a_serving_engine_is_served(engine: str) -> None:
    for said in (f"What is the throughput of Llama-3-8B on one L4 with {engine}?", f"Llama-3-8B 用 {engine} 在一张 L4 上多快"):
        assert dict(understand(said).settled())["task"] == "serve"


ENDS_IN_A_NUMBER = (
    ("under $200", "budget"),
    ("sequence length 512", "seq_len"),
    ("epochs=3", "epochs"),
    ("seed 42", ""),
    ("batch size 2", "micro_batch"),
)
BEGINS_WITH_A_NUMBER = (("4 GPUs", "num_gpus"), ("5000 recordings of 375 words", "data"), ("20000 samples", "data"))


@pytest.mark.parametrize(("first", "option"), ENDS_IN_A_NUMBER)
@pytest.mark.parametrize(("second", "other"), BEGINS_WITH_A_NUMBER)
def test_a_dash_between_two_parts_makes_no_range(first: str, option: str, second: str, other: str) -> None:
    for said in (
        f"{first} - {second} - fine-tune Llama-3-8B - LoRA - on AWS",
        f"LoRA - fine-tune Llama-3-8B - on AWS - {first} - {second}",
    ):
        found = understand(said)
        assert {option, other} - {""} <= dict(found.settled()).keys(), found.wishes
        assert not found.weighty


@pytest.mark.parametrize(
    "said", ["LoRA - from 1000 - 2000 samples - fine-tune Llama-3-8B", "on AWS - LoRA of Llama-3-8B - 1000 - 2000 samples - thanks"]
)
def test_a_range_between_dashes_stays_one(said: str) -> None:
    assert dict(understand(said).settled())["data"] == "2000 samples"


@pytest.mark.parametrize("between", ["; ", " - ", ". "])
def test_a_price_that_stands_alone_is_a_limit(between: str) -> None:
    parts = (
        "serve Qwen2.5-7B",
        "with vLLM",
        "on 8 H100",
        "up to 50 users",
        "we are a small company",
        "40 tokens/s per user",
        "in English",
        "$2 per hour",
    )
    assert dict(understand(between.join((*parts, "please and thanks for any help at all"))).settled())["budget"] == "1460usd/month"
    told = between.join((*parts[:-1], "somebody has one for $2 per hour", "please and thanks for any help at all"))
    assert "budget" not in understand(told).wishes
