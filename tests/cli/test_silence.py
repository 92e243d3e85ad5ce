"""A wish is never shortened in silence: what no option holds stops the answer, unknown words are
refused with the nearest."""

from __future__ import annotations

import re

import pytest

from rightfit.cli import main
from rightfit.cli.parameters import FIRST_OPTIONS
from rightfit.workload.ask import understand


@pytest.mark.parametrize(
    ("sentence", "word", "turns"),
    [
        ("serve Qwen2.5-7B for 500 daily users", "daily", True),
        ("serve Qwen2.5-7B at 2 requests/s for a year", "year", False),
        ("fine-tune Llama-3-8B with LoRA on 50k samples, HIPAA", "HIPAA", True),
        ("serve Qwen2.5-7B at 5/s with an SLA", "SLA", True),
        ("full fine-tune of Mistral 7B on 300M tokens, it must run in Zanzibar", "Zanzibar", True),
        ("微调 Qwen2.5-7B 1万条，一张3090，放在 Zanzibar 机房", "Zanzibar", True),
        ("serve Qwen2.5-7B, not too far from Paris", "not too", True),
        ("serve Qwen2.5-7B for 12 camels", "12 camels", True),
        ("serve Llama-3-8B, 200k zebras", "200k zebras", True),
        ("serve Qwen2.5-7B at 5/s for 12 camels", "12 camels", False),
        ("fine-tune Llama-3-8B with LoRA on 5k samples, 3 million zebras", "3 million zebras", False),
    ],
)
def test_a_word_that_no_option_holds_is_said_above_the_plan_and_stops_it_where_it_turns_it(
    sentence: str, word: str, turns: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    found = understand(sentence)
    assert any(word.casefold() in piece.casefold() for piece in found.weighty)
    assert main(["plan", "--ask", sentence]) == (2 if turns else 0)
    printed = capsys.readouterr()
    assert (
        ("error:" in printed.err or "错误：" in printed.err)
        and word.casefold() in re.split("error:|错误：", printed.err, maxsplit=1)[-1].casefold()
    ) == turns
    told, _, under = printed.out.partition("\n\n")
    assert all(piece in " ".join(told.split()) for piece in found.weighty)
    for piece in found.weighty:
        sentence = sentence.replace(piece, " ")
    assert main(["plan", "--ask", sentence]) == 0
    assert capsys.readouterr().out.strip().endswith(under.strip()), "the rest is planned under it"


def test_a_program_gets_no_plan_under_a_word_that_no_option_holds(capsys: pytest.CaptureFixture[str]) -> None:
    for sentence in ("serve Qwen2.5-7B at 2 requests/s for a year", "serve Qwen2.5-7B for 12 camels"):
        assert main(["plan", "--ask", sentence, "--format", "json"]) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert "rightfit plan" in printed.err or "--users" in printed.err


@pytest.mark.parametrize(
    ("sentence", "area"),
    [("fine-tune Llama-3-8B with LoRA on 50k samples under GDPR", "gdpr"), ("微调 Qwen2.5-7B，数据不出境", "cn-mainland")],
)
def test_laws_on_data_are_an_area(sentence: str, area: str) -> None:
    assert understand(sentence).wishes["residency"] == area


def test_words_without_weight_do_not_stop_an_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--ask", "kindly fine-tune Llama-3-8B with LoRA on 5k samples wisely"]) == 0
    assert "Not used: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "nearest"),
    [
        ("7B --method lora --lora-targets gate_prj", "gate_proj"),
        ("7B --method lora --framework tranformers", "transformers"),
        ("resnet50 --task train --data 1kimages --framework tensorflo", "tensorflow"),
        ("7B --method lora --storage gp33", "gp3"),
    ],
)
def test_unknown_words_are_refused_with_the_nearest(words: str, nearest: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", *words.split()]) == 2
    assert nearest in capsys.readouterr().err.split("did you mean")[-1]


def test_help_starts_with_the_options_that_matter(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--help"]) == 0
    text = capsys.readouterr().out
    shown = [line.split("--")[1].split()[0] for line in text.splitlines() if line.startswith(("│ --", "| --"))]
    assert shown[:8] == list(FIRST_OPTIONS)


def test_one_word_names_the_server(capsys: pytest.CaptureFixture[str]) -> None:
    rest = ["7B", "--method", "qlora", "--data", "5Mtok"]
    assert main(["why", "aws/g5.xlarge", *rest]) == 0
    positional = capsys.readouterr().out
    assert main(["why", *rest, "--on", "aws/g5.xlarge"]) == 0
    assert capsys.readouterr().out == positional
    assert main(["why", "aws/g5.xlarge", *rest, "--on", "aws/g5.xlarge"]) == 2


@pytest.mark.parametrize(
    ("sentence", "option", "value"),
    [
        ("GRPO train Qwen2.5-7B on 20k math prompts with 8 completions each", "data", "20k samples"),
        ("GRPO train Qwen2.5-7B on 20k math prompts with 8 completions each", "completions", "8"),
        ("GRPO train Qwen2.5-7B on 20k prompts, 16 rollouts per prompt", "completions", "16"),
        ("用 GRPO 训练 Qwen2.5-7B，7千条提示，每题采样8次", "completions", "8"),
        ("translate 10 million product descriptions with a 7B model", "data", "10 million samples"),
        ("OCR 2 million scanned pages within 3 days", "data", "2 million samples"),
        ("serve Qwen2.5-7B at 2 requests per second, under 5 seconds", "latency", "5 seconds"),
        ("部署 Qwen2.5-7B，每秒 5 个请求，3秒内返回", "latency", "3秒"),
        ("transcribe 50 live phone calls with whisper-small", "users", "50"),
    ],
)
def test_numbers_are_read_with_the_words_around_them(sentence: str, option: str, value: str) -> None:
    from rightfit.workload.options import read_wish

    found = understand(sentence)
    assert read_wish(option, found.wishes[option].replace(" ", "")) == read_wish(option, value.replace(" ", ""))
    assert not found.weighty


@pytest.mark.parametrize(
    ("name", "maker"), [("gpt-4o", "OpenAI"), ("GPT-4", "OpenAI"), ("claude", "Anthropic"), ("openai/gpt-4", "OpenAI")]
)
def test_a_model_that_only_its_maker_runs_is_said_to_be_one(name: str, maker: str, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["plan", name, "--task", "serve"], ["plan", "--ask", f"fine-tune {name.rpartition('/')[2]} on 1000 tickets"]):
        assert main(command) == 2
        assert f"{maker} offers it only as an API" in capsys.readouterr().err.replace("\n", " ")
    assert main(["plan", "--ask", f"用 1000 条工单微调 {name.rpartition('/')[2]}"]) == 2
    assert f"{maker} 只以 API 形式提供" in capsys.readouterr().err


def test_what_is_refused_of_a_chinese_sentence_is_refused_in_chinese(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--ask", "微调 FooBarModel，1万条"]) == 2
    assert "错误：" in (said := capsys.readouterr().err)
    assert "no known model" not in said


@pytest.mark.parametrize("name", ["yolo", "YOLOv8", "resnet", "ViT", "ViT-B", "bge", "bge-reranker", "MobileNet", "deberta"])
def test_names_of_several_sizes_take_the_usual_one_and_say_so(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", name, "--task", "serve", "--rate", "5/s"]) == 0
    assert name.casefold() in capsys.readouterr().out.casefold().split("#  server")[0]


def test_what_a_sentence_is_for_chooses_the_typical_model(capsys: pytest.CaptureFixture[str]) -> None:
    for sentence, model, task in (
        ("convert 1 million documents to embeddings under $10", "bge-m3", "batch"),
        ("OCR 2 million scanned pages within 3 days", "Qwen2.5-VL-7B", "batch"),
        ("speech recognition of 50 live phone calls", "whisper-large-v3-turbo", "serve"),
    ):
        assert main(["plan", "--ask", sentence]) == 0
        printed = capsys.readouterr().out
        assert model in printed.split("\n")[0]
        assert f"--task {task}" in " ".join(printed.split())  # lines break where the terminal ends
