"""Text Generation Inference: the launcher's command line, in its container."""

from __future__ import annotations

from rightfit.export.job import Job
from rightfit.export.model_words import hub_id
from rightfit.export.registry import Files, Target
from rightfit.export.script import script
from rightfit.export.serving_words import KEY, PORT, is_half, longest_tokens, revision_words, served_problem, wrong_engine
from rightfit.export.stack import ExportStack, card_words

VERSION = "3.3.6"
IMAGE = f"ghcr.io/huggingface/text-generation-inference:{VERSION}"
QUANTIZATIONS = {"fp8": "fp8", "awq": "awq", "gptq": "gptq", "int8": "bitsandbytes", "nf4": "bitsandbytes-nf4"}


def stack(job: Job) -> ExportStack:
    """The launcher's command."""
    return ExportStack(
        name="tgi",
        image=IMAGE,
        setup=(f"docker pull {IMAGE}",),
        command=("text-generation-launcher", *arguments(job)),
        files={},
        environment={},
        secrets=("HF_TOKEN",),
        port=PORT,
    )


def arguments(job: Job) -> tuple[str, ...]:
    """Words after `text-generation-launcher`."""
    layout = job.option.layout
    prompt = int(float(job.wish("input_tokens") or 0))
    words: list[str] = ["--model-id", hub_id(job), "--hostname", "0.0.0.0", "--port", str(PORT)]  # noqa: S104  see vllm.py
    words += revision_words(job)
    for flag, value in (
        ("--num-shard", layout.tensor),
        ("--max-concurrent-requests", layout.max_batch),
        ("--max-input-tokens", prompt),
        ("--max-total-tokens", longest_tokens(job)),
    ):
        if value:
            words += [flag, str(value)]
    method = QUANTIZATIONS.get(layout.weight_format.casefold())
    # The launcher takes a number format or a quantisation, not both.
    words += ["--quantize", method] if method else ["--dtype", "float16" if is_half(job) else "bfloat16"]
    return tuple(words)


def write(job: Job) -> Files:
    """The launcher, and the container that holds it."""
    found = stack(job)
    about = f"{job.model} with Text Generation Inference {VERSION}, plan {job.plan_id}"
    outer = (
        "docker",
        "run",
        "--rm",
        *card_words(job),
        "--shm-size",
        "1g",
        "--env",
        "HF_TOKEN",
        "--env",
        "API_KEY",
        "--publish",
        f"127.0.0.1:{PORT}:{PORT}",
    )
    return {"serve.sh": script(about, (*outer, found.image, *found.command[1:]), needs=[("API_KEY", KEY[1])])}


TARGET = Target(
    "tgi",
    "serving",
    "Text Generation Inference server",
    write,
    lambda job: wrong_engine(job, "TGI") or served_problem(job, "tgi"),
    checked_by="shellcheck; every option against those of its source at the pinned version",
)
