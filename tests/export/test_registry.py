"""Targets: found by being there, refused by name, bundled in order; settings and
folders that are safe."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from typical_plans import WISHES, plan_values

from rightfit.errors import FileInputError, InputError, UnknownNameError
from rightfit.exports import ExportSettings, all_targets, files_of, find_target, job_of, plan_document, write_files
from rightfit.exports.afterwards import then_problem
from rightfit.exports.registry import GROUPS
from rightfit.exports.stack import stack_name


def job(name: str = "qlora-8b", **settings: str):  # type: ignore[no-untyped-def]
    return job_of(plan_document(plan_values(name)), settings=ExportSettings(**settings))  # type: ignore[arg-type]


def test_every_module_holds_targets_and_no_name_is_given_twice() -> None:
    folder = Path(__import__("rightfit.exports.targets", fromlist=["x"]).__file__).parent
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    written = Counter(target.write.__module__.rpartition(".")[2] for target in all_targets().values())
    assert set(written) == modules, f"modules without a target: {', '.join(sorted(modules - set(written)))}"
    names = [name for path in folder.glob("*.py") for name in re.findall(r'Target\(\s*(?:name=)?"([^"]+)"', path.read_text("utf-8"))]
    assert sorted(names) == sorted(all_targets())


@pytest.mark.parametrize("name", list(all_targets()))
def test_every_target_says_what_it_is_and_what_checks_it(name: str) -> None:
    target = all_targets()[name]
    assert target.group in GROUPS
    assert target.summary, f"the target {name} has no summary"
    assert target.checked_by, f"the target {name} does not say in checked_by which program reads its files"


def test_unknown_targets_name_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean skypilot"):
        find_target("skypilto")


@pytest.mark.parametrize("name", sorted(WISHES))
def test_every_target_writes_or_says_why_not(name: str) -> None:
    for target in all_targets().values():
        problem = target.problem(job(name))
        if problem:
            assert "\n" not in str(problem)
            with pytest.raises(InputError, match="cannot express this plan"):
                target.files(job(name))
        else:
            files = target.files(job(name))
            assert files
            assert all(text.endswith("\n") and path == path.strip("/") for path, text in files.items())


@pytest.mark.parametrize("name", sorted(WISHES))
def test_a_refusal_names_an_option_or_targets_that_can_be_exported(name: str) -> None:
    """A target for another kind of work names what starts the plan: program and launcher."""
    offered, started = 0, 0
    for target in all_targets().values():
        try:
            files_of(job(name), target.name)
        except InputError as refused:
            line = str(refused)
        else:
            continue
        if rank := re.search(r"--option (\d+)$", line):
            other = job_of(plan_document(plan_values(name)), rank=int(rank[1]))
            assert target.files(other)
        elif others := re.search(r"can be exported to (.+)$", line):
            assert all(files_of(job(name), one) for one in others[1].split(", "))
        offered += bool(rank or others)
        if not target.other_work(job(name)):
            continue
        started += 1
        named = re.findall(r"--to ([\w-]+)", line)
        assert named[0] == stack_name(job(name)).replace("_", "-"), line
        assert find_target(named[1]).group in ("launch", "kubernetes"), line
        assert all(files_of(job(name), one) for one in named)
        if "--then serve" in line:
            assert files_of(job(name, then="serve"), named[0])["then-serve/serve.sh"]
        else:
            assert "serve" not in target.works_for or then_problem(job(name)), line
    assert offered
    assert started


def test_a_target_of_one_vendor_offers_the_first_option_with_its_cards() -> None:
    values = plan_values("qlora-8b")
    options = [{**option, "rank": at + 1} for at, option in enumerate(values["options"] * 2)][:2]
    amd = {**options[0], "accelerator": {**options[0]["accelerator"], "name": "MI300X"}, "facts": {**options[0]["facts"], "vendor": "AMD"}}
    plan = plan_document({**values, "options": [amd, options[1]]})
    for name in ("prometheus", "grafana"):
        with pytest.raises(InputError, match=r"option 2 can be \(.+\): --option 2"):
            find_target(name).files(job_of(plan))


def test_a_bundle_orders_its_targets() -> None:
    files = files_of(job(), "all")
    assert "skypilot/task.yaml" in files
    readme = files["README.md"]
    assert readme.index("cd skypilot") < readme.index("`kubernetes/`") < readme.index("`trl/`") < readme.index("`prometheus/`")
    assert readme.index("`trl/`") < readme.index("`accelerate/`")  # the one that the launchers start stands first
    assert "- vllm: it serves models, and this plan is a fine-tuning run" in readme
    assert "- `HF_TOKEN` in the environment" in readme
    assert readme.splitlines()[2].startswith(f"What the job makes is kept in `$RIGHTFIT_BUCKET/{job().name}-{job().plan_id}`")
    assert f"${job().option.cost.hourly_usd:,.2f} an hour" in readme
    assert f"sky jobs launch --yes --name {job().name} --secret HF_TOKEN" in readme
    folders = {path.split("/")[0] for path in files if "/" in path}
    said = {
        word.rstrip("/")
        for line in readme.splitlines()
        if line.startswith(("- `", "### `", "cd "))
        for word in line.replace("`", " ").split()[1:2]
    }
    assert folders <= said


def test_a_bundle_of_a_service_says_how_it_ends() -> None:
    readme = files_of(job("chat-8b-aws"), "all")["README.md"]
    assert "terraform apply -input=false -auto-approve" in readme
    assert "terraform destroy" in readme
    assert readme.splitlines()[2].startswith("This is a service: it runs, and costs, until you end it.")
    assert "A service runs until you end it." in readme
    assert "in all" not in readme


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"name": "Bad Name"}, "lower-case"),
        ({"name": "x" * 41}, "at most 40"),
        ({"ssh_cidr": "0.0.0.0/0"}, "open the server to everyone"),
        ({"ssh_cidr": "::/0"}, "open the server to everyone"),
        ({"ssh_cidr": "home"}, "not an address range"),
        ({"bucket": "s3://a;rm -rf /"}, "must be an address"),
        ({"stop_after_h": -1.0}, "between 0 and"),
    ],
)
def test_bad_settings_are_one_line(settings: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        ExportSettings(**settings)  # type: ignore[arg-type]


def test_files_are_written_once(tmp_path: Path) -> None:
    files = {"a/run.sh": "#!/bin/sh\n", "b.yaml": "x: 1\n"}
    first, _second = write_files(files, tmp_path / "out")
    assert first.stat().st_mode & 0o111
    with pytest.raises(FileInputError, match="not empty"):
        write_files(files, tmp_path / "out")
    (tmp_path / "out" / "mine.txt").write_text("keep")
    write_files({"b.yaml": "x: 2\n"}, tmp_path / "out", force=True)
    assert (tmp_path / "out" / "b.yaml").read_text() == "x: 2\n"
    assert (tmp_path / "out" / "mine.txt").read_text() == "keep"


def test_nothing_is_written_outside(tmp_path: Path) -> None:
    for name in ("../x", "/etc/x", "a/../../x"):
        with pytest.raises(FileInputError, match="outside"):
            write_files({name: "x"}, tmp_path / "out")
    (tmp_path / "file").write_text("")
    with pytest.raises(FileInputError, match="is a file"):
        write_files({"a": "b"}, tmp_path / "file")
