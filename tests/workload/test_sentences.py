"""Sentences with the request that each means, written before the reader was: every hard word is
used, or the sentence stops with the question."""

from __future__ import annotations

import datetime
import itertools
from pathlib import Path
from typing import Any

import pytest

from rightfit.errors import InputError
from rightfit.workload.ask import understand
from rightfit.workload.ask.slips import mended
from rightfit.workload.options import read_wish

FRIDAY = datetime.date(2026, 11, 20)
DATA = Path(__file__).parents[1] / "data"
LINES, TYPED, *BLIND = (
    [line for line in (DATA / name).read_text(encoding="utf-8").splitlines() if "=>" in line]
    for name in (
        "sentences_read.txt",
        "sentences_new.txt",
        "sentences_fresh.txt",
        "sentences_late.txt",
        "sentences_last.txt",
        "sentences_final.txt",
        "sentences_sixth.txt",
        "sentences_classes.txt",
        "sentences_eighth.txt",
        "sentences_usual.txt",
        "sentences_blind.txt",
        "sentences_ninth.txt",
        "sentences_tenth.txt",
        "sentences_tenth_fresh.txt",
        "sentences_small_words.txt",
        "sentences_parts.txt",
    )
)


def wanted(text: str) -> tuple[dict[str, str], set[str], set[str]]:
    """Options, words of the question, words that are only listed."""
    parts = [part.strip() for part in text.split(";") if part.strip()]
    pairs = dict(part.split("=", 1) for part in parts if part[0] not in "?!")
    return pairs, {part[1:] for part in parts if part[0] == "?"}, {part[1:] for part in parts if part[0] == "!"}


def attributes(option: str, value: Any) -> object:
    """What an option sets, without the words it was written in."""
    text = "".join(str(value).casefold().split())
    if option in ("model", "have", "region", "gpu", "framework", "settings", "library", "kind", "avoid"):
        return text.replace("-", "").replace("rtx", "")
    found = read_wish(option, str(value))
    return {name: one for name, one in found.items() if name not in ("data", "budget") or len(found) == 2}


def verdict(line: str) -> tuple[str, str]:
    """ "right", "wrong" (answered otherwise than meant) or "asked" (needlessly); what differs."""
    sentence, _, expected = line.partition("=>")
    wishes, asked, listed = wanted(expected)
    try:
        found = understand(sentence, today=FRIDAY)
    except InputError as error:
        return ("right" if asked else "asked"), str(error)
    said = {**found.wishes, **({"have": found.own_machine} if found.own_machine else {})}
    if found.own_machine:
        said.pop("gpu", None)
    if found.kind:
        said["kind"] = found.kind
    questions = " ".join(found.weighty).casefold()
    missed = {word for word in asked if word.casefold() not in questions}
    differs = {
        name
        for name in {*said, *wishes}
        if name not in said or name not in wishes or attributes(name, said[name]) != attributes(name, wishes[name])
    }
    told = f"{said}; asks {found.weighty}; lists {found.unused}"
    if not differs and not missed and not (listed - set(found.unused)) and bool(asked) == bool(found.weighty):
        return "right", told
    if asked and found.weighty and not missed:
        return "right", told  # it stops, with the right question; what else was read is shown with it
    return ("asked" if found.weighty else "wrong"), f"{sorted(differs)} {sorted(missed)}: {told}"


@pytest.mark.parametrize("line", [*LINES, *TYPED, *itertools.chain(*BLIND)])
def test_what_is_meant_is_read(line: str) -> None:
    found, told = verdict(line)
    assert found == "right", told


def test_there_are_two_hundred_sentences() -> None:
    assert len(LINES) >= 200
    assert len(TYPED) >= 150
    assert sum(map(len, BLIND)) >= 200


@pytest.mark.parametrize(
    ("words", "hard"),
    [
        ("with a zephyranth", "zephyranth"),  # a means
        ("on Vastwing", "Vastwing"),  # a name
        ("with 7 zephyranths", "7 zephyranths"),  # a count
        ("not zephyranthine", "not zephyranthine"),  # a denial
        ("zephyranth 0.3", "zephyranth 0.3"),  # a setting
        ("zx-81b", "zx-81b"),  # a name by its digits
        ("高可用", "高可用"),
        ("不含紫檀", "不含紫檀"),
    ],
)
def test_what_counts_stops_the_answer(words: str, hard: str) -> None:
    assert hard in understand(f"fine-tune Llama-3-8B with LoRA on 50k samples, {words}", today=FRIDAY).weighty


@pytest.mark.parametrize("words", ["zephyranthine", "for our Vastwing", "to zephyranthise it", "紫檀木", "we love zephyranths"])
def test_ordinary_words_are_listed_and_stop_nothing(words: str) -> None:
    found = understand(f"fine-tune Llama-3-8B with LoRA on 50k samples, {words}", today=FRIDAY)
    assert not found.weighty
    assert found.unused


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("finetuen", "finetune"), ("fintune", "finetune"), ("fin-tune", "finetune"), ("pretrian", "train"), ("depoly", "serve")],
)
def test_slips_in_words_that_decide(typed: str, meant: str) -> None:
    assert understand(f"{typed} Llama-3-8B", today=FRIDAY).wishes["task"] == meant


@pytest.mark.parametrize(
    ("typed", "meant"), [("deepsek v3", "deepseek v3"), ("mistrl 7B", "mistral 7B"), ("mixtrall 8x7B", "mixtral 8x7B")]
)
def test_slips_in_series_before_a_version(typed: str, meant: str) -> None:
    assert understand(f"serve {typed}", today=FRIDAY).wishes["model"] == meant
    assert mended("a mitral valve was resent") == "a mitral valve was resent"


@pytest.mark.parametrize("words", ["retain", "raining", "caution", "severing"])
def test_words_that_only_look_like_slips(words: str) -> None:
    assert "task" not in understand(f"Llama-3-8B {words}", today=FRIDAY).wishes


HOURS = (("2,500", "7"), ("40", "300"), ("6", "48"))
ENGLISH = (
    "transcribe {data} hours of {sound} {limit} {deadline} hours with whisper-large-v3",
    "{limit} {deadline} hours, transcribe {data} hours of {sound} with whisper-large-v3",
    "with whisper-large-v3 transcribe {data} hours of {sound}, done {limit} {deadline} hours",
    "{data} hours of {sound} to text {limit} {deadline} hours, whisper-large-v3",
    "whisper-large-v3, transcribe {limit} {deadline} hours {data} hours of {sound}",
)
CHINESE = (
    "{data}小时{sound}要在{deadline}小时{limit}转成文字，用whisper-large-v3",
    "{deadline}小时{limit}转写{data}小时{sound}，用whisper-large-v3",
    "用whisper-large-v3把{data}小时的{sound}{deadline}小时{limit}转写完",
    "whisper-large-v3，{deadline}小时{limit}完成，{data}小时{sound}转文字",
    "{data}小时{sound}，{deadline}小时{limit}用whisper-large-v3转成文字",
    "{sound}{data}小时，{deadline}小时{limit}转写完，whisper-large-v3",
)
ORDERS = [
    (shape, sound, limit, data, deadline)
    for shapes, sounds, limits in (
        (ENGLISH, ("audio", "recordings", "podcasts", "video"), ("within", "in", "in under")),
        (CHINESE, ("录音", "视频", "音频", "播客"), ("内", "之内", "以内")),
    )
    for shape, sound, limit, (data, deadline) in itertools.product(shapes, sounds, limits, HOURS)
]


@pytest.mark.parametrize(("shape", "sound", "limit", "data", "deadline"), ORDERS)
def test_hours_of_sound_are_never_the_deadline(shape: str, sound: str, limit: str, data: str, deadline: str) -> None:
    found = understand(shape.format(sound=sound, limit=limit, data=data, deadline=deadline), today=FRIDAY)
    assert attributes("data", found.wishes["data"]) == attributes("data", f"{data} hours")
    assert attributes("deadline", found.wishes["deadline"]) == attributes("deadline", f"{deadline} hours")


@pytest.mark.parametrize(
    ("today", "words", "hours"),
    [
        ("2026-11-18", "by this Friday", 48),
        ("2026-11-18", "下周三之前", 7 * 24),
        ("2026-11-16", "下周五之前", 11 * 24),
        ("2026-11-16", "by the end of next week", 11 * 24),
        ("2026-11-10", "月底之前", 20 * 24),
        ("2026-12-31", "by the end of next month", 31 * 24),
        ("2026-11-30", "by the end of this month", 12),
    ],
)
def test_days_of_the_calendar(today: str, words: str, hours: int) -> None:
    found = understand(f"LoRA of Qwen2.5-7B on 20k samples, {words}", today=datetime.date.fromisoformat(today))
    assert attributes("deadline", found.wishes["deadline"]) == attributes("deadline", f"{hours}h")


@pytest.mark.parametrize("words", ["by Easter", "before the launch", "until the conference", "春节前完成", "发布会前要", "这周三之前"])
def test_a_deadline_that_is_not_read_is_asked_about(words: str) -> None:
    assert understand(f"LoRA of Qwen2.5-7B on 20k samples, {words}", today=FRIDAY).weighty


@pytest.mark.parametrize(("words", "asked"), [("XTTS, 300 hours of speech", "nor of a near relative")])
def test_a_well_known_model_without_figures_is_said(words: str, asked: str) -> None:
    unknown = understand(words, today=FRIDAY).unknown_model()
    assert unknown is not None
    assert asked in unknown.text("en")


@pytest.mark.parametrize("words", ["nnU-Net on 500 scans, 5 folds", "训练SwinUNETR，800例"])
def test_a_network_whose_relative_is_known_is_planned(words: str) -> None:
    found = understand(words, today=FRIDAY)
    assert found.wishes["task"] == "train"
    assert found.wishes["model"] in words
    assert not found.weighty


@pytest.mark.parametrize("name", ["SenseVoice", "paraformer", "FunASR"])
def test_a_recognizer_whose_relative_is_known_is_planned(name: str) -> None:
    found = understand(f"transcribe 300 hours with {name}", today=FRIDAY)
    assert (found.wishes["task"], found.wishes["model"]) == ("batch", name)


@pytest.mark.parametrize(
    ("words", "way"),
    [("with 7 zephyranths", "--data"), ("not zephyranthine", "--avoid"), ("on Vastwing", "--cloud"), ("with a zephyranth", "--help")],
)
def test_the_question_names_what_would_work(words: str, way: str) -> None:
    assert way in understand(f"fine-tune Llama-3-8B with LoRA on 50k samples, {words}", today=FRIDAY).question().text("en")
