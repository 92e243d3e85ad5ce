"""Parts of a card and several models on one server: the vendor's table, what a slice has, what is
refused, who pays."""

from __future__ import annotations

import json
from typing import Any

import pytest

import rightfit
from rightfit import facts
from rightfit.errors import InputError
from rightfit.exports.job import PlanDocument, job_of
from rightfit.exports.registry import all_targets
from rightfit.facts.devices import cut, read_slice, slice_of
from rightfit.facts.tables import table

ROWS = list(table("card_slices"))
SMALL = {"model": "Qwen/Qwen2.5-1.5B-Instruct", "task": "serve", "rate": "2/s", "cloud": "aws", "purchase": "on-demand", "top": 3}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['cards']}/{row['profile']}")
def test_no_profile_gives_out_more_than_the_card_has(row: dict[str, str]) -> None:
    memory, compute, count = float(row["memory_share"]), float(row["compute_share"]), int(row["per_card"])
    assert memory * count <= 1.0
    assert compute * count <= 1.001
    assert row["source"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['cards']}/{row['profile']}")
def test_every_row_is_of_a_card_and_its_name_says_its_memory(row: dict[str, str]) -> None:
    import re

    cards = [card for name, card in facts.accelerators().items() if re.fullmatch(row["cards"], name)]
    assert cards
    said = float(row["profile"].partition(".")[2].removesuffix("gb"))
    for card in cards:
        part = slice_of(card.name, row["profile"])
        assert part is not None
        made = cut(card, part)
        assert made.memory_bytes / 1e9 == pytest.approx(said, rel=0.13), (card.name, made.memory_bytes)
        assert made.bf16_flops <= card.bf16_flops
        assert made.nvlink_bandwidth == 0


@pytest.mark.parametrize("card", ["A100-SXM-80GB", "H100-SXM-80GB", "H200-SXM-141GB", "B200-SXM-180GB"])
def test_the_four_data_centre_cards_have_seven_slices(card: str) -> None:
    part = slice_of(card, "1g")
    assert part is not None
    assert part.per_card == 7


@pytest.mark.parametrize(("text", "kept"), [("3g.40gb", "3g.40gb"), ("MIG 2g", "2g"), ("1/4", "0.25"), ("25%", "0.25"), ("0.5", "0.5")])
def test_words_of_slices(text: str, kept: str) -> None:
    assert read_slice(text) == kept


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"slice": "9g"}, "write a MIG profile"),
        ({"slice": "3g.41gb"}, "slices of 3g: "),
        ({"slice": "3/4"}, "1/100 to 1/2"),
        ({"slice": "1/0"}, "cannot read"),
        ({"slice": "1g", "gpu": "L4"}, "L4 does not support such slices; use a GPU with MIG"),
        ({"slice": "1g", "gpu": "MI300X", "cloud": None}, "MI300X does not support such slices"),
        ({"slice": "1g", "tensor_parallel": 2}, "slices have no interconnect"),
        ({"beside": "@3/s"}, "names no model"),
        ({"beside": "nosuchmodel"}, "unknown model"),
        ({"beside": "bert-base-uncased", "fleet": "mixed"}, "beside contradicts fleet mixed"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(more: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        rightfit.plan(**{**SMALL, **more})
    assert "\n" not in str(caught.value)


def best(**more: Any) -> Any:
    found = rightfit.plan(**{**SMALL, **more}).best
    assert found is not None
    return found


def test_a_slice_holds_less_and_is_slower_than_its_card() -> None:
    whole, part = best(gpu="H100"), best(gpu="H100", slice="1g")
    assert part.layout.slice == "1g.10gb"
    assert part.estimate["tpot_p50_s"].mid > whole.estimate["tpot_p50_s"].mid
    assert part.estimate["requests_per_s"].mid / part.layout.data < whole.estimate["requests_per_s"].mid / whole.layout.data
    assert part.estimate["peak_memory_bytes"].mid < 10e9
    assert part.accelerator.memory_bytes == whole.accelerator.memory_bytes  # the card that is rented is the same


def test_a_larger_slice_is_never_slower() -> None:
    times = [best(gpu="H100", slice=name).estimate["tpot_p50_s"].mid for name in ("1g.10gb", "2g.20gb", "3g.40gb", "7g.80gb")]
    assert times == sorted(times, reverse=True)


def test_seven_replicas_share_one_card() -> None:
    found = best(gpu="H100", slice="1g", rate="40/s")
    slots = 7 * found.accelerator.count_per_node
    assert found.layout.data > 1
    assert found.nodes == -(-found.layout.data // slots)


def test_models_of_one_pass_have_slices_too() -> None:
    wish = {"model": "bert-base-uncased", "task": "serve", "rate": "100/s", "gpu": "A100", "cloud": "aws,gcp,azure", "top": 1}
    whole, part = (rightfit.plan(**wish, **more).best for more in ({}, {"slice": "1g"}))
    assert whole is not None
    assert part is not None
    assert part.estimate["latency_p50_s"].mid > whole.estimate["latency_p50_s"].mid


def test_neighbours_stand_on_cards_of_the_same_servers() -> None:
    alone, shared = best(gpu="L4"), best(gpu="L4", beside="bert-base-uncased@500/s,openai/whisper-small")
    cards = [option.nodes * option.accelerator.count_per_node for option in (alone, shared)]
    assert cards[1] >= cards[0] + 2
    assert shared.cost.total_usd > alone.cost.total_usd


def test_slices_take_in_neighbours_that_whole_cards_would_pay_for() -> None:
    wish = {**SMALL, "gpu": "H100", "beside": "bert-base-uncased@50/s,resnet50@20/s", "rate": "1/s"}
    whole, part = (rightfit.plan(**wish, **more).best for more in ({}, {"slice": "2g"}))
    assert whole is not None
    assert part is not None
    assert part.cost.total_usd <= whole.cost.total_usd
    assert part.nodes * part.accelerator.count_per_node == 1


def test_no_file_starts_what_it_cannot_divide() -> None:
    plan = rightfit.plan(**{**SMALL, "gpu": "H100", "slice": "1g", "top": 1})
    job = job_of(PlanDocument.model_validate(json.loads(plan.to_json())))
    problems = {target.problem(job) for target in all_targets().values()}
    assert len(problems) == 1
    assert "no export target supports GPU slices" in str(problems.pop())
