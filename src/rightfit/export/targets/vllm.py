"""vLLM: the server's command line with the plan's layout, formats and limits."""

from __future__ import annotations

from rightfit.export.job import SERVING_TASKS, Job
from rightfit.export.quoting import comment, shell_lines
from rightfit.export.registry import Files, Target
from rightfit.export.stack import Stack

PORT = 8000
VERSION = "0.11.0"
QUANTIZATIONS = {"fp8": "fp8", "awq": "awq", "gptq": "gptq", "int8": "bitsandbytes", "nf4": "bitsandbytes"}
CACHE_TYPES = {"8-bit": "fp8"}


def stack(job: Job) -> Stack:
    """The server's command. The key of the interface is read from the environment, never written."""
    return Stack(
        name="vllm",
        image=f"vllm/vllm-openai:v{VERSION}",
        setup=(f"pip install vllm=={VERSION}",),
        command=("vllm", "serve", *arguments(job)),
        files={},
        environment={},
        secrets=("VLLM_API_KEY", "HF_TOKEN"),
        port=PORT,
    )


def arguments(job: Job) -> tuple[str, ...]:
    """Words after `vllm serve`."""
    layout = job.option.layout
    context = int(job.wish("input_tokens") or 0) + int(job.wish("output_tokens") or 0)
    words: list[str] = [job.model, "--host", "0.0.0.0", "--port", str(PORT)]  # noqa: S104  behind a balancer; the launch files open no port to the world
    for flag, value in (
        ("--tensor-parallel-size", layout.tensor if layout.tensor > 1 else 0),
        ("--pipeline-parallel-size", layout.pipeline if layout.pipeline > 1 else 0),
        ("--data-parallel-size", layout.replicas_per_node if layout.replicas_per_node > 1 else 0),
        ("--max-num-seqs", layout.max_batch),
        ("--max-model-len", context),
    ):
        if value:
            words += [flag, str(value)]
    words += ["--dtype", "float16" if layout.precision == "fp16" else "bfloat16"]
    method = QUANTIZATIONS.get(layout.weight_format.casefold())
    if method:
        words += ["--quantization", method]
    if layout.kv_format in CACHE_TYPES:
        words += ["--kv-cache-dtype", CACHE_TYPES[layout.kv_format]]
    if layout.expert > 1:
        words.append("--enable-expert-parallel")
    return tuple(words)


def write(job: Job) -> Files:
    """One script."""
    text = (
        "#!/bin/sh\n"
        f"# {comment(job.model)} with vLLM {VERSION}, plan {job.plan_id}. The key that clients must send is read from VLLM_API_KEY.\n"
        "set -eu\n"
        ': "${VLLM_API_KEY:?set VLLM_API_KEY to the key that clients must send}"\n'
        f"exec {shell_lines(stack(job).command)}\n"
    )
    return {"serve.sh": text}


def _refuses(job: Job) -> str:
    if job.task not in SERVING_TASKS:
        return "it trains a model; vLLM serves one"
    if job.option.layout.engine.casefold() != "vllm":
        return f"the plan's engine is {job.option.layout.engine or 'none'}"
    return ""


TARGET = Target("vllm", "serving", "the vLLM server's command line", write, _refuses, checked_by="vLLM's own argument parser")
