"""A machine of one's own: how it is written, what runs on it, and why not."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest

from rightfit import facts
from rightfit.market import open_catalog
from rightfit.search.ownership import own_host, read_machine


@pytest.mark.parametrize("between", ["x", "x ", " x ", " "])
@pytest.mark.parametrize(
    ("card", "name"), [("4090", "RTX-4090"), ("3090", "RTX-3090"), ("RTX-4090", "RTX-4090"), ("rtx 3060", "RTX-3060"), ("T4", "T4")]
)
@pytest.mark.parametrize(("place", "said"), [("", ""), ("@home", "home")])
def test_cards_are_written_as_people_write_them(card: str, name: str, between: str, place: str, said: str) -> None:
    one, two = read_machine(card + place), read_machine(f"2{between}{card}{place}")
    assert (one.gpu, one.count, one.place) == (name, 1, said)
    assert (two.gpu, two.count, two.place) == (name, 2, said)


def test_more_memory_than_the_maker_gave_is_meant_by_who_says_so() -> None:
    assert read_machine("4090 48GB").gpu == "RTX-4090-48GB"
    assert read_machine("2080 Ti 22GB").gpu == "RTX-2080-Ti-22GB"
    assert read_machine("2080 Ti").gpu == "RTX-2080-Ti"


def test_a_mac_serves_by_llama_cpp(run: Any) -> None:
    result = run("plan", "llama-3-8b", "--task", "serve", "--rate", "0.1/s", "--ttft", "20s", "--have", "M4 Max", "--top", "1")
    assert "Run on your own 1x-Apple-M4-Max-40:" in result.out
    assert "Setup: llama.cpp" in result.out


@pytest.mark.parametrize(
    ("have", "wish", "lacks"),
    [
        ("T4", "llama-3-70b --method lora --data 10Mtok", {"en": "GPU memory (needs", "zh": "显存（"}),
        ("M4 Max", "llama-3-8b --task serve --rate 0.1/s --ttft 500ms", {"en": "limit 500 ms", "zh": "上限为 500 毫秒"}),
    ],
)
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_refusal_names_what_the_machine_lacks(run: Any, have: str, wish: str, lacks: dict[str, str], lang: str) -> None:
    """Never that it is none of the clouds that were left out beside it."""
    result = run("plan", *wish.split(), "--have", have, "--top", "1", "--lang", lang)
    said = " ".join(result.out.split())
    assert lacks[lang] in said
    assert "(cloud)" not in said


@pytest.mark.parametrize(
    ("have", "card"),
    [
        ("A100", "A100-PCIe-40GB"),
        ("H100", "H100-PCIe-80GB"),
        ("V100", "V100-PCIe-16GB"),
        ("24GB", "24GB"),
        ("2x 24 GB@home", "24GB"),
        ("80G", "80GB"),
    ],
)
def test_of_several_cards_of_a_name_the_smallest_is_taken_and_said(have: str, card: str, run: Any) -> None:
    machine = read_machine(have)
    known = facts.accelerators()
    assert known[machine.gpu].memory_bytes == min(known[one].memory_bytes for one in facts.match_accelerators(card))
    said = " ".join(run("plan", "bert-base-uncased", "--data", "10ksamples", "--have", have).out.split())
    assert f"have = {machine.gpu}" in said
    assert "the smallest is assumed" in said


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize(
    ("wish", "lacks"),
    [
        ("Llama-3-70B --method full --data 5Mtok", ("GPU memory (needs", "显存（")),
        ("deepseek-ai/DeepSeek-V3 --task serve --rate 1/s", ("GPU memory", "显存")),
        ("Llama-3-8B --method lora --data 500Mtok --deadline 1h", ("deadline", "期限")),
    ],
)
def test_a_machine_that_does_not_do_it_says_what_it_lacks(wish: str, lacks: tuple[str, str], lang: str, run: Any) -> None:
    out = run("plan", *wish.split(), "--have", "2xRTX-3090@home", "--lang", lang).out
    said = next(part for part in out.split("\n\n") if part.startswith(("Your own machine", "自有机器")))
    assert lacks[lang == "zh"] in said
    assert "cloud" not in said.casefold()


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize(
    ("have", "wish"),
    [
        ("2xRTX-4090@home", "Qwen/Qwen3-32B --task serve --users 150"),
        ("RTX-4090", "Qwen/Qwen2.5-7B-Instruct --task serve --users 3000"),
        ("2xRTX-3090@home", "Qwen/Qwen2.5-14B-Instruct --task serve --rate 20/s"),
    ],
)
def test_too_few_machines_are_said_as_machines_with_a_change_that_does_work(have: str, wish: str, lang: str, run: Any) -> None:
    """Nobody has a quota of their own machines; each change that is named is tried here."""
    out = run("plan", *wish.split(), "--have", have, "--top", "1", "--lang", lang).out
    _, named, rest = re.split(r"^(Your own machine|自有机器)", out, maxsplit=1, flags=re.MULTILINE)
    said = " ".join(f"{named}{rest}".split("\n\n")[0].split())
    assert "quota" not in said
    assert "配额" not in said
    assert ("of these machines; you have 1" if lang == "en" else "台这样的机器，您有 1 台") in said
    changes = re.findall(r"--[a-z]+ [\da-z]+(?: --[a-z]+ [\da-z]+)*", said)
    assert changes or "--rate" in wish
    for change in changes:
        kept = re.sub(r"--users \d+", "", wish) if change.startswith("--users") else wish
        assert run("plan", *kept.split(), *change.split(), "--have", have, "--top", "1").out.count("Run on your own") == 1, change


def test_a_quantised_model_is_tuned_on_two_small_cards_as_people_do(run: Any) -> None:
    wish = ("meta-llama/Meta-Llama-3-70B", "--method", "qlora", "--data", "5Mtok")
    assert run("plan", *wish, "--have", "2xRTX-3090@home").out.startswith("Run on your own 2x-RTX-3090-home")


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize(("model", "have"), [("llama-3-70b", "2xRTX-3090@home"), ("Qwen2.5-14B", "RTX-4090"), ("Qwen2.5-32B", "RTX-3090")])
def test_where_nobody_named_a_method_the_one_that_the_machine_does_is_taken_and_said(run: Any, model: str, have: str, lang: str) -> None:
    wish = ("plan", model, "--task", "finetune", "--data", "5Mtok", "--have", have, "--top", "1", "--lang", lang)
    found = run(*wish).out
    assert "QLoRA" in found
    assert {"en": "LoRA does not fit the GPUs you named", "zh": "指定的显卡放不下 LoRA"}[lang] in found
    asked = run(*wish, "--method", "lora").out
    assert {"en": "cannot run this", "zh": "做不了"}[lang] in asked
    assert "--method qlora" in asked  # named as a way out, not taken


@pytest.mark.parametrize("have", ["8xA800", "8xA100", "8xH100", "8xV100"])
def test_a_whole_server_has_modules_and_the_memory_of_such_servers_and_says_so(have: str, run: Any) -> None:
    catalog = open_catalog()
    servers, machine = catalog.servers(), read_machine(have)
    assert "SXM" in machine.gpu
    same = (servers.num_accelerators == 8) & (np.array(servers.accelerator_name) == machine.gpu)
    vcpus, memory = own_host(catalog, machine)
    assert 256e9 <= memory <= np.nanmedian(servers.memory_bytes[same])
    assert vcpus >= 64
    said = " ".join(run("plan", "llama-3-8b", "--method", "lora", "--data", "5Mtok", "--have", have).out.split())
    assert "usually have SXM modules" in said
    assert f"{memory / 2**30:,.0f} GiB of host RAM assumed" in said


def test_what_servers_of_the_catalog_hold_is_held_by_ones_own(run: Any) -> None:
    wish = ("plan", "Qwen2.5-32B", "--method", "full", "--data", "200ksamples", "--seq-len", "1500", "--deadline", "3d", "--have", "8xA800")
    assert run(*wish).out.startswith("Run on your own 8x-A800-SXM-80GB")


@pytest.mark.parametrize("have", ["2xRTX-3090@home", "RTX-4090", "4xA100"])
def test_few_cards_have_the_host_of_a_home_or_office(have: str) -> None:
    machine = read_machine(have)
    assert own_host(open_catalog(), machine) == (8 * machine.count, 32e9 * machine.count)


@pytest.mark.parametrize("cards", ["2xRTX-3090", "2xRTX-4090", "4xRTX-3090"])
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_what_a_machine_needs_of_ram_that_nobody_stated_is_said_first(cards: str, lang: str, run: Any) -> None:
    done = run(
        "plan", "Llama-3-70B", "--data", "10Mtok", "--method", "qlora", "--have", f"{cards}@home", "--lang", lang, "--format", "json"
    )
    best = json.loads(done.out)["options"][0]
    said = run("plan", "Llama-3-70B", "--data", "10Mtok", "--method", "qlora", "--have", f"{cards}@home", "--lang", lang).out
    assumed = 32e9 * int(cards[0])
    told = "host RAM, up to" if lang == "en" else "主机内存，最多"
    assert (told in said.replace("\n  ", " ")) == (best["estimate"]["host_memory_bytes"]["high80"] > assumed / 2)


def test_a_trial_on_one_s_own_machine_is_no_launch(run: Any) -> None:
    """`rightfit launch` rents nothing there; the trial is the exported command under probe."""
    words = ("--method", "qlora", "--data", "20Mtok", "--have", "2xRTX-4090@home")
    own = run("plan", "Qwen/Qwen2.5-7B", *words, "--staged").out
    assert "rightfit export plan.json --to all" in own
    assert "rightfit probe --plan plan.json" in own
    assert "rightfit launch" not in own
    assert "rightfit launch" in run("plan", "Qwen/Qwen2.5-7B", *words[:4], "--staged").out


TOO_MUCH = [
    ("2xRTX-4090@office", "Qwen/Qwen2.5-32B --method lora --data 10ksamples", "qlora"),
    ("2xRTX-4090@office", "Qwen/Qwen2.5-7B --method full --data 10ksamples", "lora"),
    ("RTX-3090", "Qwen/Qwen2.5-14B --method lora --data 1Mtok", "qlora"),
]


@pytest.mark.parametrize(("have", "wish", "lighter"), TOO_MUCH)
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_refusal_of_a_named_method_says_which_lighter_one_runs(run: Any, have: str, wish: str, lighter: str, lang: str) -> None:
    asked = ("plan", *wish.split(), "--task", "finetune", "--have", have, "--top", "1")
    said = " ".join(run(*asked, "--lang", lang).out.split())
    assert f"--method {lighter}" in said
    run_lighter = run(*(lighter if word == wish.split()[2] else word for word in asked))
    assert "Run on your own" in run_lighter.out


@pytest.mark.parametrize("have", ["2xRTX-4090@office", "RTX-4090"])
@pytest.mark.parametrize(
    "wish", ["Qwen/Qwen2.5-32B --method lora --offload weights --data 10ksamples", "70B --method lora --offload all --data 10ksamples"]
)
def test_ram_of_a_refusal_is_that_of_its_cards(run: Any, have: str, wish: str) -> None:
    """What the machine "has" is what each card is taken to have, times the cards."""
    said = " ".join(run("plan", *wish.split(), "--task", "finetune", "--have", have, "--top", "1").out.split())
    found = re.search(r"has ([\d.]+) GiB, assuming at most ([\d.]+) GiB of host RAM per GPU", said)
    assert found
    assert float(found[1]) == pytest.approx(float(found[2]) * read_machine(have).count, rel=0.01)


@pytest.mark.parametrize(
    ("lang", "said", "how"), [("en", "to one user (assumed; ", "set --users"), ("zh", "1 个用户（假定；", "--users 50")]
)
def test_who_says_no_load_has_the_machine_alone(run: Any, lang: str, said: str, how: str) -> None:
    """Weights that just fit serve no request a second; where a load is given it counts."""
    wish = ("plan", "Qwen/Qwen2.5-72B-Instruct", "--task", "serve", "--have", "2x4090", "--top", "1", "--lang", lang)
    alone, many = run(*wish), run(*wish, "--users", "200")
    assert alone.code == 0
    assert said in " ".join(alone.out.split())
    assert how in alone.out
    assert "N+1" not in alone.out
    assert said not in " ".join(many.out.split())
