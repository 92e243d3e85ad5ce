"""Where memory ran out, what the job needs and what saves how much; whether so much is enough; what
else does a job that the GPUs asked about do not."""

from __future__ import annotations

import pytest

from rightfit import api
from rightfit.explain.beside.able import within_unsaid
from rightfit.explain.beside.settled import settle
from rightfit.explain.memory_out import shortage_of
from rightfit.explain.open_wishes import open_wish
from rightfit.explain.questions import question_lookup
from rightfit.messages import Lang
from rightfit.planner.plan import default_catalog
from rightfit.search.answer import Plan
from rightfit.workload.ask import understand

ERROR = "CUDA out of memory. Tried to allocate 1.16 GiB (GPU 0; {} total capacity; 21.02 GiB already allocated)"
JOB = "I fine-tune Qwen2.5-7B with LoRA on an RTX 3090, per_device_train_batch_size={}, max length 2048, bf16, 1k samples. What should I change?"


def lines_of(sentence: str, lang: Lang = "en") -> list[str]:
    asked, catalog = settle(sentence, default_catalog()), default_catalog()
    found: Plan = api.plan(**{**understand(asked.wish).wishes, **asked.chosen}, catalog=catalog, top=1)
    return asked.lines(found, catalog, lang)


def test_each_change_says_what_it_saves_and_whether_it_fits() -> None:
    told = [line for line in lines_of(f"{ERROR.format('23.69 GiB')}\n{JOB.format(8)}") if line.startswith("- ")]
    assert {line.split(":")[0] for line in told} > {
        "- Gradient checkpointing",
        "- Micro-batch of 1 with gradient accumulation (instead of 8)",
    }
    for line in told:
        peak = float(line.split(": ")[1].split(" GiB")[0])
        assert line.endswith("It fits.") == (peak <= 0.95 * 23.69), line
    larger = [line for line in lines_of(f"{ERROR.format('79.20 GiB')}\n{JOB.format(8)}") if line.startswith("- ")]
    assert sum(line.endswith("It fits.") for line in larger) > sum(line.endswith("It fits.") for line in told)


def test_a_post_without_trouble_has_no_such_lines() -> None:
    assert not [line for line in lines_of(JOB.format(1)) if line.startswith(("- ", "GPU memory"))]


@pytest.mark.parametrize(("amount", "word"), [(16, "no"), (80, "yes")])
def test_so_much_memory_is_enough_or_not(amount: int, word: str) -> None:
    post = (
        f"I want to fine-tune openai/whisper-large-v3 on 300 hours of audio for 5 epochs, about $100 for all of it. "
        f"Is full fine-tuning of this model possible at all in {amount} GB? If not, which card do I need?"
    )
    told = lines_of(post)
    assert told[0].startswith(f"Possible at all in {amount} GB: {word}, full fine-tuning needs at least 30.8 GiB")
    assert ("LoRA needs" in told[0]) == (word == "no")


def test_where_the_card_does_not_do_it_the_plan_goes_on() -> None:
    sentence, catalog = "Is one 4090 enough to full fine-tune Qwen2.5-7B on 10M tokens? If not, what is?", default_catalog()
    asked = settle(sentence, catalog)
    found: Plan = api.plan(**{**understand(asked.wish).wishes, "offload": "none"}, catalog=catalog, top=1)
    assert found.best is None
    beyond, _ = within_unsaid(found, catalog, "en", again=api.plan, is_asked=True, top=1)
    assert beyond.best is not None
    assert beyond.advice[0].key.startswith("card_")
    assert asked.lines(beyond, catalog, "en")[0].startswith("No, not on 1 x RTX-4090")
    alone, _ = within_unsaid(found, catalog, "en", again=api.plan, top=1)
    assert alone.best is None


def test_the_cheapest_per_hour_is_of_all_that_do_it() -> None:
    sentence = "What is the cheapest per hour GPU instance on GCP for LoRA of Qwen2.5-7B on 20M tokens?"
    (told,) = [line for line in lines_of(sentence) if "costs least per hour" in line]
    found: Plan = api.plan("Qwen2.5-7B", method="lora", data="20M tokens", cloud="gcp", catalog=default_catalog(), top=300)
    least = min(found.options, key=lambda option: option.cost.hourly_usd)
    assert f"{least.provider}/{least.instance_type}" in told


@pytest.mark.parametrize(("said", "word"), [("is it cheaper with a one-year commitment?", "on demand"), ("包年会不会便宜？", "按量付费")])
def test_a_commitment_is_compared(said: str, word: str) -> None:
    lang: Lang = "zh" if word == "按量付费" else "en"
    told = lines_of(f"Serve Qwen2.5-7B to 20 users on AWS, {said}", lang)
    assert any(word in line for line in told)


def test_models_between_which_a_choice_is_are_compared() -> None:
    told = lines_of("Which is cheaper to serve to 10 users, Qwen3-32B or Qwen2.5-7B-Instruct?")
    assert told[0].startswith("Qwen2.5-7B-Instruct or Qwen3-32B: Qwen2.5-7B-Instruct")
    assert len([line for line in told if "`rightfit plan" in line]) == 2


@pytest.mark.parametrize(
    "sentence",
    [
        "evaluate Llama-3.1-8B, Qwen2.5-14B and Mistral-Small-24B on 12,000 questions, 600 tokens prompts and 200 tokens of output",
        "用 Llama-3.1-8B、Qwen2.5-14B 和 Mistral-Small-24B 各离线推理1.2万条，输入600 token，输出200 token",
    ],
)
def test_a_list_of_models_is_planned_one_by_one(sentence: str) -> None:
    catalog = default_catalog()
    assert question_lookup(sentence, catalog) is None
    found = open_wish(sentence, catalog)
    assert found is not None
    commands = found.facts["commands"]
    assert [name for command in commands for name in ("Llama-3.1-8B", "Qwen2.5-14B", "Mistral-Small-24B") if name in command] == [
        "Llama-3.1-8B",
        "Qwen2.5-14B",
        "Mistral-Small-24B",
    ]
    assert found.explanation_en.splitlines()[-1].startswith("Together: ")


@pytest.mark.parametrize(("split", "cards"), [("--tensor-parallel-size 2", 2), ("tp=4", 4)])
def test_weights_of_a_service_are_split_over_its_gpus(split: str, cards: int) -> None:
    post = f"vLLM OOM with Qwen2.5-32B on A10G. I start with {split} and get CUDA out of memory while loading weights. Works fine with the 7B. Which instance do I need for about 10 users?"
    short = shortage_of(understand(post), post, default_catalog())
    assert short is not None
    assert short.cards == cards
