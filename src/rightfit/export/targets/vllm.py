"""vLLM: the server's command line with the plan's layout, formats and limits."""

from __future__ import annotations

from rightfit.export.job import Job
from rightfit.export.registry import Files, Target
from rightfit.export.script import script
from rightfit.export.serving_words import KEY, PORT, context_tokens, is_half, wrong_engine
from rightfit.export.stack import Stack

VERSION = "0.11.0"
QUANTIZATIONS = {"fp8": "fp8", "awq": "awq", "gptq": "gptq", "int8": "bitsandbytes", "nf4": "bitsandbytes"}
CACHE_TYPES = {"8-bit": "fp8", "fp8": "fp8"}


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
    # All addresses of the server: it stands behind a balancer, and the launch files open no port to the world.
    words: list[str] = [job.model, "--host", "0.0.0.0", "--port", str(PORT)]  # noqa: S104
    for flag, value in (
        ("--tensor-parallel-size", layout.tensor if layout.tensor > 1 else 0),
        ("--pipeline-parallel-size", layout.pipeline if layout.pipeline > 1 else 0),
        ("--data-parallel-size", layout.replicas_per_node if layout.replicas_per_node > 1 else 0),
        ("--max-num-seqs", layout.max_batch),
        ("--max-model-len", context_tokens(job)),
    ):
        if value:
            words += [flag, str(value)]
    words += ["--dtype", "float16" if is_half(job) else "bfloat16"]
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
    about = f"{job.model} with vLLM {VERSION}, plan {job.plan_id}"
    return {"serve.sh": script(about, stack(job).command, needs=[("VLLM_API_KEY", KEY[1])])}


TARGET = Target(
    "vllm",
    "serving",
    "vLLM server",
    write,
    lambda job: wrong_engine(job, "vLLM"),
    checked_by="shellcheck; every option against those of its source at the pinned version",
)
