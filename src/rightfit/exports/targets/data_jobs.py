"""Models of tables: a script that trains with XGBoost, LightGBM, CatBoost, scikit-learn or cuML, or
scores a table with such a model."""

from __future__ import annotations

from typing import Any

from rightfit.exports.job import GIB, Job
from rightfit.exports.model_words import (
    MODEL_FOLDER,
    ONNX_GPU,
    engine_release,
    hub_id,
    is_text_encoder,
    onnx_problem,
    request_tokens,
    spans_servers,
)
from rightfit.exports.quoting import shell, to_json
from rightfit.exports.registry import Files, Target
from rightfit.exports.stack import ExportStack, torch_build, torch_problem
from rightfit.exports.targets import llm_servers
from rightfit.exports.training_words import (
    ALLOCATOR,
    DRIVERS,
    data_packages,
    data_problem,
    launch_script,
    save_every_s,
    scripts,
    training_stack,
)
from rightfit.facts import table
from rightfit.facts.engine_releases import image_named
from rightfit.messages import Message

TABULAR_PACKAGES = {
    "xgboost": "xgboost==3.2.0",
    "lightgbm": "lightgbm==4.7.0",
    "catboost": "catboost==1.2.10",
    "sklearn": "scikit-learn==1.9.1",
    "cuml": "cuml-cu12==26.10.0",
}
READING = ("pyarrow==22.0.0", "numpy==2.2.6", "fsspec==2025.9.0")
BOOSTED = ("xgboost", "lightgbm", "catboost")
LABEL = "label"
MODEL_FILES = {"xgboost": "model.ubj", "lightgbm": "model.txt", "catboost": "model.cbm"}
NO_CARD = ("lightgbm", "sklearn")
"""Libraries whose released packages compute on processors alone."""


OPENMP = ("lightgbm",)
"""Libraries that take GNU's OpenMP (libgomp.so.1) of the system: the wheels of XGBoost and
scikit-learn bring it, that of CatBoost needs none (read with pip download, 2026-11-28)."""


def with_openmp(image: str, library: str) -> str:
    """An image in which the library finds what it links to."""
    return image_named("python-openmp") if library in OPENMP and image.startswith("python:") else image


def estimator(job: Job) -> dict[str, Any]:
    """Where the library has the plan's algorithm: `estimator` for classes or no labels, `regressor`
    for figures, and whether it learns from labels. Empty where it has none."""
    name, library = str(job.option.facts.get("name") or ""), job.option.layout.library
    row = next((row for row in table("classical_estimators") if row["name"] == name), None)
    if library in BOOSTED:
        return {"estimator": "", "regressor": "", "learns": True}
    if row is None or library not in TABULAR_PACKAGES or (library == "cuml" and not row["cuml"]):
        return {}
    found = {"estimator": row["sklearn"] or row["regressor"], "regressor": row["regressor"]}
    if library == "cuml":
        found = {key: path and f"cuml.{row['cuml']}.{path.rpartition('.')[2]}" for key, path in found.items()}
    return {**found, "learns": row["learns"] == "1"}


def tabular_settings(job: Job) -> dict[str, Any]:
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
        "model": MODEL_FOLDER + MODEL_FILES.get(layout.library, "model.pickle") if layout.job == "score" else "",
        "output": "/checkpoints/" + job.name,
        "save_every_s": save_every_s(job),
    }


def tabular_stack(job: Job) -> ExportStack:
    """One program on one server."""
    texts = scripts("train_tabular.py", "run_core.py")
    packages = (TABULAR_PACKAGES[job.option.layout.library], *READING, *data_packages(job))
    return ExportStack(
        name="tabular",
        image=with_openmp(torch_build(job).image, job.option.layout.library),
        setup=(shell(("pip", "install", *packages)),),
        command=("python", "run.py", "run.json"),
        files={
            "run.py": texts["train.py"],
            "run_core.py": texts["run_core.py"],
            "run.json": to_json(tabular_settings(job)),
            "requirements.txt": "\n".join(packages) + "\n",
        },
        environment={},
    )


def tabular_write(job: Job) -> Files:
    """Script, settings, packages and command."""
    found = tabular_stack(job)
    return {"run.sh": launch_script(job, found), **found.files}


def _tabular_refuses(job: Job) -> Message | str:
    layout = job.option.layout
    if layout.job not in ("train", "score"):
        return Message("export.no_tables")
    if job.num_nodes > 1 or layout.cards > 1:
        return Message("export.spreads_table")
    if not estimator(job):
        known = ", ".join(TABULAR_PACKAGES)
        return Message(
            "export.no_table_script",
            model=job.option.facts.get("name"),
            library=layout.library or Message("export.no_library"),
            known=known,
        )
    if layout.device == "gpu" and layout.library in NO_CARD:
        return Message("export.no_kernels", library=layout.library)
    return data_problem(job) or torch_problem(job)


TABULAR = Target(
    "tabular",
    "training",
    "script for tables: XGBoost, LightGBM, CatBoost, scikit-learn, cuML",
    tabular_write,
    _tabular_refuses,
    checked_by="runs to the end on the processor, killed and gone on (XGBoost, LightGBM, scikit-learn); cuML wants a card",
    stack=tabular_stack,
    works=("train", "batch"),
)


# ---- Data preparation: a script that tokenises, filters, removes doubles, resizes or converts with
# Ray Data, Polars or Spark, and goes on where it was stopped.

RAY, POLARS, SPARK = "ray[data]==2.51.1", "polars==1.35.2", "pyspark==4.0.1"
PREPARE_PACKAGES = {
    "tokenize": (RAY, "tokenizers==0.22.1", "numpy==2.2.6", "huggingface_hub==0.36.0"),
    "filter-text": (RAY,),
    "dedup-text": (RAY,),
    "resize-images": (RAY, "opencv-python-headless==4.12.0.88"),
    "encode-images": (RAY, "opencv-python-headless==4.12.0.88"),
    "convert": (RAY, POLARS),
    "dedup": (POLARS,),
    "shuffle": (POLARS,),
}
"""Operation -> packages of its script. The others need what no plan says: by what to
join, sort or group."""
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


def prepare_settings(job: Job) -> dict[str, Any]:
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


def prepare_stack(job: Job) -> ExportStack:
    """One program on one server."""
    texts, values = scripts("prepare.py", "run_core.py"), prepare_settings(job)
    spark = job.option.layout.library == "spark"
    packages = (*((SPARK,) if spark else PREPARE_PACKAGES[operation(job)]), "fsspec==2025.9.0", *data_packages(job))
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


def prepare_write(job: Job) -> Files:
    """Script, settings, packages and command."""
    found = prepare_stack(job)
    return {"run.sh": launch_script(job, found), **found.files}


def _prepare_refuses(job: Job) -> Message | str:
    layout, done = job.option.layout, operation(job)
    if done not in PREPARE_PACKAGES:
        return Message("export.needs_what_no_plan_says", operation=done, known=", ".join(PREPARE_PACKAGES))
    if layout.library == "spark" and done not in BY_SPARK:
        return Message("export.spark_script", known=", ".join(BY_SPARK), operation=done)
    if layout.library not in (*LIBRARIES, "spark"):
        return Message("export.spark_scripts", library=layout.library, known=", ".join(LIBRARIES))
    if job.num_nodes > 1:
        return Message("export.spreads_work")
    return data_problem(job) or torch_problem(job)


PREPARE = Target(
    "prepare",
    "training",
    "data preparation script: Ray Data, Polars or Spark",
    prepare_write,
    _prepare_refuses,
    checked_by="runs of every operation to the end on the processor, killed and gone on; Spark itself",
    stack=prepare_stack,
    works=("prepare",),
)


# ---- Batch inference to its end: a language model, an encoder of text or a Whisper over every row
# of the data, part by part, so that a killed run does only what is missing.

COLUMNS = {"generate": (("messages",), ("prompt",), ("text",)), "embed": (("text",),), "transcribe": (("audio",),)}
"""What a row of the data must hold, by what is done."""
BATCH_PACKAGES = {
    "generate": ("datasets==4.3.0",),
    "embed": ("sentence-transformers==5.1.2", "transformers==4.57.1", "datasets==4.3.0"),
    "transcribe": ("faster-whisper==1.2.1", "datasets==4.3.0"),
}
ONNX = ("tensorrt", "onnx runtime", "openvino")
BACKENDS = {"tensorrt": "sentence-transformers[onnx-gpu]==5.1.2", "onnx runtime": "sentence-transformers[onnx-gpu]==5.1.2"}
PROVIDERS = {"tensorrt": "TensorrtExecutionProvider", "onnx runtime": "CUDAExecutionProvider"}
WHISPERS = {"openai/whisper-large": "large-v1"}  # what faster-whisper calls "large" is the newest
OWNERS = ("openai/whisper-", "distil-whisper/")
ANSWER_TOKENS = 256
"""Longest answer where the plan names none."""
LEAST_ROWS, MOST_ROWS = 8, 100_000


def transcribes(job: Job) -> bool:
    """Whether the plan is for faster-whisper."""
    return job.option.layout.engine.casefold() == "faster-whisper"


def kind(job: Job) -> str:
    """What is done with a row: generate, embed or transcribe; "" where there is
    no program for it."""
    engine = job.option.layout.engine.casefold()
    if engine == "vllm":
        return "generate"
    if transcribes(job):
        return "transcribe"
    return "embed" if is_text_encoder(job) and engine in (*ONNX, "pytorch") else ""


def part_rows(job: Job) -> int:
    """Rows of a part: as many as a replica does between two checkpoints of a run."""
    rate = job.option.estimate.get("requests_per_s")
    layout = job.option.layout
    seconds = min(save_every_s(job), MOST_LOST_S)
    each = (rate.mid if rate else 1.0) / max(1, layout.replicas)
    if transcribes(job):  # recordings, however long: as if each took an hour, of windows that the plan counts by the second
        return max(at_once(job), int(each * WINDOW_S * seconds / LONG_RECORDING_S))
    rows = each * seconds
    return int(min(MOST_ROWS, max(LEAST_ROWS, layout.max_batch, rows)))


MOST_LOST_S = 600
"""Of a replica's work, where its server is lost."""
LONG_RECORDING_S, WINDOW_S = 3600, 30
AT_ONCE = 4
"""Recordings that one model hears at once."""


def at_once(job: Job) -> int:
    """Recordings that share the plan's batch."""
    return max(1, min(AT_ONCE, job.option.layout.max_batch)) if transcribes(job) else 1


def whisper_engine(job: Job) -> dict[str, Any]:
    """faster-whisper's words for the plan's device and format."""
    compute = {"fp16": "float16", "bf16": "bfloat16", "int8": "int8"}.get(job.option.layout.weight_format, "float32")
    return {"device": "cuda" if job.gpus_per_node else "cpu", "compute_type": compute}


def engine(job: Job, kind: str) -> dict[str, Any]:
    """The program's own words for the plan's layout and formats."""
    layout = job.option.layout
    if kind == "generate":
        return llm_servers.engine_settings(job)
    if kind == "transcribe":
        return whisper_engine(job)
    provider = PROVIDERS.get(layout.engine.casefold(), "") if job.gpus_per_node else ""
    return {"provider": provider or "CPUExecutionProvider"} if layout.engine.casefold() in ONNX[:2] else {}


def backend(job: Job) -> str:
    """Under which of its back ends sentence-transformers runs."""
    return {"openvino": "openvino", "pytorch": "torch"}.get(job.option.layout.engine.casefold(), "onnx")


def model_name(job: Job) -> str:
    """The model as the program knows it: faster-whisper has OpenAI's and the distilled ones under
    their short names."""
    name = hub_id(job)
    if not transcribes(job):
        return name
    owner = next((owner for owner in OWNERS if name.startswith(owner)), "")
    return WHISPERS.get(name) or name.removeprefix(owner)


def batch_settings(job: Job) -> dict[str, Any]:
    """What run.json holds."""
    layout, done = job.option.layout, kind(job)
    return {
        "plan": job.plan_id,
        "kind": done,
        "model": model_name(job),
        "data": job.settings.data_path,
        "data_columns": [list(names) for names in COLUMNS[done]],
        "output": "/checkpoints/" + job.name,
        "part_rows": part_rows(job),
        "replicas_per_node": layout.replicas_per_node,
        "cards_per_replica": job.gpus_per_node // max(1, layout.replicas_per_node),
        "batch": max(1, layout.max_batch),
        "at_once": at_once(job),
        "half": layout.precision == "fp16",
        "backend": backend(job) if done == "embed" else "",
        "output_tokens": request_tokens(job)[1] or ANSWER_TOKENS,
        "engine": engine(job, done),
    }


def packages(job: Job) -> tuple[str, ...]:
    """Pinned packages of what is done."""
    found = BATCH_PACKAGES[kind(job)]
    name = job.option.layout.engine.casefold()
    further = {"openvino": "sentence-transformers[openvino]==5.1.2"} | (
        BACKENDS if job.gpus_per_node else dict.fromkeys(BACKENDS, "sentence-transformers[onnx]==5.1.2")
    )
    if kind(job) != "embed" or name not in further:
        return found
    runtime = (
        (ONNX_GPU,) if "onnx-gpu" in further[name] else ()
    )  # the extra leaves it open, and the newest is for another CUDA than PyTorch's
    return (further[name], *runtime, *found[1:])


def batch_stack(job: Job) -> ExportStack:
    """One program on each server, which starts the plan's replicas."""
    texts = scripts("run_batch.py", "run_core.py")
    files = {"run.py": texts["train.py"], "run_core.py": texts["run_core.py"], "run.json": to_json(batch_settings(job))}
    command = ("python", "run.py", "run.json", "{node_rank}", "{num_nodes}")
    if kind(job) == "generate":
        return engine_stack(job, files, command)
    return training_stack(job, "batch", packages=packages(job), command=command, files=files)


def engine_stack(job: Job, files: Files, command: tuple[str, ...]) -> ExportStack:
    """vLLM as its release for the plan's model and card has it, which brings its own PyTorch;
    beside it what reads the data."""
    release = engine_release(job, "vllm")
    beside = (*BATCH_PACKAGES["generate"], *data_packages(job))
    wanted = (*release.package.split(), *beside)
    return ExportStack(
        name="batch",
        image=release.image,
        setup=(f"pip install {shell(wanted)}",),
        command=("python3", *command[1:]),
        files={**files, "requirements.txt": "\n".join(wanted) + "\n"},
        environment=dict(ALLOCATOR),
        secrets=("HF_TOKEN",),
        beside=(f"pip install {shell(beside)}",),
    )


def batch_write(job: Job) -> Files:
    """Script, settings, packages and command."""
    found = batch_stack(job)
    if kind(job) != "generate":
        return {"run.sh": launch_script(job, found), **found.files}
    cuda = engine_release(job, "vllm").cuda
    return {"run.sh": launch_script(job, found, ground=(f"CUDA {cuda}" if cuda else "ROCm", DRIVERS.get(cuda, ""))), **found.files}


def _batch_refuses(job: Job) -> Message | str:
    if not kind(job):
        return Message("export.batch_programs", engine=job.option.layout.engine or Message("export.a_model_of_tables"))
    return (
        spans_servers(job)
        or (llm_servers.refuses(job) if kind(job) == "generate" else torch_problem(job) or embeds_problem(job))
        or data_problem(job)
    )


def embeds_problem(job: Job) -> Message | str:
    """Why ONNX Runtime does not run the encoder on the plan's card ("" if it does, or another
    back end is meant)."""
    return onnx_problem(job) if job.option.layout.engine.casefold() in PROVIDERS else ""


BATCH = Target(
    "batch",
    "serving",
    "batch inference to its end: language models, text encoders, Whisper",
    batch_write,
    _batch_refuses,
    checked_by="runs to the end on the processor, killed and gone on: a text encoder and a Whisper; language models with a stand-in for vLLM",
    stack=batch_stack,
    works=("batch",),
)
