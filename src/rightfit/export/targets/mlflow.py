"""MLflow: a run that carries the plan as tags, parameters and predicted metrics, so that what happens stands beside what was foretold."""

from __future__ import annotations

from importlib import resources
from typing import Any

from rightfit.export.job import Job
from rightfit.export.quoting import to_json
from rightfit.export.registry import Files, Target

VERSION = "3.17.2"


def settings(job: Job) -> dict[str, Any]:
    """What plan.json holds: names of MLflow allow letters, digits, "_", "-", ".", " ", ":" and "/"."""
    option = job.option
    tags = {
        **job.labels,
        "rightfit.provider": option.provider,
        "rightfit.region": option.region,
        "rightfit.instance_type": option.instance_type,
        "rightfit.purchase": option.purchase,
        "rightfit.task": job.task,
        "rightfit.model": job.model,
    }
    layout = {f"layout.{name}": value for name, value in option.layout.model_dump().items() if value not in ("", 0)}
    wishes = {f"workload.{name}": value for name, value in job.workload.items() if isinstance(value, str | int | float) and value != ""}
    metrics = {
        f"predicted/{name}/{end}": getattr(figure, end) for name, figure in option.estimate.items() for end in ("mid", "low80", "high80")
    }
    metrics |= {f"predicted/{name}": float(value) for name, value in option.cost.model_dump().items() if value is not None}
    return {"experiment": job.name, "run": f"{job.name}-{job.plan_id}", "tags": tags, "params": {**layout, **wishes}, "metrics": metrics}


def write(job: Job) -> Files:
    """The program and what it logs."""
    program = resources.files("rightfit.export").joinpath("scripts/start_mlflow_run.py").read_text(encoding="utf-8")
    return {"plan.json": to_json(settings(job)), "start_mlflow_run.py": program, "requirements.txt": f"mlflow-skinny=={VERSION}\n"}


TARGET = Target(
    "mlflow",
    "operations",
    "MLflow run with the plan as tags and predicted metrics",
    write,
    checked_by="MLflow itself: the run is made in a store of files and read back",
    run='eval "$(python start_mlflow_run.py plan.json)"   # then start the job: it finds MLFLOW_RUN_ID',
)
