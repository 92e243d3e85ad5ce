"""Quantities of a sentence, generated: amounts of things that no list knows, sizes, ranges, money
in every currency and for every time, dates of every day."""

from __future__ import annotations

import datetime
import itertools
import tomllib
from pathlib import Path

import pytest

import rightfit
from rightfit.facts import tables
from rightfit.units import format_money, parse_bytes, parse_data, parse_money
from rightfit.workload.ask import understand
from rightfit.workload.ask.sentence import Understood

FRIDAY = datetime.date(2026, 11, 20)
UNITS = tomllib.loads((Path(rightfit.__file__).parent / "data" / "units.toml").read_text(encoding="utf-8"))


def read(text: str, today: datetime.date = FRIDAY) -> Understood:
    found = understand(text, today=today)
    assert not found.weighty, found.weighty
    return found


HEADS = {
    "fine-tune Qwen2.5-7B with LoRA on {}": "finetune",
    "train resnet50 on {} for 3 epochs": "train",
    "train lightgbm on {}": "train",
    "{} to fine-tune bert-base-uncased": "finetune",
    "classify {} with resnet50": "batch",
    "batch inference with Qwen2.5-7B over {}": "batch",
    "用Qwen2.5-7B微调，{}": "finetune",
}
AMOUNTS = {"300": 300, "1,200": 1200, "40k": 40_000, "2.5 million": 2.5e6, "half a million": 5e5, "twelve": 12}
NOUNS = (
    "lectures",
    "CT volumes",
    "product photos",
    "satellite tiles",
    "court rulings",
    "loan applications",
    "knitting patterns",
    "glorps",
    "mass spectra",
    "retina slides",
    "chess games",
    "wind turbine blades",
    "ECG traces",
    "lute tablatures",
    "patients",
)


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("noun", NOUNS)
def test_a_number_of_any_thing_is_so_many_samples(head: str, noun: str) -> None:
    for amount, count in AMOUNTS.items():
        found = read(head.format(f"{amount} {noun}")).wishes
        assert parse_data(str(found["data"])).samples == count
        assert found["task"] == HEADS[head]


CHINESE = ("份判决书", "个菜谱", "首古诗", "张商品图", "例CT", "件文物", "篇病历", "个商品标题", "枚指纹", "条弹幕", "封投诉信")


@pytest.mark.parametrize("noun", CHINESE)
@pytest.mark.parametrize("head", ["微调Qwen2.5-7B，{}", "用resnet50训练，{}", "{}，全量微调bert-base-chinese"])
def test_a_number_of_any_thing_in_chinese(noun: str, head: str) -> None:
    for amount, count in {"1200": 1200, "三万": 30_000, "1.5万": 15_000, "两千": 2000, "10w": 100_000}.items():
        found = read(head.format(amount + noun)).wishes
        assert parse_data(str(found["data"])).samples == count


@pytest.mark.parametrize("thing", ["languages", "regions", "experiments", "GPU years", "layers", "providers", "seeds", "months"])
def test_what_is_no_data_is_never_counted_as_samples(thing: str) -> None:
    assert "data" not in understand(f"fine-tune Qwen2.5-7B on 12 {thing}", today=FRIDAY).wishes


@pytest.mark.parametrize("size", ["2 TB", "500GB", "1.5 PB", "40 GiB", "700 MB"])
@pytest.mark.parametrize("topic", ["", " of satellite tiles", " of chat logs", " of parquet", " of glorps"])
@pytest.mark.parametrize("head", ["train resnet50 on {}", "fine-tune Qwen2.5-7B on {}", "train xgboost on {}"])
def test_a_size_of_any_thing_is_bytes(size: str, topic: str, head: str) -> None:
    assert parse_bytes(str(read(head.format(size + topic)).wishes["data"])) == parse_bytes(size)


RANGES = (
    ("data", "fine-tune Qwen2.5-7B on {} samples", "samples"),
    ("data", "fine-tune Qwen2.5-7B on {} legal contracts", "samples"),
    ("epochs", "fine-tune Qwen2.5-7B on 10k samples for {} epochs", ""),
    ("deadline", "fine-tune Qwen2.5-7B on 10k samples in {} days", "days"),
    ("users", "serve Qwen2.5-7B for {} users", ""),
    ("rate", "serve Qwen2.5-7B at {} requests per second", "/s"),
    ("budget", "fine-tune Qwen2.5-7B on 10k samples for {} dollars", "dollars"),
    ("seq_len", "fine-tune Qwen2.5-7B on 10k samples of {} tokens each", ""),
)


@pytest.mark.parametrize(("option", "sentence", "unit"), RANGES)
@pytest.mark.parametrize("between", ["{}-{}", "{} to {}", "between {} and {}", "{}~{}", "from {} to {}"])
def test_of_a_range_the_upper_end_is_used_and_said(option: str, sentence: str, unit: str, between: str) -> None:
    upper, ranged = read(sentence.format(7)), read(sentence.format(between.format(3, 7)))
    assert ranged.wishes[option] == upper.wishes[option]
    assert "workload.assumed_range" in [message.key for message in ranged.assumed]
    assert unit in str(ranged.wishes[option]) or option == "data"


@pytest.mark.parametrize("words", ["on workdays 9 to 18", "with 30 steps and 20 users", "for 20 users and 5 qps", "3 GPUs or 4 nodes"])
def test_two_numbers_are_not_always_a_range(words: str) -> None:
    assert "workload.assumed_range" not in [message.key for message in understand(f"serve SDXL {words}", today=FRIDAY).assumed]


MONEY = [(code, word) for code, *words in UNITS["currencies"] for word in words if word not in ("try", "won", "块", "块钱")]


@pytest.mark.parametrize(("code", "word"), MONEY)
def test_money_of_every_currency(code: str, word: str) -> None:
    """As a word behind the amount, as a sign before it."""
    is_sign = not word.isalpha() and word != "元人民币"
    for limit in ("under {}", "at most {}", "budget {}"):
        text = limit.format(f"{word}400" if is_sign else f"400 {word}" if word.isascii() else f"400{word}")
        paid = parse_money(str(read(f"fine-tune Qwen2.5-7B on 10k samples, {text}").wishes["budget"]))
        assert (paid.amount, paid.currency) == (400, code)


TIMES = {
    "per hour": 730,
    "an hour": 730,
    "/hr": 730,
    "a day": 730 / 24,
    "per week": 730 / 168,
    "a year": 1 / 12,
    "a month": 1,
    "monthly": 1,
}


@pytest.mark.parametrize("time", TIMES)
@pytest.mark.parametrize("money", ["$30", "30 euros", "£30", "¥30"])
def test_money_for_a_time_is_the_month_of_a_service_and_a_question_of_a_job(time: str, money: str) -> None:
    found = read(f"serve Qwen2.5-7B at 5 qps, at most {money}{'' if time[0] == '/' else ' '}{time}")
    paid = parse_money(str(found.wishes["budget"]))
    assert paid.per_month
    assert paid.amount == pytest.approx(30 * TIMES[time], rel=1e-4)
    if TIMES[time] != 1:
        assert format_money(paid.amount, paid.currency) in " ".join(message.text("en") for message in found.assumed)
        job = understand(f"fine-tune Qwen2.5-7B on 10k samples, at most {money} {time.removeprefix('/')}", today=FRIDAY)
        assert "budget" not in job.wishes
        assert job.weighty


FORMATS = (
    "by {d:%B} {d.day}",
    "before {d.day} {d:%b}",
    "by {d:%Y-%m-%d}",
    "due {d.day}.{d.month}.{d.year}",
    "no later than {d:%B} {d.day}, {d.year}",
    "{d.month}月{d.day}日前",
    "{d.year}年{d.month}月{d.day}号之前完成",
)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("today", [FRIDAY, datetime.date(2027, 12, 30), datetime.date(2028, 2, 28)])
def test_every_date_is_its_days(form: str, today: datetime.date) -> None:
    for ahead in (1, 2, 9, 30, 64, 200, 360):
        day = today + datetime.timedelta(days=ahead)
        found = read(f"fine-tune Qwen2.5-7B on 10k samples, {form.format(d=day)}", today)
        assert found.wishes["deadline"] == f"{ahead * 24}h", (form, day)


def words_of(chosen: str) -> list[str]:
    """The words of a list as they are written."""
    return [word.word.replace(r"\s", " ").replace("?", "") for word in tables.words("quantities", chosen)]


def test_every_word_of_a_deadline_is_read() -> None:
    """Words before the day after, its names, and Chinese verbs behind an hour or a date."""
    nights = [f"{until} 7 am the {day}" for until, day in itertools.product(words_of("until"), words_of("next_day_en"))]
    nights += [
        f"{day}7点{before}{must}" for day in words_of("next_day_zh") for before in words_of("before_zh") for must in words_of("must_zh")
    ]
    dates = [f"12月1日{before}{must}完成" for before in words_of("before_zh") for must in words_of("must_zh")]
    wrong = {}
    for hours, forms in (("7h", nights), ("264h", dates)):
        for form in forms:
            found = understand(f"用 Qwen2.5-7B 微调 1万条数据，{form}", today=FRIDAY)
            if found.wishes.get("deadline") != hours or found.unused:
                wrong[form] = (found.wishes.get("deadline"), found.unused)
    assert not wrong


def test_every_small_number_is_read_before_a_half_and_used_cards() -> None:
    wrong = {}
    for word in tables.words("quantities", "english_number"):
        if " " in word.word:
            continue
        for form, option, meant in (
            ("in {} and a half hours", "deadline", f"{word.meaning}.5 hours"),
            ("on {} used RTX 3090s", "num_gpus", word.meaning),
        ):
            found = understand(f"fine-tune Qwen2.5-7B on 10k samples {form.format(word.word)}", today=FRIDAY)
            if found.wishes.get(option) != meant or found.unused:
                wrong[form.format(word.word)] = (found.wishes.get(option), found.unused)
    assert not wrong


@pytest.mark.parametrize("words", ["by 5/12", "by 2020-01-01", "by February 30", "2月30日前"])
def test_a_date_that_is_none_or_two_is_asked_about(words: str) -> None:
    assert understand(f"fine-tune Qwen2.5-7B on 10k samples, {words}", today=FRIDAY).weighty


@pytest.mark.parametrize(("micro", "times", "gpus"), [*itertools.product((1, 2, 8), (4, 16), (1, 2, 8))])
def test_accumulation_makes_a_global_batch(micro: int, times: int, gpus: int) -> None:
    cards = f" on {gpus} GPUs" if gpus > 1 else ""
    for form in (
        "batch size {micro} with gradient accumulation {times}",
        "per-device batch size {micro}, {times} gradient accumulation steps",
        "per_device_train_batch_size={micro} gradient_accumulation_steps={times}",
        "每卡批大小{micro}，梯度累积{times}步",
    ):
        found = read(f"fine-tune Llama-3-8B on 10k samples{cards}, {form.format(micro=micro, times=times)}").wishes
        assert (found["micro_batch"], found["global_batch"]) == (str(micro), str(micro * times * gpus)), form


@pytest.mark.parametrize("steps", [100, 2000, 30_000])
def test_steps_of_a_batch_are_an_amount(steps: int) -> None:
    alone = read(f"fine-tune Llama-3-8B for {steps} steps with batch size 16").wishes
    assert parse_data(alone["data"]).samples == steps * 16
    assert alone["epochs"] == "1"
    told = read(f"fine-tune Llama-3-8B on 4000 samples for {steps} steps with batch size 16").wishes
    assert float(told["epochs"]) == pytest.approx(steps * 16 / 4000, rel=1e-3)


#: Trainings told by their steps alone, and the samples of a step that are usual there.
USUAL_STEPS = {
    "fine-tune Llama-3-8B for {steps} steps": 8,
    "GRPO on Qwen2.5-7B with LoRA, {steps} steps": 8,
    "PPO of llama 3 8b for {steps} steps": 8,
    "DPO on Mistral 7B, {steps} steps": 8,
    "用Unsloth做GRPO，Qwen2.5-3B，先试{steps}步": 8,
    "GRPO训练Qwen2.5-7B，{steps}步，8卡": 64,
    "DreamBooth of SDXL, 30 photos, {steps} steps": 1,
    "fine-tune whisper-small, {steps} steps": 8,
}


@pytest.mark.parametrize("form", USUAL_STEPS)
@pytest.mark.parametrize("steps", [100, 2000])
def test_steps_without_a_batch_take_the_usual_one_aloud(form: str, steps: int) -> None:
    found = understand(form.format(steps=steps), today=FRIDAY)
    assert not found.weighty
    assert any(one.key == "workload.assumed_steps_usual" for one in found.assumed)
    passed = parse_data(found.wishes["data"]).samples * float(found.wishes["epochs"])
    assert passed == pytest.approx(steps * USUAL_STEPS[form], rel=0.01)


@pytest.mark.parametrize("corpus", ["", " on openwebtext"])
def test_steps_from_scratch_are_tokens(corpus: str) -> None:
    found = understand(f"train gpt2 124M from scratch for 1000 steps{corpus}", today=FRIDAY)
    assert not found.weighty
    assert parse_data(found.wishes["data"]).tokens == 1000 * 524288


@pytest.mark.parametrize(
    ("words", "jobs"),
    [
        ("hyperparam sweep of 100 trials", 100),
        ("5 folds and 8 learning rates", 40),
        ("lr sweep with 6 values", 6),
        ("20 configs x 3 seeds", 60),
        ("redo it 6 times", 6),
        ("repeat the run 4 times", 4),
        ("12组超参", 12),
        ("5个随机种子", 5),
        ("重复跑6次", 6),
    ],
)
def test_work_that_is_done_again_is_counted(words: str, jobs: int) -> None:
    for wish in ("fine-tune bert-base on 100k reviews", "xgboost on 5M rows x 40 columns"):
        found = understand(f"{wish}, {words}", today=FRIDAY)
        assert not found.weighty
        said = [one.fields["jobs"] for one in found.assumed if one.key == "workload.assumed_jobs"]
        assert said == [f"{jobs:,}"]


@pytest.mark.parametrize(
    ("words", "hours"),
    [
        ("300 lectures of 90 minutes", 450),
        ("5,000 calls, 6 minutes each", 500),
        ("120 podcasts, 45 min per episode", 90),
        ("20 years of radio", 175_200),
        ("300节课，每节45分钟", 225),
        ("3天的录音", 72),
    ],
)
def test_recordings_of_so_long_each_are_hours(words: str, hours: float) -> None:
    assert parse_data(read(f"transcribe with whisper-large-v3, {words}").wishes["data"]).samples == pytest.approx(hours)


def test_the_usual_length_of_a_recording_is_said() -> None:
    found = read("transcribe 300 lectures with whisper-large-v3")
    assert found.wishes["data"] == "300 hours"
    assert "60 minutes each (assumed" in found.assumed[0].text("en")


@pytest.mark.parametrize(("words", "many"), [("several hundred", 500), ("a few thousand", 3000), ("tens of thousands of", 30_000)])
def test_a_vague_amount_is_said(words: str, many: float) -> None:
    found = read(f"fine-tune Qwen2.5-7B on {words} samples")
    assert parse_data(found.wishes["data"]).samples == many
    assert words.split()[0] in found.assumed[0].text("en")


#: Turns of short wishes, and what each must give beside its model.
TURNS = {
    "embed 20M passages (300 tokens avg) with bge-m3": {"input_tokens": "300", "data": "20M samples"},
    "QLoRA of mistral nemo 12b, 25k pairs ~600 tok": {"seq_len": "600"},
    "translate 3M descriptions en->de with a 7B, 150 words each": {"input_tokens": "200", "data": "3M samples"},
    "ViT-B/16 on 2M images, 30 epochs, want under a day": {"deadline": "1 day"},
    "serve mixtral 8x7b to 40 people, eu-based server only": {"residency": "eu"},
    "host qwen2.5-14b for 30 users, us-based": {"country": "US"},
    "serve llama 3.1 8b to 30 users, Frankfurt based server": {"region": "Frankfurt"},
    "kmeans on 50M embeddings of 768 dim": {"data": "50Mrows x 768cols"},
    "transcribe 20k calls (6 min avg) with whisper medium": {"data": "2000 hours"},
    "给5万条客服录音（平均3分钟）转写，用whisper-large-v3": {"data": "2500 hours"},
    "DPO训练Qwen2.5-7B，3万对，单卡80G": {"gpu": "80GB", "num_gpus": "1"},
    "SDXL 5000 product images": {"task": "batch", "data": "5000 images"},
    "SDXL lora 40 images": {"task": "finetune", "data": "40 images"},
    "SimPO on gemma-2-9b-it, 40k pairs": {"method": "orpo"},
    "RLOO with Qwen2.5-3B on 5k prompts": {"method": "grpo"},
    "AlphaFold2 predictions for 2000 proteins": {"task": "batch"},
    "全参数微调Qwen2.5-14B，1亿token，手上没有机器": {"data": "1亿token"},
    "lora on gemma 2 9b w 3k examples, no gpu here": {"model": "gemma 2 9b", "data": "3k examples"},
    "retrain xgboost on 5M rows x 300 columns every hour": {"data": "5Mrows x 300cols"},
    "TFT forecasting for 800 sensors, hourly data, 1 year": {"data": "7008000 samples"},
    "nnU-Net 3d fullres on 300 CT scans": {"data": "300 images"},
}


@pytest.mark.parametrize("sentence", TURNS)
def test_turns_of_short_wishes_are_read(sentence: str) -> None:
    found = understand(sentence, today=FRIDAY)
    assert not found.weighty
    assert {name: found.wishes.get(name) for name in TURNS[sentence]} == TURNS[sentence]
    assert TURNS[sentence].get("deadline") == found.wishes.get("deadline")


@pytest.mark.parametrize(
    "sentence",
    ["serve llama 3.1 8b for a berlin-based startup with 30 users", "we are a US-based company, serve llama 3.1 8b for 50 users"],
)
def test_where_somebody_is_based_is_no_place_of_the_server(sentence: str) -> None:
    assert not {"region", "country", "residency"} & set(understand(sentence, today=FRIDAY).wishes)
