"""What was taken for the columns that a case of language-model training leaves empty, and the conventions of its stack that no column states."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rightfit.facts.trainers import software_names
from rightfit.physics.columns import AttentionKernel, Dtype, MemoryCounter, Method, Recompute
from rightfit.proof.cases.training import TrainingCases

MEMORY_METRIC = "peak_mem_gib_per_gpu"


def note_taken(answers: list[dict[str, Any]], cases: TrainingCases, index: NDArray[np.intp]) -> None:
    """What was taken for each column that a case may have left empty."""
    columns = {name: np.broadcast_to(getattr(cases.setup, name), cases.index.shape) for name in _TAKEN.values()}
    widths = {"weights_dtype": cases.setup.linear_weight_bytes, "optimizer": cases.setup.optimizer_bytes}
    widths = {column: np.broadcast_to(value, cases.index.shape) for column, value in widths.items()}
    classes, framework, rank = (
        software_names(),
        *(np.broadcast_to(one, cases.index.shape) for one in (cases.setup.framework, cases.setup.adapter_rank)),
    )
    known = {
        "attention": AttentionKernel,
        "recompute": Recompute,
        "compute_dtype": Dtype,
        "memory_counter": MemoryCounter,
        "method": Method,
    }
    for i in index:
        taken: dict[str, Any] = {}
        for column, name in _TAKEN.items():
            value = float(columns[name][i])
            taken[column] = known[name](int(value)).name.lower() if name in known else f"{value:g}"
        taken |= {column: f"{value[i]:.3g} bytes a parameter" for column, value in widths.items()}
        taken["framework"] = f"{classes[int(framework[i])]} kernels"
        if rank[i] > 0:
            taken |= {"lora_rank": f"{rank[i]:g}", "lora_targets": "the stack's usual ones"}
        answer = answers[int(cases.index[i])]
        single = float(columns["num_gpus"][i]) <= 1
        dropped = (_SPREAD if single else set()) | (set() if answer["metric"] == MEMORY_METRIC else {"mem_kind"})
        answer["taken"] = {column: value for column, value in taken.items() if column not in dropped}


#: Degrees that say nothing of one card.
_SPREAD = {"tp", "pp", "dp", "zero"}
_HELD = {
    "weights": "linear_weight_bytes",
    "gradients": "gradient_bytes",
    "sums of gradients": "accumulation_bytes",
    "master copies": "master_bytes",
    "states": "optimizer_bytes",
}


def note_conventions(answers: list[dict[str, Any]], cases: TrainingCases, index: NDArray[np.intp]) -> None:
    """The widths that a stack's conventions gave and that no column states."""
    held = {words: np.broadcast_to(getattr(cases.setup, name), cases.index.shape) for words, name in _HELD.items()}
    logits = np.broadcast_to(cases.setup.logit_bytes, cases.index.shape)
    for i in index:
        parts = ", ".join(f"{words} {value[i]:.3g}" for words, value in held.items() if value[i] > 0)
        answers[int(cases.index[i])]["said"] = [
            f"held by the conventions of the stack, bytes each: {parts}; a logit {logits[i]:.3g}",
            f"taken of the stack, each can be given in extra_flags: {cases.habits[int(i)].replace('; ', ', ')}",
        ]


#: Column of a case -> field of the setup that stands for it.
_TAKEN = {
    "method": "method",
    "precision": "compute_dtype",
    "attention": "attention",
    "recompute": "recompute",
    "mem_kind": "memory_counter",
    "n_gpus": "num_gpus",
    "tp": "tensor",
    "pp": "pipeline",
    "dp": "data",
    "zero": "shard_stage",
    "micro_batch": "micro_batch",
    "grad_accum": "grad_accum",
    "seq_len": "seq_len",
}
