"""What people type before they have read anything: other names of commands, a word behind the wrong
option, a missing argument. Each is read as ours and said, or answered by the line that does it."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import rightfit
from rightfit.cli import main
from rightfit.cli.app import COMMANDS, GROUPS, build
from rightfit.cli.declared import command_as_ours, command_names
from rightfit.errors import UnknownNameError
from rightfit.facts.tables import read_rows
from rightfit.planner.given import estimate_one
from rightfit.workload import Workload
from rightfit.workload.options import OPTIONS

SOURCE = Path(rightfit.__file__).parent.parent
JOB = ("plan", "7B", "--method", "lora", "--data", "5Mtok")
_AXOLOTL = """base_model: Qwen/Qwen2.5-7B
adapter: lora
sequence_len: 2048
micro_batch_size: 2
gradient_accumulation_steps: 4
num_epochs: 1
"""


def _parsed(command: str) -> None:
    """A command that our own command line takes as it is written."""
    name, *words = shlex.split(command)
    group = build().commands[name]
    if name in GROUPS:
        group, words = group.commands[words[0]], words[1:]  # type: ignore[attr-defined]
    group.make_context(name, words)


def test_every_name_means_commands_that_are_there() -> None:
    assert not command_names().keys() & {*COMMANDS, *GROUPS}
    commands = {command for row in command_names().values() for command in row["commands"].split("|")}
    for command in sorted(commands):
        if not command.startswith(("{} --help", "--version")):
            _parsed(command.format("7B" if command.startswith(("plan", "why", "check", "estimate", "fit ", "resize")) else ""))
    for name, row in command_names().items():
        ours, meant = command_as_ours([name, "7B"])
        assert bool(meant) == bool(row["is_same"])
        assert ours == [name, "7B"] or meant


_HINTED = [name for name, row in command_names().items() if not row["is_same"] and " " not in name]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_guess_is_answered_by_the_command_that_does_it(run: Any, lang: str) -> None:
    for name in _HINTED[(lang == "zh") :: 9]:
        result = run(name, "--lang", lang)
        assert result.code == 2
        assert len(result.err.strip().splitlines()) == 1
        assert f"rightfit {command_names()[name]['commands'].split('|')[0].split()[0]}" in result.err


def test_what_was_typed_behind_a_guess_is_kept(run: Any) -> None:
    assert "rightfit plan 7B --method lora" in run("cost", "7B", "--method", "lora").err
    assert "rightfit plan Qwen2.5-7B --task serve" in run("serve", "Qwen2.5-7B").err
    assert run("gpus", "H100").out == run("accelerators", "H100").out
    assert "gpus is read as rightfit accelerators" in run("gpus", "H100").err


@pytest.mark.parametrize("name", ["resize", "fleet", "launch", "fit", "own", "ingest", "check", "runs show"])
def test_a_missing_argument_has_an_example(run: Any, name: str) -> None:
    result = run(*name.split())
    assert result.code == 2
    _parsed(result.err.partition("for example rightfit ")[2].strip())


#: What people put behind an option, and the option and word that do it.
MISPLACED = {
    ("cloud", "国内"): "country CN",
    ("cloud", "H100"): "gpu h100",
    ("cloud", "us-east-1"): "region us-east-1",
    ("cloud", "europe"): "country europe",
    ("cloud", "spot"): "purchase spot",
    ("region", "china"): "country CN",
    ("region", "aws"): "cloud aws",
    ("country", "aws"): "cloud aws",
    ("gpu", "aws"): "cloud aws",
    ("gpu", "spot"): "purchase spot",
    ("sellers", "cn"): "country CN",
    ("task", "lora"): "method lora",
    ("method", "bf16"): "precision bf16",
    ("method", "int8"): "quantization int8",
    ("method", "serve"): "task serve",
    ("optimizer", "zero3"): "sharding zero3",
    ("recompute", "flash"): "attention flash",
    ("objective", "spot"): "purchase spot",
    ("precision", "int4"): "quantization int4",
}


@pytest.mark.parametrize(("option", "word"), MISPLACED, ids=" ".join)
def test_a_word_of_another_option_names_it(option: str, word: str) -> None:
    with pytest.raises(UnknownNameError) as problem:
        rightfit.plan("7B", **{"method": "lora", "data": "5Mtok", option: word})
    assert f"did you mean {MISPLACED[option, word]}" in str(problem.value)


def test_every_word_of_an_option_is_found_from_every_other() -> None:
    """No word of a vocabulary is refused by another option without the one that takes it."""
    from rightfit.workload.options import read_wish

    told = {(option.name, word) for option in OPTIONS.values() if option.vocabulary for word in option.vocabulary.words}
    missed = []
    for name, word in sorted(told):
        for other in ("task", "method", "objective"):
            try:
                read_wish(other, word)
            except UnknownNameError as error:
                missed += [] if word in str(error) and "did you mean" in str(error) else [(other, name, word)]
    assert missed == []


def test_the_code_of_a_country_is_a_region() -> None:
    for code in ("cn", "US"):
        best = rightfit.plan("7B", method="lora", data="5Mtok", region=code).best
        same = rightfit.plan("7B", method="lora", data="5Mtok", country=code).best
        assert best is not None
        assert same is not None
        assert (best.provider, best.instance_type) == (same.provider, same.instance_type)


# ---- An answer in a file, a config as the model, clouds beside each other.


def test_an_answer_goes_to_a_file_in_the_format_of_its_ending(run: Any, tmp_path: Path) -> None:
    plan = str(tmp_path / "plan.json")
    result = run(*JOB, "--out", plan)
    assert (result.code, result.out) == (0, "")
    assert "rightfit export" in result.err
    assert json.loads(Path(plan).read_text()) == json.loads(run(*JOB, "-f", "json").out)
    assert run("why", "gcp", plan).code == 0
    assert "unknown format 'foo'" in run(*JOB, "-o", str(tmp_path / "plan.foo")).err


@pytest.mark.parametrize(("ending", "begins"), [("html", "<!doctype html>"), ("md", "rent"), ("txt", "rent"), ("yaml", "schema_version")])
def test_a_file_of_each_ending_begins_as_its_format_does(run: Any, tmp_path: Path, ending: str, begins: str) -> None:
    assert run(*JOB, "-o", str(tmp_path / f"answer.{ending}")).code == 0
    assert (tmp_path / f"answer.{ending}").read_text().casefold().startswith(begins)


def test_a_config_stands_where_the_model_does(run: Any, tmp_path: Path) -> None:
    config = tmp_path / "axolotl.yml"
    config.write_text(_AXOLOTL, encoding="utf-8")
    for more in ((), ("--gpu", "8xH100")):
        named, given = (run("plan", *way, "--data", "5Mtok", *more, "-f", "json") for way in ((str(config),), ("--file", str(config))))
        assert named.code == 0
        assert json.loads(named.out)["workload"] == json.loads(given.out)["workload"]
    assert run("estimate", str(config), "--data", "5Mtok", "--on", "8xH100").code == 0


@pytest.mark.parametrize("cards", [1, 2, 8])
def test_a_batch_per_gpu_grows_with_the_gpus(tmp_path: Path, cards: int) -> None:
    config = tmp_path / "axolotl.yml"
    config.write_text(_AXOLOTL, encoding="utf-8")
    for given in ({"num_gpus": cards}, {"gpu": f"{cards}xH100"}):
        assert Workload.from_file(config, **given).global_batch == 8 * cards
    config.write_text(_AXOLOTL + "global_batch_size: 8\n", encoding="utf-8")
    assert Workload.from_file(config, num_gpus=cards, global_batch=16).global_batch == 16


def test_cards_that_no_job_fits_are_a_server_all_the_same() -> None:
    found = estimate_one(Workload(model="7B", method="full", data="5Mtok", global_batch=2, micro_batch=2), on="8xH100")
    assert found.best is None
    assert "/" in found.given
    assert found.blame


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_cloud_that_is_named_is_told(capsys: pytest.CaptureFixture[str], lang: str) -> None:
    assert main([*JOB, "--cloud", "aws,gcp,hetzner", "--lang", lang]) == 0
    printed = capsys.readouterr().out
    assert "gcp: gcp/" in printed or "gcp：gcp/" in printed
    assert "hetzner" in printed


# ---- The first commands of the READMEs and of --help.


def test_the_first_commands_are_the_same_everywhere_and_are_taken() -> None:
    rows = list(read_rows((SOURCE / "rightfit/cli/data/first_commands.csv").read_text(encoding="utf-8")))
    root = SOURCE.parent
    for name, lang in (("README.md", "en"), ("README.zh.md", "zh")):
        listed = re.findall(r"^\| \[(.*?)\]\((.*?)\) \| `rightfit (.*?)` \|$", (root / name).read_text(encoding="utf-8"), re.MULTILINE)
        assert [(want.casefold(), command) for want, _, command in listed] == [(row[lang].casefold(), row["command"]) for row in rows]
        assert all((root / page).is_file() for _, page, _ in listed)
    told = build(["--help"]).epilog or ""
    for row in rows:
        _parsed(row["command"])
        assert row["command"] in told


@pytest.mark.parametrize("words", [["--lang", "zh", *JOB], [*JOB, "--lang", "zh"]], ids=["before", "behind"])
def test_the_language_may_stand_before_the_command(run: Any, words: list[str]) -> None:
    assert run(*words).out.startswith("租用")
