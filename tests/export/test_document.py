"""Plans from files: what is read, what is refused and how that is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typical_plans import WISHES, plan_values

from rightfit.errors import FileInputError, InputError
from rightfit.exports import job_of, plan_document, read_plan


@pytest.mark.parametrize("name", sorted(WISHES))
def test_every_typical_plan_reads_back(name: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan_values(name)), encoding="utf-8")
    job = job_of(read_plan(path))
    best = plan_values(name)["options"][0]
    assert (job.option.instance_type, job.num_nodes) == (best["instance_type"], best["nodes"])
    assert job.task == WISHES[name]["task"]
    assert job.num_gpus == best["nodes"] * best["accelerator"]["count_per_node"]


def edited(**changes: Any) -> dict[str, Any]:
    values = json.loads(json.dumps(plan_values("qlora-8b")))
    values["options"][0].update(changes)
    return dict(values)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"nodes": 0}, r"options\.0\.nodes: input should be greater than or equal to 1"),
        ({"nodes": "many"}, r"options\.0\.nodes: input should be a valid integer"),
        ({"layout": None}, r"options\.0\.layout"),
        ({"instance_type": "x" * 500}, r"options\.0\.instance_type: string should have at most 120 characters"),
    ],
)
def test_hand_edited_plans_are_refused_by_key(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(FileInputError, match=said):
        plan_document(edited(**changes))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"{", r"line 1 is not JSON"),
        (b"\xff\xfe", "not UTF-8"),
        (b"[1, 2]", "is not a plan"),
        (b'{"schema_version": 99, "options": [], "workload": {}}', "plan of version 99; this rightfit reads version 1"),
        (b"[" * 100_000, "is not JSON"),
    ],
)
def test_other_files_are_refused_in_one_line(text: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(text)
    with pytest.raises(FileInputError, match=said) as error:
        read_plan(path)
    assert "\n" not in str(error.value)


def test_a_missing_file_and_a_missing_rank_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileInputError, match="no such file"):
        read_plan(tmp_path / "none.json")
    with pytest.raises(InputError, match="has no option 99; it has 1 to"):
        job_of(plan_document(plan_values("qlora-8b")), rank=99)
    with pytest.raises(InputError, match="nothing met its requirements"):
        job_of(plan_document({"schema_version": 1, "workload": {}, "options": []}))


def test_plan_ids_follow_the_option() -> None:
    plan = plan_document(plan_values("qlora-8b"))
    first, again, second = job_of(plan), job_of(plan), job_of(plan, rank=2)
    assert first.plan_id == again.plan_id != second.plan_id
    assert len(first.plan_id) == 12
