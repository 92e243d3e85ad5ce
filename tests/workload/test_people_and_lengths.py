"""Who asks, how many at a time, and how long what they send is: ordinary words of a wish for a
service, in every combination."""

from __future__ import annotations

import datetime
import itertools

import pytest

from rightfit.units import parse_count
from rightfit.workload.ask import understand

DAY = datetime.date(2026, 11, 28)

PEOPLE = {
    "for our 40 person law office": 4.0,
    "for our 50 person law office in Dublin": 5.0,
    "for a 30-person startup": 3.0,
    "for a 60-employee engineering company": 6.0,
    "for one analyst": 1.0,
    "for a single lawyer": 1.0,
    "for 8 doctors, never more than one request at a time": 1.0,
    "for the team, at most 3 prompts at any time": 3.0,
    "no more than 2 conversations at once": 2.0,
}
LENGTHS = {
    "contracts up to ~30k tokens": 30_000.0,
    "reports of up to 8k tokens each": 8_000.0,
    "invoices are at most 4k tokens long": 4_000.0,
    "20k token documents": 20_000.0,
    "transcripts run up to 12k tokens": 12_000.0,
}
LENGTHS_ZH = {"文档最长3万token": 30_000.0, "合同一般2万tokens": 20_000.0, "每份报告最多8千个token": 8_000.0}


@pytest.mark.parametrize("people", PEOPLE)
def test_people_and_what_they_send_are_amounts(people: str) -> None:
    wrong = []
    for length, model in itertools.product(LENGTHS, ("qwen3 32b", "Llama-3.1-8B")):
        sentence = f"need {model} {people}, {length}, under 1500 eur a month"
        found = understand(sentence, today=DAY)
        told = found.wishes
        users, tokens = (parse_count(told.get(option, "0")) for option in ("users", "input_tokens"))
        if (users, tokens, told.get("task")) != (PEOPLE[people], LENGTHS[length], "serve") or found.weighty:
            wrong.append((sentence, told, found.weighty))
    assert not wrong


@pytest.mark.parametrize("length", LENGTHS_ZH)
def test_lengths_are_read_in_chinese(length: str) -> None:
    for people, users in (("给三个分析师部署", 3), ("8个坐席用", 8), ("给一个客服小组用，5名律师用", 5)):
        found = understand(f"Qwen3-32B，{people}，{length}", today=DAY)
        assert parse_count(found.wishes["users"]) == users, found.wishes
        assert parse_count(found.wishes["input_tokens"]) == LENGTHS_ZH[length]
        assert not found.weighty


def test_lengths_of_answers_and_of_samples_stay_what_they_are() -> None:
    told = understand("serve Qwen2.5-7B at 2/s, answers up to 500 tokens", today=DAY).wishes
    assert told.get("output_tokens") == "500"
    assert "input_tokens" not in told
    told = understand("LoRA Qwen2.5-7B on 5k contracts up to 8k tokens", today=DAY).wishes
    assert (told["seq_len"], told["data"]) == ("8k", "5k samples")


def test_money_for_a_month_is_that_of_a_service_and_formats_are_no_models() -> None:
    for sentence in ("qwen3 14b for the hospital's notes, 600 usd a month", "给医院做病历问答,14B左右的模型,一个月5000块"):
        assert understand(sentence, today=DAY).wishes["task"] == "serve"
    for name in ("WAV", "mp3", "FLAC", "DICOM", "COCO"):
        assert "model" not in understand(f"transcribe 3000 hours of radio, {name} files", today=DAY).wishes
