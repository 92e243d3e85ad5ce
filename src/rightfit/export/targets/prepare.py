"""Data preparation: a script that tokenises, filters, removes doubles, resizes or converts with Ray Data, Polars or Spark, and goes on where it was
stopped."""

from __future__ import annotations

from typing import Any

from rightfit.export.environment import torch_build, torch_problem
from rightfit.export.job import GIB, Job
from rightfit.export.model_words import hub_id
from rightfit.export.quoting import shell, to_json
from rightfit.export.registry import Files, Target
from rightfit.export.stack import ExportStack
from rightfit.export.training_words import data_packages, data_problem, launch_script, scripts
from rightfit.messages import Message

RAY, POLARS, SPARK = "ray[data]==2.51.1", "polars==1.35.2", "pyspark==4.0.1"
PACKAGES = {
    "tokenize": (RAY, "tokenizers==0.22.1", "numpy==2.2.6", "huggingface_hub==0.36.0"),
    "filter-text": (RAY,),
    "dedup-text": (RAY,),
    "resize-images": (RAY, "opencv-python-headless==4.12.0.88"),
    "encode-images": (RAY, "opencv-python-headless==4.12.0.88"),
    "convert": (RAY, POLARS),
    "dedup": (POLARS,),
    "shuffle": (POLARS,),
}
"""Operation -> packages of its script. The others need what no plan says: by what to join, sort or group."""
LIBRARIES = ("tokenizers", "python", "opencv", "polars")
BY_SPARK = ("convert", "dedup", "shuffle")
TOKENIZER = "openai-community/gpt2"
"""Taken where the plan names no model to prepare for."""
RULES = {
    "least_words": 50,
    "most_words": 100_000,
    "least_mean_word": 3,
    "most_mean_word": 10,
    "most_symbols": 0.1,
    "least_letters": 0.8,
}
"""Limits of Rae et al. 2021 (Gopher), table A1 and section A.1.1: to be changed in run.json."""
PIXELS, QUALITY = 256, 90
JAVA = "apt-get update -qq && apt-get install -y -qq openjdk-17-jre-headless"
SHARE_FOR_SPARK = 0.8  # of the server's memory


def operation(job: Job) -> str:
    """The plan's operation under its canonical name."""
    return str(job.option.facts.get("name") or "")


def settings(job: Job) -> dict[str, Any]:
    """What run.json holds."""
    layout, done = job.option.layout, operation(job)
    found: dict[str, Any] = {
        "plan": job.plan_id,
        "operation": done,
        "library": layout.library,
        "threads": max(1, layout.threads),
        "data": job.settings.data_path,
        "output": "/checkpoints/" + job.name,
    }
    if done == "tokenize":
        found |= {"tokenizer": hub_id(job) or TOKENIZER, "tokenizer_file": "tokenizer.json", "end_of_text": "<|endoftext|>"}
    if done == "filter-text":
        found["rules"] = RULES
    if done in ("resize-images", "encode-images"):
        found |= {"pixels": PIXELS, "quality": QUALITY}
    if layout.library == "spark":
        found["memory"] = f"{max(1, int((job.option.memory_bytes or 0) * SHARE_FOR_SPARK / GIB))}g"
    return found


def stack(job: Job) -> ExportStack:
    """One program on one server."""
    texts, values = scripts("prepare.py", "run_core.py"), settings(job)
    spark = job.option.layout.library == "spark"
    packages = (*((SPARK,) if spark else PACKAGES[operation(job)]), "fsspec==2025.9.0", *data_packages(job))
    command: tuple[str, ...] = ("python", "run.py", "run.json")
    if operation(job) == "tokenize":
        fetch = shell(("hf", "download", values["tokenizer"], "tokenizer.json", "--local-dir", "."))
        command = ("sh", "-c", f"{fetch} && exec python run.py run.json")
    if spark:
        command = ("sh", "-c", f"command -v java >/dev/null || {{ {JAVA}; }}; exec python run.py run.json")
    return ExportStack(
        name="prepare",
        image=torch_build(job).image,
        setup=(shell(("pip", "install", *packages)),),
        command=command,
        files={
            "run.py": texts["train.py"],
            "run_core.py": texts["run_core.py"],
            "run.json": to_json(values),
            "requirements.txt": "\n".join(packages) + "\n",
        },
        environment={},
        secrets=("HF_TOKEN",) if operation(job) == "tokenize" else (),
    )


def write(job: Job) -> Files:
    """Script, settings, packages and command."""
    found = stack(job)
    return {"run.sh": launch_script(job, found), **found.files}


def _refuses(job: Job) -> Message | str:
    layout, done = job.option.layout, operation(job)
    if job.task != "prepare":
        return Message("export.part_prepares", task=job.task)
    if done not in PACKAGES:
        return Message("export.part_needs_what_no_plan_says", operation=done, known=", ".join(PACKAGES))
    if layout.library == "spark" and done not in BY_SPARK:
        return Message("export.part_spark_script", known=", ".join(BY_SPARK), operation=done)
    if layout.library not in (*LIBRARIES, "spark"):
        return Message("export.part_spark_scripts", library=layout.library, known=", ".join(LIBRARIES))
    if job.num_nodes > 1:
        return Message("export.part_spreads_work")
    return data_problem(job) or torch_problem(job)


TARGET = Target(
    "prepare",
    "training",
    "data preparation script: Ray Data, Polars or Spark",
    write,
    _refuses,
    checked_by="runs of every operation to the end on the processor, killed and gone on; Spark itself",
)
