"""A wish is never shortened in silence: what no option holds stops the answer, unknown words are refused with the nearest."""

from __future__ import annotations

import pytest

from rightfit.cli import main
from rightfit.cli.parameters import FIRST_OPTIONS
from rightfit.workload.ask import understand


@pytest.mark.parametrize(
    ("sentence", "word"),
    [
        ("serve Qwen2.5-7B for 500 daily users", "daily"),
        ("serve Qwen2.5-7B at 2 requests/s for a year", "year"),
        ("fine-tune Llama-3-8B with LoRA on 50k samples, HIPAA", "HIPAA"),
        ("部署 Qwen2.5-7B，日活 500", "日活"),
        ("serve Qwen2.5-7B at 5/s with an SLA", "SLA"),
    ],
)
def test_a_word_that_would_change_the_answer_stops_it(sentence: str, word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert any(word.casefold() in piece.casefold() for piece in understand(sentence).weighty)
    assert main(["plan", "--ask", sentence]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert word.casefold() in printed.err.casefold()
    assert "rightfit plan" in printed.err


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
