"""Options by the names of other programs are read as ours, and that is said."""

from __future__ import annotations

import pytest

from rightfit.cli import main
from rightfit.cli.declared import MODEL, as_ours, option_names
from rightfit.workload.options import OPTIONS, read_wish

_OF_COMMANDS = {"--on", "--lang", "--format", "--top", "--file", "--ask", "--code", "--have", "--out"}
FLAGS = {"--" + name.replace("_", "-") for name in OPTIONS if name != "model"} | {MODEL, *_OF_COMMANDS}
NUMBERS = {
    "{}samples": "10k",
    "{}tokens": "5M",
    "{}rows": "1M",
    "{}/s": "10",
    "{}h": "12",
    "{}d": "2",
    "{}/min": "10",
    "{}/day": "10",
    "{}/month": "500usd",
}


@pytest.mark.parametrize("name", sorted(option_names()))
def test_every_name_means_an_option_and_none_of_ours(name: str) -> None:
    row = option_names()[name]
    assert f"--{name}" not in FLAGS - _OF_COMMANDS
    meant = row["option"] if row["option"] == MODEL else f"--{row['option']}"
    assert meant in FLAGS
    value = NUMBERS.get(row["value"], "7")
    ours, said = as_ours([f"--{name}", value] if not row["value"] or "{}" in row["value"] else [f"--{name}"], FLAGS)
    assert said, "it is said how it was read"
    assert ours == [value] if meant == MODEL else ours[0] == meant
    option = row["option"].replace("-", "_")
    if option in OPTIONS and row["value"]:
        assert read_wish(option, ours[1])
    assert as_ours([f"--{name}"], {f"--{name}", *FLAGS}) == ([f"--{name}"], []), "what a command knows stays as it is"


@pytest.mark.parametrize(
    ("typed", "ours"),
    [
        ("--gpus 8", "--num-gpus 8"),
        ("--gpus 8xH100", "--gpu 8xH100"),
        ("--gpus=H100", "--gpu H100"),
        ("--batch_size=64", "--global-batch 64"),
        ("--model 7B --spot", "7B --purchase spot"),
        ("--data -- --spot", "--data -- --spot"),
    ],
)
def test_as_ours(typed: str, ours: str) -> None:
    assert as_ours(typed.split(), FLAGS)[0] == ours.split()


def test_a_plan_takes_them_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    ours = ["plan", "7B", "--method", "qlora", "--data", "5Mtok", "--seq-len", "1024", "--gpu", "4xL4", "--cloud", "aws"]
    assert main(ours) == 0
    meant = capsys.readouterr().out
    theirs = ["plan", "--model", "7B", "--qlora", "--tokens", "5M", "--context-length", "1024", "--gpus", "4xL4", "--provider", "aws"]
    assert main(theirs) == 0
    printed = capsys.readouterr()
    assert printed.out == meant
    assert "--context-length is read as --seq-len" in printed.err


def test_a_number_of_cards_goes_with_one_kind(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "7B", "--method", "qlora", "--data", "5Mtok", "--gpu", "2xA10,4xL4"]) == 2
    assert "a GPU count needs a single GPU type" in capsys.readouterr().err


def test_cards_name_a_server_for_an_estimate(capsys: pytest.CaptureFixture[str]) -> None:
    rest = ["7B", "--method", "qlora", "--data", "5Mtok"]
    assert main(["estimate", *rest, "--on", "4xA10G"]) == 0
    assert "4 x A10G" in capsys.readouterr().out


def test_a_region_is_no_other_cloud_s_only(capsys: pytest.CaptureFixture[str]) -> None:
    from rightfit.planner.plan import default_catalog

    assert {region.provider for region in default_catalog().find_regions("us-east")} >= {"aws", "ibm"}
    assert {region.region for region in default_catalog().find_regions("us-east-1")} == {"us-east-1"}


@pytest.mark.parametrize("kind", ["CNN", "GAN", "transformer", "卷积神经网络", "graph neural network"])
def test_a_kind_of_work_is_no_checkpoint(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", kind, "--task", "train", "--data", "5ksamples", "--lang", "en"]) == 2
    assert "is a model family, not a checkpoint" in capsys.readouterr().err


def test_one_question_has_one_answer_in_every_format(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "LSTM", "--data", "50ksamples"]) == 0
    capsys.readouterr()
    assert main(["plan", "LSTM", "--data", "50ksamples", "-f", "json"]) == 0


def test_cards_of_one_s_own_are_counted_with_their_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["own", "H100", "--count", "8"]) == 0
    counted = capsys.readouterr().out
    assert main(["own", "8xH100"]) == 0
    assert capsys.readouterr().out == counted


def test_a_shell_completes_models_clouds_and_cards() -> None:
    from rightfit.cli.declared import model_names
    from rightfit.cli.parameters import _NAMES

    assert "meta-llama/Llama-3.1-8B" in model_names("meta-llama/llama-3.1")
    assert "aws,azure" in _NAMES["cloud"]("aws,az")
    assert "H100-SXM-80GB" in _NAMES["gpu"]("H1")


def test_estimate_takes_the_server_first_as_why_does(capsys: pytest.CaptureFixture[str]) -> None:
    rest = ["7B", "--method", "qlora", "--data", "5Mtok"]
    assert main(["estimate", *rest, "--on", "aws/g5.xlarge"]) == 0
    named = capsys.readouterr().out
    assert main(["estimate", "aws/g5.xlarge", *rest]) == 0
    assert capsys.readouterr().out == named
    assert main(["estimate", *rest]) == 2
    assert "which server" in capsys.readouterr().err.casefold()
