"""TensorRT-LLM: trtllm-serve with the plan's layout, formats and limits."""

from __future__ import annotations

from rightfit.export.job import Job
from rightfit.export.model_words import hub_id
from rightfit.export.quoting import given, to_yaml
from rightfit.export.registry import Files, Target
from rightfit.export.script import script
from rightfit.export.serving_words import PORT, longest_tokens, served_problem, wrong_engine
from rightfit.export.stack import ExportStack

VERSION = "1.0.0"
CACHE_TYPES = {"8-bit": "fp8", "fp8": "fp8"}


def stack(job: Job) -> ExportStack:
    """The server's command and the options that it takes from a file."""
    return ExportStack(
        name="tensorrt-llm",
        image=f"nvcr.io/nvidia/tensorrt-llm/release:{VERSION}",
        setup=(f"docker pull nvcr.io/nvidia/tensorrt-llm/release:{VERSION}",),
        command=("trtllm-serve", "serve", *arguments(job)),
        files={"options.yaml": options(job)},
        environment={},
        secrets=("HF_TOKEN",),
        port=PORT,
    )


def arguments(job: Job) -> tuple[str, ...]:
    """Words after `trtllm-serve serve`."""
    layout = job.option.layout
    words: list[str] = [hub_id(job), "--host", "0.0.0.0", "--port", str(PORT), "--backend", "pytorch"]  # noqa: S104  see vllm.py
    for flag, value in (
        ("--tp_size", layout.tensor),
        ("--pp_size", layout.pipeline),
        ("--ep_size", layout.expert if layout.expert > 1 else 0),
        ("--max_batch_size", layout.max_batch),
        ("--max_seq_len", longest_tokens(job)),
    ):
        if value:
            words += [flag, str(value)]
    return (*words, "--extra_llm_api_options", "options.yaml")


def options(job: Job) -> str:
    """The file of further options: the cache's format and share of the memory."""
    cache = given(dtype=CACHE_TYPES.get(job.option.layout.kv_format, "auto"), free_gpu_memory_fraction=0.9)
    return to_yaml({"kv_cache_config": cache, "enable_chunked_prefill": True})


def write(job: Job) -> Files:
    """The script and its options."""
    about = (
        f"{job.model} with TensorRT-LLM {VERSION}, plan {job.plan_id}; it has no key of its own: keep it behind a gateway that asks for one"
    )
    found = stack(job)
    return {"serve.sh": script(about, found.command), **found.files}


TARGET = Target(
    "tensorrt-llm",
    "serving",
    "TensorRT-LLM server",
    write,
    lambda job: wrong_engine(job, "TensorRT-LLM") or served_problem(job, "tensorrt_llm"),
    checked_by="shellcheck; options from its documentation",
)
