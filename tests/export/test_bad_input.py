"""What comes from outside is doubted: plans of other versions, hand-edited and torn plans, hostile
names; every answer is one line or safe files."""

from __future__ import annotations

import copy
import functools
import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings, strategies
from typical_plans import plan_values

from rightfit.cli import main
from rightfit.cli.app import build
from rightfit.errors import FileInputError, InputError
from rightfit.explain.messages import label
from rightfit.explain.quantities import counted
from rightfit.exports import all_targets, files_of, job, job_of, plan_document
from rightfit.exports.bundle import has_recipe, start_of
from rightfit.workload.options import OPTIONS

EXAMPLES = settings(
    max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture], derandomize=True
)
NAMES = strategies.text(strategies.characters(exclude_categories=("Cs",)), min_size=1, max_size=60) | strategies.sampled_from(
    [
        "$(reboot)",
        "`id`",
        "a'b\"c",
        "x\ny: 1\n---\nkind: Secret",
        "${jndi:x}",
        "%{ if true }",
        "日本語",
        "--privileged",
        "EOF",
        "\u2028",
        "{{ .Env }}",
        "\\",
        "#!/bin/sh",
    ]
)
PLANS = ("qlora-8b", "full-70b", "chat-8b-aws", "bert-service-azure")


@pytest.mark.parametrize("command", ["export", "launch"])
def test_an_option_of_plan_says_how_a_plan_is_saved(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Every option of a workload that the command itself has not."""
    own = {parameter.name for parameter in build().commands[command].params}
    for option in OPTIONS:
        if option in own:
            continue
        flag = f"--{option.replace('_', '-')}"
        assert main([command, flag, "x"]) == 2
        told = capsys.readouterr().err
        assert told.count("\n") == 1
        assert flag in told
        assert "--format json > plan.json" in told
        assert f"rightfit {command} plan.json" in told


@pytest.mark.parametrize("name", PLANS)
def test_what_was_written_says_how_it_starts(name: str) -> None:
    """Of every launcher that can express a plan, the line that starts it; of files that another
    program reads, none."""
    planned = job_of(plan_document(plan_values(name)))
    told = {}
    for target in all_targets().values():
        if not target.problem(planned):
            told[target.name] = start_of(planned, target.name, target.files(planned), "plan.json")
    launchers = [target for target in told if all_targets()[target].group == "launch" and has_recipe(target)]
    assert launchers
    assert all(told[target] and "\n" not in told[target] for target in launchers)
    assert all(told[target].startswith("rightfit launch plan.json") for target in ("skypilot",) if target in told)
    assert start_of(planned, "all", {}, "plan.json") == ""


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_files_are_counted_as_one_writes_them(lang: Any) -> None:
    told = [label("status", "exported", lang, files=counted("file", number, lang), path="job") for number in (1, 2)]
    assert told == (
        ["1 file written to job", "2 files written to job"] if lang == "en" else ["已写入 1 个文件到 job", "已写入 2 个文件到 job"]
    )


def named(name: str, text: str) -> Any:
    """The job of a typical plan whose model has another name."""
    values = plan_values(name)
    return job_of(plan_document({**values, "workload": {**values["workload"], "model": text}}))


@pytest.mark.parametrize("plan", ["qlora-8b", "chat-8b-aws"])
@given(text=NAMES)
@EXAMPLES
def test_no_name_breaks_out_of_its_file(plan: str, text: str) -> None:
    """Every format is still whole: YAML and JSON read back with the same shape as with a plain
    name, shell has the same number of commands."""
    plain, odd = files_of(named(plan, "plain"), "all"), files_of(named(plan, text), "all")
    assert set(plain) == set(odd)
    for path, content in odd.items():
        if path.endswith((".yaml", ".yml")) and "cloud" not in path:
            assert shape(list(yaml.safe_load_all(content))) == shape(list(yaml.safe_load_all(plain[path]))), path
        elif path.endswith(".json"):
            assert shape(json.loads(content)) == shape(json.loads(plain[path])), path
        elif path.endswith(".sh"):
            lines = [line for line in content.replace("\\\n", "").split("\n") if line.startswith("exec ")]
            for line, known in zip(
                lines, [line for line in plain[path].replace("\\\n", "").split("\n") if line.startswith("exec ")], strict=True
            ):
                assert len(words_of(line)) == len(words_of(known)), path
        assert "\r" not in content.replace("\r\n", ""), path


def words_of(line: str) -> list[str]:
    return shlex.split(line, comments=False)


def shape(value: Any) -> Any:
    """A document without its texts: what kind stands where."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    return [shape(item) for item in value] if isinstance(value, list) else type(value).__name__


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a plan that a person may edit."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *[found for key, item in pairs for found in places(item, (*path, key))]]


@functools.cache
def places_of_a_plan() -> list[tuple[Any, ...]]:
    return places({"options": plan_values("qlora-8b")["options"][:1], "workload": plan_values("qlora-8b")["workload"]})[1:]


ODD = strategies.sampled_from([None, "", "x", -1, 0, 1e308, "1e9", [], {}, True, "\x00", "9" * 400, [[]], {"a": {}}])


@given(place=strategies.deferred(lambda: strategies.sampled_from(places_of_a_plan())), value=ODD)
@settings(EXAMPLES, max_examples=25)
def test_hand_edited_plans_are_exported_or_refused_in_one_line(place: tuple[Any, ...], value: Any) -> None:
    values = copy.deepcopy({**plan_values("qlora-8b"), "options": plan_values("qlora-8b")["options"][:1]})
    inner = values
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    said = ""
    try:
        files_of(job_of(plan_document(values)), "all")
    except InputError as error:  # any other kind of error fails the test
        said = str(error)
    assert "\n" not in said


@given(end=strategies.integers(0, 4000))
@EXAMPLES
def test_torn_files_are_refused(end: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("torn") / "plan.json"
    path.write_text(json.dumps(plan_values("qlora-8b"))[:end], encoding="utf-8")
    assert main(["export", str(path), "--to", "all"]) == 2


def test_plans_of_an_older_version_are_migrated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The way there is tested with a version that never was: 0 called the options `choices`."""
    values = plan_values("qlora-8b")
    older = {"schema_version": 0, "workload": values["workload"], "options": [], "choices": values["options"]}

    def newer(old: dict[str, Any]) -> dict[str, Any]:
        return {**old, "schema_version": 1, "options": old["choices"]}

    monkeypatch.setattr(job, "MIGRATIONS", {0: newer})
    assert job_of(plan_document(older)).plan_id == job_of(plan_document(values)).plan_id


@pytest.mark.parametrize("words", [["--to", "all"], ["--to", "skypilot"]])
def test_a_full_folder_is_left_alone(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "plan.json", tmp_path / "out"
    path.write_text(json.dumps(plan_values("qlora-8b")), encoding="utf-8")
    out.mkdir()
    (out / "README.md").write_text("mine")
    (out / "task.yaml").write_text("mine")
    assert main(["export", str(path), *words, "--out", str(out)]) == 2
    said = capsys.readouterr().err
    assert "is not empty" in said
    assert said.count("\n") == 1
    assert {found.read_text() for found in out.iterdir()} == {"mine"}
    assert main(["export", str(path), *words, "--out", str(out), "--force"]) == 0


def test_no_file_opens_anything_to_everyone() -> None:
    """0.0.0.0 is where programs listen behind a balancer; 0.0.0.0/0 would be who may come in."""
    for name in PLANS:
        for path, text in files_of(job_of(plan_document(plan_values(name))), "all").items():
            for line in text.splitlines():
                opens = "0.0.0.0/0" in line and not any(word in line for word in ("egress", "cidr_blocks", "destination", "outbound"))
                assert not opens or path.startswith(("terraform-", "cloudformation/")), f"{path}: {line}"


def test_nothing_secret_is_in_any_file(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_TOKEN", "VLLM_API_KEY", "RIGHTFIT_API_KEY", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, f"secret-{name}")
    for name in PLANS:
        assert not [
            path
            for path, text in files_of(job_of(plan_document(plan_values(name))), "all").items()
            if "secret-" in text.replace("secret-store", "")
        ]


def test_every_launching_file_carries_the_plan_s_id() -> None:
    """So that what runs can be traced to its plan."""
    for name in PLANS:
        job = job_of(plan_document(plan_values(name)))
        for target in all_targets().values():
            if target.group in ("launch", "kubernetes", "operations") and not target.problem(job):
                assert any(job.plan_id in text for text in target.files(job).values()), target.name


def test_a_full_disk_leaves_no_litter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rightfit.exports.launching import write_files

    def full(self: Path, *_: object, **__: object) -> None:
        with self.open("w") as stream:
            stream.write("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(FileInputError, match="no space left"):
        write_files({"a/task.yaml": "whole"}, tmp_path / "out")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
