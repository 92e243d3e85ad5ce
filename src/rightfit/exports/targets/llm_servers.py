"""vLLM: the server's command line with the plan's layout, formats and limits."""

from __future__ import annotations

import json
import math
from importlib import resources
from typing import Any

from rightfit.exports.job import Job
from rightfit.exports.model_words import (
    KEY,
    PORT,
    context_tokens,
    engine_release,
    hub_id,
    image_of,
    is_half,
    is_stored,
    limited,
    longest_tokens,
    release_problem,
    release_setup,
    request_tokens,
    revision_words,
    served_problem,
    servers_of_replica,
    wrong_engine,
)
from rightfit.exports.quoting import given, script, to_yaml
from rightfit.exports.registry import Files, Target
from rightfit.exports.stack import ExportStack, card_words, launched
from rightfit.facts.engine_releases import images, newest_release
from rightfit.facts.engines import engine_class
from rightfit.messages import Message

VLLM_VERSION = newest_release("vllm").version
"""The newest release; a plan's own is chosen by its model and card."""
GROUP = "serve_group.sh"
VLLM_QUANTIZATIONS = {"fp8": "fp8", "int8": "bitsandbytes", "nf4": "bitsandbytes"}
VLLM_CACHE_TYPES = {"8-bit": "fp8", "fp8": "fp8"}


def vllm_stack(job: Job) -> ExportStack:
    """The server's command; on each server of a replica that spans several, that of its part,
    joined by Ray. The key of the interface is read from the environment, never written."""
    command: tuple[str, ...] = ("vllm", "serve", *vllm_arguments(job))
    files: Files = {}
    if servers_of_replica(job) > 1:
        script = resources.files("rightfit.exports").joinpath(f"scripts/{GROUP}").read_text(encoding="utf-8")
        files, own = {GROUP: script}, ("sh", GROUP, "{node_rank}", "{num_nodes}", "{head_address}")
        command = (*own, *command, "--distributed-executor-backend", "ray")
    release = engine_release(job, "vllm")
    return ExportStack(
        name="vllm",
        image=release.image,
        setup=release_setup(release),
        command=command,
        files=files,
        environment={},
        secrets=("VLLM_API_KEY", "HF_TOKEN"),
        port=PORT,
    )


def vllm_arguments(job: Job) -> tuple[str, ...]:
    """Words after `vllm serve`."""
    layout = job.option.layout
    # All addresses of the server: it stands behind a balancer, and the launch files open no
    # port to the world.
    words: list[str] = [hub_id(job), "--host", "0.0.0.0", "--port", str(PORT)]  # noqa: S104
    words += revision_words(job)
    for flag, value in (
        ("--tensor-parallel-size", layout.tensor if layout.tensor > 1 else 0),
        ("--pipeline-parallel-size", layout.pipeline if layout.pipeline > 1 else 0),
        ("--data-parallel-size", layout.replicas_per_node if layout.replicas_per_node > 1 else 0),
        ("--max-num-seqs", layout.max_batch),
        ("--max-model-len", longest_tokens(job)),
    ):
        if value:
            words += [flag, str(value)]
    words += ["--dtype", "float16" if is_half(job) else "bfloat16"]
    method = "" if is_stored(job) else VLLM_QUANTIZATIONS.get(layout.weight_format.casefold(), "")
    if method:
        words += ["--quantization", method]
    if layout.kv_format in VLLM_CACHE_TYPES:
        words += ["--kv-cache-dtype", VLLM_CACHE_TYPES[layout.kv_format]]
    words += beside(job)
    if layout.expert > 1:
        words.append("--enable-expert-parallel")
    return limited(job, "vllm", words)


SERVER_WORDS = ("--host", "--port", "--data-parallel-size", "--api-key")  # of the server, which an engine by itself has not


def engine_settings(job: Job) -> dict[str, Any]:
    """vLLM's options as the names of its engine: --max-num-seqs 64 is max_num_seqs: 64."""
    words, found = list(vllm_arguments(job))[1:], {}
    while words:
        flag = words.pop(0)
        value: Any = words.pop(0) if words and not words[0].startswith("--") else True
        if flag not in SERVER_WORDS:
            found[flag.removeprefix("--").replace("-", "_")] = (
                json.loads(value) if str(value)[:1] in "0123456789{" and flag != "--revision" else value
            )
    return found


CARRIES = ("speculative", "adapters", "kv_offload")
HEADS = {"mtp": "mtp", "nextn": "mtp", "ngram": "ngram", "n-gram": "ngram", "prompt-lookup": "ngram"}
BLOCK_TOKENS = 16  # of a block of the cache, vLLM's default
USUAL_DRAFTED, USUAL_RANK = {"mtp": 1, "ngram": 3}, 16


def beside(job: Job) -> list[str]:
    """Words for drafts, adapters and a cache in host memory."""
    words: list[str] = []
    method = HEADS.get(str(job.wish("speculative") or "").casefold(), "")
    if method:
        drafts = {"method": method, "num_speculative_tokens": int(job.wish("draft_tokens") or USUAL_DRAFTED[method])}
        words += ["--speculative-config", json.dumps(drafts | ({"prompt_lookup_max": 4} if method == "ngram" else {}))]
    if job.wish("adapters"):
        words += ["--enable-lora", "--max-loras", str(job.wish("adapters")), "--max-lora-rank", str(job.wish("adapter_rank") or USUAL_RANK)]
    if job.wish("kv_offload") == "host":
        kept = float(job.section("extras").get("kept_tokens") or 0.0) / max(job.option.layout.replicas, 1)
        blocks = {"num_cpu_blocks": max(1, math.ceil(kept / BLOCK_TOKENS))}
        offload = {"kv_connector": "OffloadingConnector", "kv_role": "kv_both", "kv_connector_extra_config": blocks}
        words += ["--kv-transfer-config", json.dumps(offload)]
    return words


def refuses(job: Job) -> Message | str:
    """Why vLLM cannot be started as planned."""
    problem = wrong_engine(job, "vLLM", carries=CARRIES)
    drafts = str(job.wish("speculative") or "")
    if not problem and drafts and drafts.casefold() not in HEADS:
        return Message("export.drafts", draft=drafts, version=engine_release(job, "vllm").version)
    if not problem and job.wish("kv_offload") == "ssd":
        return Message("export.caches_on_ssd", version=engine_release(job, "vllm").version)
    return problem or release_problem(job, "vllm")


def vllm_write(job: Job) -> Files:
    """One script; for a replica on several servers the one beside it that joins them, and the
    script is started on each."""
    found, servers = vllm_stack(job), servers_of_replica(job)
    about = f"{job.model} with vLLM {engine_release(job, 'vllm').version}, plan {job.plan_id}"
    needs = [("VLLM_API_KEY", KEY[1])]
    if servers == 1:
        return {"serve.sh": script(about, found.command, needs=needs)}
    needs += [
        ("NODE_RANK", f"0 on the first of the {servers} servers, then 1 and so on"),
        ("HEAD_ADDRESS", "the address of the first server"),
    ]
    words = launched(found.command, node_rank="@rank@", num_nodes=str(servers), head_address="@head@")
    text = script(about, words, needs=needs)
    return {"serve.sh": text.replace("@rank@", '"$NODE_RANK"').replace("@head@", '"$HEAD_ADDRESS"'), **found.files}


VLLM = Target(
    "vllm",
    "serving",
    "vLLM server",
    vllm_write,
    refuses,
    checked_by="shellcheck; every option against those of its source at the pinned version",
    stack=vllm_stack,
)


# ---- SGLang: the server's command line with the plan's layout, formats and limits.

SGLANG_VERSION = newest_release("sglang").version
"""The newest release; a plan's own is chosen by its model and card."""
SGLANG_QUANTIZATIONS = {"fp8": "fp8", "int8": "w8a8_int8"}
SGLANG_CACHE_TYPES = {"8-bit": "fp8_e4m3", "fp8": "fp8_e4m3"}


def sglang_stack(job: Job) -> ExportStack:
    """The server's command; the key is put in by the shell from the environment."""
    release = engine_release(job, "sglang")
    return ExportStack(
        name="sglang",
        image=release.image,
        setup=release_setup(release),
        command=("python3", "-m", "sglang.launch_server", *sglang_arguments(job)),
        files={},
        environment={},
        secrets=("HF_TOKEN",),
        port=PORT,
    )


def sglang_arguments(job: Job) -> tuple[str, ...]:
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
    method = "" if is_stored(job) else SGLANG_QUANTIZATIONS.get(layout.weight_format.casefold(), "")
    if method:
        words += ["--quantization", method]
    if layout.kv_format in SGLANG_CACHE_TYPES:
        words += ["--kv-cache-dtype", SGLANG_CACHE_TYPES[layout.kv_format]]
    return limited(job, "sglang", words)


def sglang_write(job: Job) -> Files:
    """One script; the key goes in as the last argument, expanded by the shell."""
    text = script(
        f"{job.model} with SGLang {engine_release(job, 'sglang').version}, plan {job.plan_id}", sglang_stack(job).command, needs=[KEY]
    )
    return {"serve.sh": text.rstrip("\n") + f' \\\n  --api-key "${KEY[0]}"\n'}


SGLANG = Target(
    "sglang",
    "serving",
    "SGLang server",
    sglang_write,
    lambda job: wrong_engine(job, "SGLang") or release_problem(job, "sglang"),
    checked_by="shellcheck; every option against those of its source at the pinned version",
    stack=sglang_stack,
)


# ---- Text Generation Inference: the launcher's command line, in its container.

TGI_VERSION = images("tgi")[0].version
TGI_QUANTIZATIONS = {"fp8": "fp8", "int8": "bitsandbytes", "nf4": "bitsandbytes-nf4"}


def tgi_stack(job: Job) -> ExportStack:
    """The launcher's command."""
    return ExportStack(
        name="tgi",
        image=image_of("tgi", job),
        setup=(f"docker pull {image_of('tgi', job)}",),
        command=("text-generation-launcher", *tgi_arguments(job)),
        files={},
        environment={},
        secrets=("HF_TOKEN",),
        port=PORT,
    )


def tgi_arguments(job: Job) -> tuple[str, ...]:
    """Words after `text-generation-launcher`."""
    layout = job.option.layout
    answer = request_tokens(job)[1]
    prompt = max(longest_tokens(job) - max(answer, 1), 0)  # a longer request than usual has a longer prompt
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
    method = "" if is_stored(job) else TGI_QUANTIZATIONS.get(layout.weight_format.casefold(), "")
    # The launcher takes a number format or a quantisation, not both.
    words += ["--quantize", method] if method else ["--dtype", "float16" if is_half(job) else "bfloat16"]
    return limited(job, "tgi", words)


def tgi_write(job: Job) -> Files:
    """The launcher, and the container that holds it."""
    found = tgi_stack(job)
    about = f"{job.model} with Text Generation Inference {TGI_VERSION}, plan {job.plan_id}"
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


TGI = Target(
    "tgi",
    "serving",
    "Text Generation Inference server",
    tgi_write,
    lambda job: wrong_engine(job, "TGI") or served_problem(job, "tgi"),
    checked_by="shellcheck; every option against those of its source at the pinned version",
    stack=tgi_stack,
)


# ---- TensorRT-LLM: trtllm-serve with the plan's layout, formats and limits.

TENSORRT_LLM_VERSION = images("tensorrt-llm")[0].version
TENSORRT_LLM_CACHE_TYPES = {"8-bit": "fp8", "fp8": "fp8"}


def tensorrt_llm_stack(job: Job) -> ExportStack:
    """The server's command and the options that it takes from a file."""
    return ExportStack(
        name="tensorrt-llm",
        image=image_of("tensorrt-llm", job),
        setup=(f"docker pull {image_of('tensorrt-llm', job)}",),
        command=("trtllm-serve", "serve", *tensorrt_llm_arguments(job)),
        files={"options.yaml": options(job)},
        environment={},
        secrets=("HF_TOKEN",),
        port=PORT,
    )


def tensorrt_llm_arguments(job: Job) -> tuple[str, ...]:
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
    return (*limited(job, "tensorrt-llm", words), "--extra_llm_api_options", "options.yaml")


def options(job: Job) -> str:
    """The file of further options: the cache's format, and the share of free memory that the plan
    counts for it."""
    cache = given(
        dtype=TENSORRT_LLM_CACHE_TYPES.get(job.option.layout.kv_format, "auto"),
        free_gpu_memory_fraction=engine_class("tensorrt-llm").memory_fraction,
    )
    return to_yaml({"kv_cache_config": cache, "enable_chunked_prefill": True})


def tensorrt_llm_write(job: Job) -> Files:
    """The script and its options."""
    about = f"{job.model} with TensorRT-LLM {TENSORRT_LLM_VERSION}, plan {job.plan_id}; it has no key of its own: keep it behind a gateway that asks for one"
    found = tensorrt_llm_stack(job)
    return {"serve.sh": script(about, found.command), **found.files}


TENSORRT_LLM = Target(
    "tensorrt-llm",
    "serving",
    "TensorRT-LLM server",
    tensorrt_llm_write,
    lambda job: wrong_engine(job, "TensorRT-LLM") or served_problem(job, "tensorrt_llm"),
    checked_by="shellcheck; options from its documentation",
    stack=tensorrt_llm_stack,
)


# ---- llama.cpp: the server's command line, on cards or on the processor.

LLAMA_CPP_VERSION = images("llama.cpp")[0].version
ALL_LAYERS = 999
LLAMA_CPP_CACHE_TYPES = {"8-bit": "q8_0"}


def llama_cpp_stack(job: Job) -> ExportStack:
    """The server's command; weights come from the hub in the plan's format."""
    return ExportStack(
        name="llama.cpp",
        image=image_of("llama.cpp", job),
        setup=(f"docker pull {image_of('llama.cpp', job)}",),
        command=("llama-server", *llama_cpp_arguments(job)),
        files={},
        environment={},
        secrets=("HF_TOKEN", "LLAMA_API_KEY"),
        port=PORT,
    )


def llama_cpp_arguments(job: Job) -> tuple[str, ...]:
    """Words after `llama-server`. One slot a sequence; the context is shared among the slots."""
    layout = job.option.layout
    slots = max(1, min(layout.max_batch, round(float(job.option.facts.get("batch") or 1)) * 2))
    words: list[str] = ["--model", "/models/model.gguf", "--host", "0.0.0.0", "--port", str(PORT)]  # noqa: S104  see vllm.py
    words += ["--parallel", str(slots), "--ctx-size", str(slots * max(context_tokens(job), 512))]
    if job.gpus_per_node:
        words += ["--n-gpu-layers", str(ALL_LAYERS), "--flash-attn", "on"]
    elif job.option.vcpus:
        words += ["--threads", str(max(1, int(job.option.vcpus // 2)))]
    if layout.kv_format in LLAMA_CPP_CACHE_TYPES:
        words += ["--cache-type-k", LLAMA_CPP_CACHE_TYPES[layout.kv_format], "--cache-type-v", LLAMA_CPP_CACHE_TYPES[layout.kv_format]]
    return tuple(words)


def llama_cpp_write(job: Job) -> Files:
    """One script. Whoever runs it puts the weights, in the plan's format, where
    it looks for them."""
    form = job.option.layout.weight_format or "the plan's format"
    about = f"{job.model} as {form} with llama.cpp {LLAMA_CPP_VERSION}, plan {job.plan_id}; put the GGUF file at /models/model.gguf"
    return {"serve.sh": script(about, llama_cpp_stack(job).command, needs=[("LLAMA_API_KEY", KEY[1])])}


LLAMA_CPP = Target(
    "llama-cpp",
    "serving",
    "llama.cpp server, on cards or the processor",
    llama_cpp_write,
    lambda job: wrong_engine(job, "llama.cpp") or served_problem(job, "llama_cpp"),
    checked_by="shellcheck; options from its documentation",
    stack=llama_cpp_stack,
)
