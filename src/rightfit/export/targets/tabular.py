"""Models of tables: a script that trains with XGBoost, LightGBM, CatBoost, scikit-learn or cuML, or scores a table with such a model."""

from __future__ import annotations

from typing import Any

from rightfit.export.environment import torch_build, torch_problem
from rightfit.export.job import Job
from rightfit.export.quoting import shell, to_json
from rightfit.export.registry import Files, Target
from rightfit.export.stack import ExportStack
from rightfit.export.training_words import data_packages, data_problem, launch_script, save_every_s, scripts
from rightfit.facts import table
from rightfit.messages import Message

PACKAGES = {
    "xgboost": "xgboost==3.2.0",
    "lightgbm": "lightgbm==4.7.0",
    "catboost": "catboost==1.2.10",
    "sklearn": "scikit-learn==1.9.1",
    "cuml": "cuml-cu12==26.10.0",
}
READING = ("pyarrow==22.0.0", "numpy==2.2.6", "fsspec==2025.9.0")
BOOSTED = ("xgboost", "lightgbm", "catboost")
LABEL = "label"
MODEL = "/checkpoints/model/"
MODEL_FILES = {"xgboost": "model.ubj", "lightgbm": "model.txt", "catboost": "model.cbm"}
NO_CARD = ("lightgbm", "sklearn")
"""Libraries whose released packages compute on processors alone."""


def estimator(job: Job) -> dict[str, Any]:
    """Where the library has the plan's algorithm: `estimator` for classes or no labels, `regressor` for figures, and whether it learns from
    labels. Empty where it has none."""
    name, library = str(job.option.facts.get("name") or ""), job.option.layout.library
    row = next((row for row in table("classical_estimators") if row["name"] == name), None)
    if library in BOOSTED:
        return {"estimator": "", "regressor": "", "learns": True}
    if row is None or library not in PACKAGES or (library == "cuml" and not row["cuml"]):
        return {}
    found = {"estimator": row["sklearn"] or row["regressor"], "regressor": row["regressor"]}
    if library == "cuml":
        found = {key: path and f"cuml.{row['cuml']}.{path.rpartition('.')[2]}" for key, path in found.items()}
    return {**found, "learns": row["learns"] == "1"}


def settings(job: Job) -> dict[str, Any]:
    """What run.json holds."""
    layout = job.option.layout
    return {
        "plan": job.plan_id,
        "job": layout.job,
        "library": layout.library,
        "algorithm": str(job.option.facts.get("name") or ""),
        **estimator(job),
        "device": layout.device,
        "threads": max(1, layout.threads),
        "precision": "float64" if layout.precision == "fp64" else "float32",
        "trees": job.wish("trees"),
        "depth": job.wish("depth"),
        "data": job.settings.data_path,
        "label": LABEL,
        "model": MODEL + MODEL_FILES.get(layout.library, "model.pickle") if layout.job == "score" else "",
        "output": "/checkpoints/" + job.name,
        "save_every_s": save_every_s(job),
    }


def stack(job: Job) -> ExportStack:
    """One program on one server."""
    texts = scripts("train_tabular.py", "run_core.py")
    packages = (PACKAGES[job.option.layout.library], *READING, *data_packages(job))
    return ExportStack(
        name="tabular",
        image=torch_build(job).image,
        setup=(shell(("pip", "install", *packages)),),
        command=("python", "run.py", "run.json"),
        files={
            "run.py": texts["train.py"],
            "run_core.py": texts["run_core.py"],
            "run.json": to_json(settings(job)),
            "requirements.txt": "\n".join(packages) + "\n",
        },
        environment={},
    )


def write(job: Job) -> Files:
    """Script, settings, packages and command."""
    found = stack(job)
    return {"run.sh": launch_script(job, found), **found.files}


def _refuses(job: Job) -> Message | str:
    layout = job.option.layout
    if layout.job not in ("train", "score"):
        return Message("export.part_no_tables")
    if job.num_nodes > 1 or layout.cards > 1:
        return Message("export.part_spreads_table")
    if not estimator(job):
        known = ", ".join(PACKAGES)
        return Message(
            "export.part_no_table_script",
            model=job.option.facts.get("name"),
            library=layout.library or Message("export.no_library"),
            known=known,
        )
    if layout.device == "gpu" and layout.library in NO_CARD:
        return Message("export.part_no_kernels", library=layout.library)
    return data_problem(job) or torch_problem(job)


TARGET = Target(
    "tabular",
    "training",
    "script for tables: XGBoost, LightGBM, CatBoost, scikit-learn, cuML",
    write,
    _refuses,
    checked_by="runs to the end on the processor, killed and gone on (XGBoost, LightGBM, scikit-learn); cuML wants a card",
)
