"""What learns: the objective, the weights, and the adapters that a plan counted."""

from __future__ import annotations

from collections.abc import Mapping

from rightfit.export.job import Job
from rightfit.export.model_words import architecture
from rightfit.export.stack import ADAPTERS
from rightfit.facts.trainers import adapter_targets, stack_settings, tuning_methods

ADAPTER_LETTERS = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "o_proj", "gate": "gate_proj", "up": "up_proj", "down": "down_proj"}
JOINT = frozenset(
    {
        *("gpt2", "cerebras-gpt", "starcoder", "qwen", "gpt-neox", "pythia", "bloom", "falcon", "chatglm", "codegen", "mpt", "dbrx"),
        *("baichuan", "internlm2", "phi3", "phi4", "mamba", "gpt3", "megatron-gpt", "paper", "grok"),
    }
)
"""Families (of the records) whose queries, keys and values are one matrix, or have other names, or
are of no model of Transformers."""
FRAMEWORK = "transformers"
"""What a plan takes where it tunes and names none (search/criteria.py)."""
USUAL_RANK = 16
"""Of plans of pictures, sound and other samples."""


def objective(job: Job) -> str:
    """What is learnt from: dpo, orpo, kto, reward, ppo or grpo; "sft" for examples and for text."""
    method = job.option.layout.method
    return method if method in tuning_methods() else "sft"


def trained(job: Job) -> str:
    """Which weights learn: full, lora, qlora ..., of tuning by preferences and rewards its
    update."""
    layout = job.option.layout
    return layout.method if objective(job) == "sft" else layout.update or "full"


def counted(job: Job) -> Mapping[str, str]:
    """Settings of the stack that a plan of a language model counted, by the rules of
    facts/data/frameworks.csv; none where the model is no such one."""
    if architecture(job) is None or trained(job) not in ADAPTERS:
        return {}
    return stack_settings(framework=str(job.wish("framework") or FRAMEWORK), method=trained(job), model=job.model)


def lora_targets(job: Job) -> list[str] | str:
    """Modules that get an adapter, by their names in Transformers: the plan's, or where it leaves
    them open those that it counted; "all-linear" for every matrix, and for models whose modules
    have other names."""
    wished = [str(word) for word in job.wish("lora_targets") or ()]
    if not wished and has_usual_modules(job):
        wished = counted(job).get("targets", "all").split(",")
    if not wished or adapter_targets(",".join(wished)) == adapter_targets("all"):
        return "all-linear"
    return [ADAPTER_LETTERS.get(word, word) for word in wished]


def has_usual_modules(job: Job) -> bool:
    """Whether attention has q_proj, k_proj, v_proj and o_proj in every layer, as Llama's."""
    known = architecture(job)
    if known is None or known.kind not in ("decoder", "moe-decoder") or known.family in JOINT:
        return False
    return not (known.q_lora_rank or known.kv_lora_rank or known.num_linear_layers)


def lora_rank(job: Job) -> int:
    """Rank of the adapter: the plan's, else the one that it counted."""
    return int(job.wish("lora_rank") or float(counted(job).get("rank", USUAL_RANK)))
