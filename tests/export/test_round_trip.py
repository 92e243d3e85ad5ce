"""What `export` writes is read back by `plan --file` as the request that the plan answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typical_plans import WISHES, plan_values

from rightfit.errors import InputError
from rightfit.exports import ExportSettings, Job, all_targets, job_of, plan_document
from rightfit.workload import Workload
from rightfit.workload.kept_files import Kept, read_kept

#: Files of these start, watch or stop what others describe: they carry no request of their own.
WITHOUT_REQUEST = frozenset(
    {"karpenter", "keda", "nginx", "conda", "dockerfile", "auto-stop", "budget-alarm", "checkpoint-sync", "prometheus", "grafana"}
)
PLANS = [name for name in WISHES if name.split("-")[0] in ("qlora", "lora", "full", "chat")]
#: Steps are whole: the last one is filled up.
LARGEST_ROUNDING = 0.05
CARRIED = ("model", "task", "method", "lora_rank")


def _job(name: str) -> Job:
    settings = ExportSettings(ssh_cidr="203.0.113.7/32", bucket="s3://bucket/runs")
    return job_of(plan_document(plan_values(name)), rank=1, settings=settings)


def _read(job: Job, target: Any, folder: Path) -> Kept | None:
    for path, text in target.files(job).items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return read_kept(folder)


@pytest.mark.parametrize("name", PLANS)
def test_every_target_of_trainers_and_engines_reads_back_as_the_request(name: str, tmp_path: Path) -> None:
    job, wish = _job(name), Workload(**WISHES[name])
    wrong: dict[str, Any] = {}
    read = 0
    for target in all_targets().values():
        if target.group not in ("training", "serving", "kubernetes") and target.name not in ("skypilot", "dstack", "slurm"):
            continue
        try:
            found = _read(job, target, tmp_path / target.name)
        except InputError:
            continue  # it cannot express this plan
        if target.name in WITHOUT_REQUEST:
            continue
        if found is None:
            wrong[target.name] = "not read"
            continue
        read += 1
        asked = {key: getattr(wish, key) for key in CARRIED if getattr(wish, key) is not None}
        other = {key: (found.wishes.get(key), value) for key, value in asked.items() if found.wishes.get(key) != value}
        told = str(found.wishes.get("data") or "")
        if wish.data_tokens and told.endswith("tok") and abs(float(told[:-3]) / wish.data_tokens - 1.0) > LARGEST_ROUNDING:
            other["data"] = (told, wish.data_tokens)
        if other:
            wrong[target.name] = other
    assert wrong == {}
    assert read >= 4
