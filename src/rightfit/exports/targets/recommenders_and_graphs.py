"""Recommenders and graphs: scripts in plain PyTorch for DLRM and DCNv2, whose tables are shared out
among the cards, and for GraphSAGE on sampled neighbours."""

from __future__ import annotations

import re
from typing import Any

from rightfit.exports.job import Job
from rightfit.exports.model_words import modality
from rightfit.exports.quoting import to_json
from rightfit.exports.registry import Target
from rightfit.exports.stack import ExportStack, torch_problem
from rightfit.exports.targets.torchrun import spreading
from rightfit.exports.training_words import common_settings, sample_problem, scripts, torchrun, training_stack, with_launcher
from rightfit.messages import Message

METHODS = ("full",)
NUMPY = ("numpy==2.2.6",)
CLICK_FILES = (("labels.npy", "dense.npy", "sparse.npy"),)
WIDTH, MOST_ROWS = 128, 40_000_000
BELOW, ABOVE = [512, 256], [1024, 1024, 512, 256]
"""Of MLPerf's DLRM: embeddings of 128, no more than 40 million rows a table, layers below and above
(mlcommons/training, recommendation_v2/torchrec_dlrm)."""
RATES = {"sgd": 0.1, "adagrad": 0.005, "adamw": 1e-3}
"""Not part of a plan: usual values to begin with; 0.005 of MLPerf's DCNv2."""
OPTIMIZERS = {"sgd-momentum": "sgd", "adamw-fused": "adamw"}


def recommender_settings(job: Job) -> dict[str, Any]:
    """What train.json holds."""
    wished = str(job.wish("optimizer") or "sgd")
    optimizer = OPTIMIZERS.get(wished, wished)
    return {
        **common_settings(job, columns=CLICK_FILES),
        "optimizer": optimizer,
        "learning_rate": RATES[optimizer],
        "interaction": "cross" if "dcn" in job.model.casefold() else "dot",
        "width": WIDTH,
        "below": BELOW,
        "above": ABOVE,
        "most_rows": MOST_ROWS,
    }


def recommender_stack(job: Job) -> ExportStack:
    """torchrun on each node."""
    files = {**scripts("train_recommender.py", "run_core.py"), "train.json": to_json(recommender_settings(job))}
    return training_stack(job, "recommender", packages=NUMPY, command=torchrun(job, ("train.py", "train.json")), files=files)


def _recommender_refuses(job: Job) -> Message | str:
    if modality(job) != "recommendation":
        return Message("export.no_recommender")
    if not re.search("dlrm|dcn", job.model.casefold()) or "hstu" in job.model.casefold():
        return Message("export.no_recommender_model", model=job.model)
    wished = OPTIMIZERS.get(str(job.wish("optimizer") or "sgd"), str(job.wish("optimizer") or "sgd"))
    if wished not in RATES:
        return Message("export.optimizer_asked_for", optimizer=wished, known=", ".join(RATES))
    return sample_problem(job, methods=METHODS) or torch_problem(job)


RECOMMENDER = Target(
    "recommender",
    "training",
    "PyTorch script for DLRM and DCNv2 with shared-out tables",
    with_launcher(recommender_stack),
    _recommender_refuses,
    checked_by="runs of two processes on the processor with small tables, killed and gone on",
    stack=recommender_stack,
)


# ---- GraphSAGE: classes of the nodes of one large graph, from sampled neighbours.

GRAPH_FILES = (("features.npy", "labels.npy", "edges.npy"),)
HIDDEN, NEIGHBOURS = 256, [15, 10, 5]
"""Of the plan's model: three layers of 256, as Open Graph Benchmark's examples have them."""
GRAPH_RATE = 3e-3
GRAPH_PACKAGES = ("datasets==4.3.0", *NUMPY)


def graph_settings(job: Job) -> dict[str, Any]:
    """What train.json holds."""
    return {
        **common_settings(job, columns=GRAPH_FILES),
        **spreading(job),
        "learning_rate": GRAPH_RATE,
        "hidden": HIDDEN,
        "neighbours": NEIGHBOURS,
        "classes": 0,  # counted in the labels
    }


def graph_stack(job: Job) -> ExportStack:
    """torchrun on each node."""
    files = {**scripts("train_graph.py", "train_loop.py", "run_core.py"), "train.json": to_json(graph_settings(job))}
    return training_stack(job, "graph", packages=GRAPH_PACKAGES, command=torchrun(job, ("train.py", "train.json")), files=files)


def _graph_refuses(job: Job) -> Message | str:
    if modality(job) != "graph":
        return Message("export.no_graph")
    if not re.fullmatch("(graph)?-?sage.*", job.model.casefold()):
        return Message("export.no_graph_model", model=job.model)
    return sample_problem(job, methods=METHODS) or torch_problem(job)


GRAPH = Target(
    "graph",
    "training",
    "PyTorch script for GraphSAGE on sampled neighbours",
    with_launcher(graph_stack),
    _graph_refuses,
    checked_by="runs on the processor with a small graph, killed and gone on",
    stack=graph_stack,
)
