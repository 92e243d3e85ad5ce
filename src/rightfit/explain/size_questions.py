"""What sizes alone decide: the memory of a model on a sparse table, and of the logits of a small
model with a large vocabulary."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.explain import quantities as q
from rightfit.explain.messages import topic
from rightfit.messages import LANGS, Lang
from rightfit.units import parse_bytes, parse_count, parse_data
from rightfit.workload.ask.names import names_in

if TYPE_CHECKING:
    from rightfit.market import Catalog

#: Rows of a step, bytes of a number, and how many numbers Adam keeps of each parameter.
_BATCH, _FP32, _ADAM = 65_536.0, 4.0, 3.0
_INDEX = 4.0
#: Values of a logit that live at once in fp32: the logits, their softmax and their gradient.
_LOGIT_COPIES = {"fp32": 4.0, "half": 2.0, "gradient": 4.0}
#: Share of the card from which on the logits are what fills it.
_DOMINATES = 0.3


def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(topic("topic_questions")["sizes"][name], re.IGNORECASE)


def _number(name: str, sentence: str) -> float:
    found = _pattern(name).search(sentence)
    return parse_count(next(group for group in found.groups() if group).replace(" ", "")) if found else 0.0


def sparse_table(sentence: str, named: Mapping[str, Any], _: Catalog) -> dict[Lang, dict[str, str]] | None:
    """Parameters, a batch and the stored data of a model on a sparse table, from its columns and
    the filled cells of a row; None where they are not told."""
    columns = parse_count(str(named.get("columns", "0")))
    settings = str(named.get("settings", ""))
    cells = _number("cells", settings) or columns * _number("share", settings) / 100.0
    if columns < 1 or not 0 < cells < columns:
        return None
    rank = _number("rank", sentence) if _pattern("factors").search(sentence) else 0.0
    try:
        rows = float(parse_data(str(named.get("data", ""))).samples or 0.0)
    except RightfitError:
        rows = 0.0
    params, width = columns * (rank + 1.0), max(rank, 1.0)
    sizes = {
        "params": params * _FP32,
        "states": params * _FP32 * _ADAM,
        "batch": _BATCH * cells * (width * _FP32 + _INDEX + _FP32),
        "data": rows * cells * (_INDEX + _FP32),
        "dense": rows * columns * _FP32,
    }
    fields = {name: q.memory_text(size) for name, size in sizes.items()}
    fields |= {"all": q.memory_text(sizes["states"] + 2.0 * sizes["batch"]), "columns": f"{columns:,.0f}", "cells": f"{cells:,.3g}"}
    texts = topic("topic_questions")["sizes"]
    return {
        lang: fields
        | {
            "stored": texts["stored"][lang].format(**fields) if rows else "",
            "factors": texts["of_rank"][lang].format(rank=f"{rank:g}") if rank else "",
        }
        for lang in LANGS
    }


def logits(sentence: str, named: Mapping[str, Any], _: Catalog) -> dict[Lang, dict[str, str]] | None:
    """What the logits of a micro-batch take, where they are what fills the card; None where the
    sizes are not told or the logits are not much."""
    name = str(named.get("model") or next((one.value for one in names_in(sentence) if one.kind == "model"), ""))
    try:
        model = facts.model(name, network=False)
    except RightfitError:
        return None
    length, batch = _number("length", sentence), float(str(named.get("micro_batch") or named.get("global_batch") or 0) or 0)
    batch = batch or _number("batch", sentence)
    had = re.search(topic("topic_questions")["sizes"]["card"], sentence, re.IGNORECASE)
    if not isinstance(model, facts.TransformerArchitecture) or not (length and batch):
        return None
    room = parse_bytes(f"{had[1]}GiB") if had else 0.0
    tokens = length * batch
    each = {name: tokens * model.vocab_size * width for name, width in _LOGIT_COPIES.items()}
    whole = sum(each.values())
    if whole < _DOMINATES * (room or 16.0 * model.params_total):
        return None
    small = max(1.0, batch // 8)
    fields = {name: q.memory_text(size) for name, size in each.items()} | {
        "model": name,
        "tokens": f"{tokens:,.0f}",
        "batch": f"{batch:,.0f}",
        "length": f"{length:,.0f}",
        "vocab": f"{model.vocab_size:,}",
        "whole": q.memory_text(whole),
        "states": q.memory_text(16.0 * model.params_total),
        "small": f"{small:,.0f}",
        "steps": f"{batch / small:,.0f}",
        "less": q.memory_text(whole * small / batch),
    }
    texts = topic("topic_questions")["sizes"]
    served = _pattern("engine").search(sentence)
    return {
        lang: fields
        | {
            "card": texts["of_card"][lang].format(had=q.memory_text(room)) if room else "",
            "engine": texts["preallocates"][lang].format(share=q.percent_text(_reserved()), held=q.memory_text(_reserved() * room))
            if served and room
            else "",
        }
        for lang in LANGS
    }


def _reserved() -> float:
    """The share of a card that vLLM reserves at its start."""
    engine = facts.engines.engine_class("vllm")
    return engine.memory_fraction or facts.engines.engines()[engine.parent].memory_fraction


FIELDS = {"sparse_table": sparse_table, "logits": logits}
