"""What follows a run: the service of the model that it trained, on the same kind of server."""

from __future__ import annotations

import math

from rightfit.errors import InputError
from rightfit.exports.job import SERVING_TASKS, Job
from rightfit.exports.learning import objective, trained
from rightfit.exports.locks import locked_files
from rightfit.exports.model_words import PORT, architecture, engine_release, hub_id, limited, model_kind, release_problem
from rightfit.exports.quoting import comment, shell, shell_lines, to_json
from rightfit.exports.registry import Files, work_words
from rightfit.exports.stack import ADAPTERS, stack_name, stack_problem
from rightfit.exports.targets.model_servers import TABLE_COMMAND, table_files
from rightfit.exports.training_words import scripts
from rightfit.messages import Message

FOLDER = "then-serve"
OF_TEXT = ("trl", "deepspeed", "torchrun")
"""Stacks whose result is a language model in the form of Transformers."""
USABLE = 0.85
"""Of a card's memory, for weights and for at least some cache."""
BYTES_PER_WEIGHT = 2.0
MERGER = "peft==0.21.2"
"""What puts an adapter into its base, beside the engine."""


def then_problem(job: Job) -> Message | str:
    """Why what the run makes cannot be served ("" if it can)."""
    if job.task in SERVING_TASKS or job.task == "prepare":
        return Message("export.then_of_a_run", plan=work_words(job))
    if problem := stack_problem(job):
        return problem
    name = stack_name(job)
    if name == "tabular":
        return ""
    if name not in OF_TEXT or not job.seq_len or model_kind(job) in ("encoder-decoder", "reranker"):
        return Message("export.no_then_vision", target=name.replace("_", "-"))
    if objective(job) == "reward":
        return Message("export.then_reward")
    return release_problem(job, "vllm")


def then_files(job: Job) -> Files:
    """The folder that serves the result; InputError where it cannot be served."""
    if problem := then_problem(job):
        raise InputError(problem, field="then")
    made = _table(job) if stack_name(job) == "tabular" else _text(job)
    return {f"{FOLDER}/{path}": text for path, text in made.items()}


HEAD = """#!/bin/sh
# %(what)s, plan %(plan)s. Usage: sh serve.sh [FOLDER]
# FOLDER is where the run left its result: on the server of the run its own, elsewhere the copy in result/.
# Before: pip install -r requirements.txt
set -eu
: "${%(key)s:?a key of your own that clients must send: openssl rand -hex 24}"
result=$(cd "${1:-/checkpoints/%(name)s}" && pwd)
cd "$(dirname "$0")"
"""


def _head(job: Job, key: str) -> str:
    return HEAD % {"what": comment(f"what was trained from {job.model}"), "plan": job.plan_id, "key": key, "name": job.name}


def _table(job: Job) -> Files:
    """The tabular service with the file that the run wrote."""
    found = table_files(job, job.option.layout.library)
    line = f'cp "$result"/model/model.* .\nexec {shell_lines(TABLE_COMMAND)}\n'
    return locked_files({"serve.sh": _head(job, "RIGHTFIT_API_KEY") + line, **found})


def cards(job: Job) -> int:
    """Cards of one server that share the weights: a power of two of them."""
    known = architecture(job)
    weights = known.params_total * BYTES_PER_WEIGHT if known else 0.0
    needed = max(1, math.ceil(weights / (USABLE * max(1.0, job.option.accelerator.memory_bytes))))
    return min(1 << math.ceil(math.log2(needed)), max(1, job.gpus_per_node))


def _text(job: Job) -> Files:
    """vLLM with the trained model; an adapter is put into its base first."""
    release = engine_release(job, "vllm")
    adapts = trained(job) in ADAPTERS
    inner = "/merged" if adapts else "/model" if stack_name(job) == "torchrun" else ""
    words = ["--served-model-name", job.name, "--host", "0.0.0.0", "--port", str(PORT)]  # noqa: S104  see vllm.py
    words += ["--max-model-len", str(job.seq_len), "--dtype", "float16" if job.option.layout.precision == "fp16" else "bfloat16"]
    words += ["--tensor-parallel-size", str(cards(job))] if cards(job) > 1 else []
    words = list(limited(job, "vllm", words))
    merge = 'python merge.py merge.json "$result"\n' if adapts else ""
    served = f'exec vllm serve "$result"{inner} {shell(words)}\n'
    files = {"serve.sh": _head(job, "VLLM_API_KEY") + merge + served}
    packages = release.package.split() if release.package else [f"vllm=={release.version}"]
    if adapts:
        settings = {"model": hub_id(job), "revision": job.settings.revision or "main", "precision": job.option.layout.precision}
        parts = scripts("merge.py", "run_core.py")
        files |= {"merge.py": parts["train.py"], "run_core.py": parts["run_core.py"], "merge.json": to_json(settings)}
        packages.append(MERGER)
    return locked_files({**files, "requirements.txt": "\n".join(packages) + "\n"})
