"""vLLM: the server's command line with the plan's layout, formats and limits."""

from __future__ import annotations

import json
import math
from importlib import resources
from typing import Any

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
    servers_of_replica,
    wrong_engine,
)
from rightfit.export.stack import ExportStack, launched
from rightfit.facts.engine_releases import newest_release
from rightfit.messages import Message

VERSION = newest_release("vllm").version
"""The newest release; a plan's own is chosen by its model and card."""
GROUP = "serve_group.sh"
QUANTIZATIONS = {"fp8": "fp8", "awq": "awq", "gptq": "gptq", "int8": "bitsandbytes", "nf4": "bitsandbytes"}
CACHE_TYPES = {"8-bit": "fp8", "fp8": "fp8"}


def stack(job: Job) -> ExportStack:
    """The server's command; on each server of a replica that spans several, that of its part, joined by Ray. The key of the interface is read
    from the environment, never written."""
    command: tuple[str, ...] = ("vllm", "serve", *arguments(job))
    files: Files = {}
    if servers_of_replica(job) > 1:
        script = resources.files("rightfit.export").joinpath(f"scripts/{GROUP}").read_text(encoding="utf-8")
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


def arguments(job: Job) -> tuple[str, ...]:
    """Words after `vllm serve`."""
    layout = job.option.layout
    # All addresses of the server: it stands behind a balancer, and the launch files open no port to the world.
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
    method = QUANTIZATIONS.get(layout.weight_format.casefold())
    if method:
        words += ["--quantization", method]
    if layout.kv_format in CACHE_TYPES:
        words += ["--kv-cache-dtype", CACHE_TYPES[layout.kv_format]]
    words += beside(job)
    if layout.expert > 1:
        words.append("--enable-expert-parallel")
    return tuple(words)


SERVER_WORDS = ("--host", "--port", "--data-parallel-size", "--api-key")  # of the server, which an engine by itself has not


def engine_settings(job: Job) -> dict[str, Any]:
    """vLLM's options as the names of its engine: --max-num-seqs 64 is max_num_seqs: 64."""
    words, found = list(arguments(job))[1:], {}
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
        return Message("export.part_drafts", draft=drafts, version=engine_release(job, "vllm").version)
    if not problem and job.wish("kv_offload") == "ssd":
        return Message("export.part_caches_on_ssd", version=engine_release(job, "vllm").version)
    return problem or release_problem(job, "vllm")


def write(job: Job) -> Files:
    """One script; for a replica on several servers the one beside it that joins them, and the script is started on each."""
    found, servers = stack(job), servers_of_replica(job)
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


TARGET = Target(
    "vllm",
    "serving",
    "vLLM server",
    write,
    refuses,
    checked_by="shellcheck; every option against those of its source at the pinned version",
)
