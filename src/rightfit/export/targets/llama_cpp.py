"""llama.cpp: the server's command line, on cards or on the processor."""

from __future__ import annotations

from rightfit.export.job import Job
from rightfit.export.registry import Files, Target
from rightfit.export.script import script
from rightfit.export.serving_words import KEY, PORT, context_tokens, served_problem, wrong_engine
from rightfit.export.stack import ExportStack

VERSION = "b6900"
ALL_LAYERS = 999
CACHE_TYPES = {"8-bit": "q8_0"}


def stack(job: Job) -> ExportStack:
    """The server's command; weights come from the hub in the plan's format."""
    kind = "server-cuda" if job.gpus_per_node else "server"
    return ExportStack(
        name="llama.cpp",
        image=f"ghcr.io/ggml-org/llama.cpp:{kind}-{VERSION}",
        setup=(f"docker pull ghcr.io/ggml-org/llama.cpp:{kind}-{VERSION}",),
        command=("llama-server", *arguments(job)),
        files={},
        environment={},
        secrets=("HF_TOKEN", "LLAMA_API_KEY"),
        port=PORT,
    )


def arguments(job: Job) -> tuple[str, ...]:
    """Words after `llama-server`. One slot a sequence; the context is shared among the slots."""
    layout = job.option.layout
    slots = max(1, min(layout.max_batch, round(float(job.option.facts.get("batch") or 1)) * 2))
    words: list[str] = ["--model", "/models/model.gguf", "--host", "0.0.0.0", "--port", str(PORT)]  # noqa: S104  see vllm.py
    words += ["--parallel", str(slots), "--ctx-size", str(slots * max(context_tokens(job), 512))]
    if job.gpus_per_node:
        words += ["--n-gpu-layers", str(ALL_LAYERS), "--flash-attn", "on"]
    elif job.option.vcpus:
        words += ["--threads", str(max(1, int(job.option.vcpus // 2)))]
    if layout.kv_format in CACHE_TYPES:
        words += ["--cache-type-k", CACHE_TYPES[layout.kv_format], "--cache-type-v", CACHE_TYPES[layout.kv_format]]
    return tuple(words)


def write(job: Job) -> Files:
    """One script. Whoever runs it puts the weights, in the plan's format, where it looks for them."""
    form = job.option.layout.weight_format or "the plan's format"
    about = f"{job.model} as {form} with llama.cpp {VERSION}, plan {job.plan_id}; put the GGUF file at /models/model.gguf"
    return {"serve.sh": script(about, stack(job).command, needs=[("LLAMA_API_KEY", KEY[1])])}


TARGET = Target(
    "llama-cpp",
    "serving",
    "llama.cpp server, on cards or the processor",
    write,
    lambda job: wrong_engine(job, "llama.cpp") or served_problem(job, "llama_cpp"),
    checked_by="shellcheck; options from its documentation",
)
