"""What learns: the objective, the weights, and the adapters that a plan counted."""

from __future__ import annotations

from collections.abc import Mapping

from rightfit.exports.job import Job
from rightfit.exports.model_words import architecture, modality
from rightfit.exports.stack import ADAPTERS
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
BERT = {"q": "query", "k": "key", "v": "value", "o": "attention.output.dense"}
T5 = {"q": "q", "k": "k", "v": "v", "o": "o"}
DEBERTA = {"q": "query_proj", "k": "key_proj", "v": "value_proj"}
OTHER_NAMES: Mapping[str, Mapping[str, str]] = {
    **dict.fromkeys(("bert", "roberta", "xlm-roberta", "electra", "ernie", "layoutlm", "minilm"), BERT),
    **dict.fromkeys(("t5", "mt5", "byt5"), T5),
    "mpnet": T5,
    "albert": {"q": "query", "k": "key", "v": "value"},
    "distilbert": {"q": "q_lin", "k": "k_lin", "v": "v_lin", "o": "out_lin"},
    **dict.fromkeys(("deberta-v2", "deberta-v3"), DEBERTA),
}
"""Families whose attention has names of its own for what a plan calls by a letter."""
LIKE_LLAMA = frozenset({"decoder", "moe-decoder", "vlm"})
"""Kinds of models whose attention has q_proj, k_proj, v_proj and o_proj, but for the families
above."""
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
    facts/data/frameworks.csv; none where the plan is of no such one."""
    if architecture(job) is None or modality(job) or trained(job) not in ADAPTERS:
        return {}
    return stack_settings(framework=str(job.wish("framework") or FRAMEWORK), method=trained(job), model=job.model)


def lora_targets(job: Job) -> list[str] | str:
    """Modules that get an adapter, by their names in Transformers: the plan's, or where it leaves
    them open those that it counted; "all-linear" for every matrix, and where the model has others
    than the names are known of."""
    names = attention_names(job)
    wished = [str(word) for word in job.wish("lora_targets") or ()]
    if not wished and names is not None:
        wished = counted(job).get("targets", "all").split(",")
    if not wished or adapter_targets(",".join(wished)) == adapter_targets("all"):
        return "all-linear"
    return [({**ADAPTER_LETTERS, **(names or {})}).get(word, word) for word in wished]


def attention_names(job: Job) -> Mapping[str, str] | None:
    """What the matrices of attention are called that a plan calls q, k, v and o; None where they
    are not known, or not there in every layer."""
    known = architecture(job)
    if known is None or known.family in JOINT or known.q_lora_rank or known.kv_lora_rank or known.num_linear_layers:
        return None
    usual = ADAPTER_LETTERS if known.kind in LIKE_LLAMA else None
    return OTHER_NAMES.get(known.family, usual)


def lora_rank(job: Job) -> int:
    """Rank of the adapter: the plan's, else the one that it counted."""
    return int(job.wish("lora_rank") or float(counted(job).get("rank", USUAL_RANK)))
