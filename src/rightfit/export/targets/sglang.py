"""SGLang: the server's command line with the plan's layout, formats and limits."""

from __future__ import annotations

from rightfit.export.job import Job
from rightfit.export.model_words import hub_id
from rightfit.export.registry import Files, Target
from rightfit.export.script import script
from rightfit.export.serving_words import (
    KEY,
    PORT,
    engine_release,
    is_half,
    longest_tokens,
    release_problem,
    release_setup,
    revision_words,
    wrong_engine,
)
from rightfit.export.stack import ExportStack
from rightfit.facts.engine_releases import newest_release

VERSION = newest_release("sglang").version
"""The newest release; a plan's own is chosen by its model and card."""
QUANTIZATIONS = {"fp8": "fp8", "awq": "awq", "gptq": "gptq", "int8": "w8a8_int8"}
CACHE_TYPES = {"8-bit": "fp8_e4m3", "fp8": "fp8_e4m3"}


def stack(job: Job) -> ExportStack:
    """The server's command; the key is put in by the shell from the environment."""
    release = engine_release(job, "sglang")
    return ExportStack(
        name="sglang",
        image=release.image,
        setup=release_setup(release),
        command=("python3", "-m", "sglang.launch_server", *arguments(job)),
        files={},
        environment={},
        secrets=("HF_TOKEN",),
        port=PORT,
    )


def arguments(job: Job) -> tuple[str, ...]:
    """Words after `python3 -m sglang.launch_server`."""
    layout = job.option.layout
    words: list[str] = ["--model-path", hub_id(job), "--host", "0.0.0.0", "--port", str(PORT)]  # noqa: S104  see vllm.py
    words += revision_words(job)
    for flag, value in (
        ("--tp-size", layout.tensor if layout.tensor > 1 else 0),
        ("--pp-size", layout.pipeline if layout.pipeline > 1 else 0),
        ("--dp-size", layout.replicas_per_node if layout.replicas_per_node > 1 else 0),
        ("--ep-size", layout.expert if layout.expert > 1 else 0),
        ("--max-running-requests", layout.max_batch),
        ("--context-length", longest_tokens(job)),
    ):
        if value:
            words += [flag, str(value)]
    words += ["--dtype", "float16" if is_half(job) else "bfloat16"]
    method = QUANTIZATIONS.get(layout.weight_format.casefold())
    if method:
        words += ["--quantization", method]
    if layout.kv_format in CACHE_TYPES:
        words += ["--kv-cache-dtype", CACHE_TYPES[layout.kv_format]]
    return tuple(words)


def write(job: Job) -> Files:
    """One script; the key goes in as the last argument, expanded by the shell."""
    text = script(f"{job.model} with SGLang {engine_release(job, 'sglang').version}, plan {job.plan_id}", stack(job).command, needs=[KEY])
    return {"serve.sh": text.rstrip("\n") + f' \\\n  --api-key "${KEY[0]}"\n'}


TARGET = Target(
    "sglang",
    "serving",
    "SGLang server",
    write,
    lambda job: wrong_engine(job, "SGLang") or release_problem(job, "sglang"),
    checked_by="shellcheck; every option against those of its source at the pinned version",
)
