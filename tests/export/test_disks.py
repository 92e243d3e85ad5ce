"""Disks that are written are large enough for what the plan keeps, in every family of work and
every target; and exporters read only what plans carry."""

from __future__ import annotations

import dataclasses
import json
import re
from collections import defaultdict
from importlib import resources
from typing import Any

import jsonschema
import pytest
from typical_plans import FURTHER, OTHER_KINDS, WISHES, plan_values

from rightfit import facts
from rightfit.errors import InputError
from rightfit.exports import Job, all_targets, find_target, job_of, plan_document

PLANS = (*WISHES, *FURTHER, *OTHER_KINDS)
MARKED_BYTES = 98_765e9
"""More than any plan keeps: where the size of its disk comes up in a target's files, a
disk's size is written."""
RENTERS = {
    "cloudformation",
    "dstack",
    "karpenter",
    "jobset",
    "kubeflow-trainjob",
    "kubernetes",
    "provider-cli",
    "ray",
    "runpod",
    "skypilot",
    *(f"terraform-{cloud}" for cloud in ("alicloud", "aws", "azure", "gcp", "tencent")),
}

CLUSTERS = {"jobset", "kubernetes", "kubeflow-trainjob", "ray"}
"""Their services take the disks of nodes that others make; runs get a volume."""


def job(name: str, rank: int = 1) -> Job:
    return job_of(plan_document(plan_values(name)), rank=rank)


def with_disk(found: Job, kept_bytes: float) -> Job:
    """The job of the same plan, had it so much to keep."""
    figure = next(iter(found.option.estimate.values())).model_copy(update={"mid": kept_bytes})
    option = found.option.model_copy(update={"estimate": {**found.option.estimate, "disk_bytes": figure}})
    return dataclasses.replace(found, option=option)


def sizes_written(found: Job, target: str) -> list[int]:
    """Sizes of disks in the files of a target: the numbers that stand where a marked one does when
    the plan keeps that much."""
    files = find_target(target).files(found)
    other = with_disk(found, MARKED_BYTES)
    marked, mark = find_target(target).files(other), str(other.disk_gib)
    assert set(files) == set(marked)
    sizes = []
    for path, text in marked.items():
        for line, plain in zip(text.splitlines(), files[path].splitlines(), strict=True):
            shift = 0
            for hit in re.finditer(rf"(?<!\d){mark}(?!\d)", line):
                number = re.match(r"\d+", plain[hit.start() + shift :])
                assert number, plain
                sizes.append(int(number.group()))
                shift += len(number.group()) - len(mark)
    return sizes


def weights_of(name: str) -> float:
    """Weight files of the plan's model [bytes] from its record alone; 0 for classical models, which
    are small, and for data preparation."""
    model = (WISHES | FURTHER | OTHER_KINDS)[name].get("model", "")
    if model in ("", "xgboost"):
        return 0.0
    record: Any = facts.model(model)
    count = float(getattr(record, "params_total", 0) or record.total_params)
    each = 1.0 if "deepseek" in model.casefold() else 2.0
    return count * each


def kept_beside(option: dict[str, Any]) -> float:
    """Data and two checkpoints of a training plan, by its data path; the rows of a
    classical one [bytes]."""
    path, known = option["data_path"], option["facts"]
    if path:
        return float(path["dataset_bytes"] + path["checkpoint"]["kept"] * path["checkpoint"]["bytes"])
    return float(known["data_bytes"]) if known.get("job") in ("train", "score") else 0.0


def copied_to(name: str, option: dict[str, Any]) -> float:
    """Data of a preparation or a batch [bytes], which the exported job copies to its disk from the
    bucket where the plan has them, and of a preparation what it writes."""
    wish = (WISHES | FURTHER | OTHER_KINDS)[name]
    if wish.get("task") == "prepare":
        return 2.0 * float(option["facts"]["data_bytes"]) if wish.get("storage") != "local" else float(option["facts"]["data_bytes"])
    data = str(wish.get("data", "")) if wish.get("task") == "batch" else ""
    return float(data.removesuffix("hours")) * 57.6e6 if data.endswith("hours") else 0.0  # compressed without loss, by half


@pytest.mark.parametrize("name", PLANS)
def test_every_option_says_what_its_servers_keep(name: str) -> None:
    schema = json.loads(resources.files("rightfit").joinpath("schema/plan.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(plan_values(name), schema)
    for option in plan_values(name)["options"]:
        assert option["estimate"]["disk_bytes"]["mid"] >= weights_of(name) + kept_beside(option)


@pytest.mark.parametrize("name", PLANS)
def test_disks_hold_weights_images_data_and_checkpoints(name: str) -> None:
    for values in plan_values(name)["options"][:3]:
        found = job(name, rank=values["rank"])
        needed = 1.2 * weights_of(name) + kept_beside(values) + copied_to(name, values) + 60e9
        for target in (target for target in RENTERS if not find_target(target).problem(found)):
            sizes = sizes_written(found, target)
            if target in CLUSTERS and found.is_service:
                continue
            assert sizes, f"{target} writes no disk for {name}"
            assert min(sizes) * 1e9 >= needed, (target, sizes, needed)


def test_no_other_target_writes_a_disk() -> None:
    names = ("chat-8b-aws", "full-8b-gcp", "lora-8b-aws", "chat-8b", "batch-8b-tencent")
    for target in set(all_targets()) - RENTERS:
        taken = [name for name in names if not find_target(target).problem(job(name))]
        assert not any(sizes_written(job(name), target) for name in taken), f"{target} belongs to RENTERS"


def test_a_job_of_500_gb_gets_a_disk_for_them_and_for_what_it_makes() -> None:
    assert sizes_written(job("tokenize-aws"), "skypilot") == [1260]
    assert job("parquet-aws").disk_gib == 870  # the plan counts both: they lie on its servers
    assert sizes_written(job("whisper-batch-aws"), "skypilot") == [1450]
    assert job("bge-batch").disk_gib == 100
    whole = job_of(plan_document({**plan_values("bge-batch"), "workload": {**plan_values("bge-batch")["workload"], "data_bytes": 500e9}}))
    assert whole.disk_gib == 670


def test_weights_of_141_gb_get_their_disk() -> None:
    assert sizes_written(job("chat-70b-fp8"), "skypilot") == [230]
    assert sizes_written(job("chat-deepseek-aws"), "karpenter") == [870]


def test_a_draft_and_adapters_are_kept_too() -> None:
    plain, more = (plan_values(name)["options"][0]["estimate"]["disk_bytes"]["mid"] for name in ("chat-8b", "chat-8b-drafts"))
    draft = 2.0 * facts.model("llama-3.2-1b").params_total
    adapters = 8 * 2.0 * 41_943_040  # of all linear layers at rank 16, as PEFT counts them
    assert more - plain == pytest.approx(draft + adapters, rel=0.01)


def test_each_server_of_a_preparation_keeps_its_share_on_its_own_disks_or_others() -> None:
    option = plan_values("parquet-aws")["options"][0]
    share = option["facts"]["data_bytes"] / option["nodes"]
    assert option["estimate"]["disk_bytes"]["mid"] > share  # what comes in and what is made of it


def test_a_plan_that_does_not_say_is_refused() -> None:
    values = plan_values("chat-8b-aws")
    option = values["options"][0]
    figures = {name: figure for name, figure in option["estimate"].items() if name != "disk_bytes"}
    old = job_of(plan_document({**values, "options": [{**option, "estimate": figures}]}))
    with pytest.raises(InputError, match="create the plan again"):
        find_target("terraform-aws").files(old)


class Noted(dict[str, Any]):
    """A part of a plan that notes which keys are read, its own parts' too."""

    def __init__(self, place: str, values: Any, read: dict[str, set[str]]) -> None:
        super().__init__(values)
        self.place, self.read = place, read

    def get(self, key: str, default: Any = None) -> Any:
        return self[key] if key in self else self._note(key, default)

    def __getitem__(self, key: str) -> Any:
        return self._note(key, super().__getitem__(key))

    def _note(self, key: str, value: Any) -> Any:
        self.read[self.place].add(key)
        return Noted(f"{self.place}.{key}", value, self.read) if type(value) is dict else value


def keys_of(place: str, value: Any, found: dict[str, set[str]]) -> None:
    """Every key of a part and of the parts in it."""
    if isinstance(value, dict):
        found[place] |= set(value)
        for key, item in value.items():
            keys_of(f"{place}.{key}", item, found)


def test_exporters_read_nothing_that_no_plan_carries() -> None:
    """A fact that no plan carries is a constant in disguise: its default stands in every file."""
    read: dict[str, set[str]] = defaultdict(set)
    carried: dict[str, set[str]] = defaultdict(set)
    for name in PLANS:
        found = job(name)
        parts = {part: dict(getattr(found.option, part)) for part in ("facts", "estimate", "data_path")}
        for place, value in {**parts, "sections": dict(found.sections)}.items():
            keys_of(place, value, carried)
        option = found.option.model_copy(update={part: Noted(part, values, read) for part, values in parts.items()})
        noted = dataclasses.replace(found, option=option, sections=Noted("sections", found.sections, read))
        for target in all_targets().values():
            if not target.problem(noted):
                target.files(noted)
    assert {"disk_bytes", "total_time_s"} <= read["estimate"]
    assert {place: keys - carried[place] for place, keys in read.items() if keys - carried[place]} == {}
