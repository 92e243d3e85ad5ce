"""How much work an answer is for: tokens, samples and passes of a training, what a request of a
service is like and how many come, and which of it nobody stated.

An answer to another amount is another answer, so the second line names it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rightfit.explain import quantities as q
from rightfit.explain.messages import join, say, say_or
from rightfit.messages import Lang

if TYPE_CHECKING:
    from rightfit.search.answer import Option

#: Which fields of a wish, where nobody stated them, make a part of an amount an assumed one.
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "stated": (),
    "amount": ("data", "data_tokens", "data_samples", "requests"),
    "each": ("data_tokens",),
    "length": ("seq_len",),
    "passes": ("epochs",),
    "input": ("input_tokens",),
    "output": ("output_tokens",),
    "size": ("image_size",),
    "frames": ("frames",),
    "steps": ("denoise_steps",),
    "seconds": ("audio_length_s", "request"),
    "rate": ("rate",),
    "columns": ("columns",),
}


def trained_text(option: Option, workload: Any, lang: Lang) -> str:
    """What a model is trained on: "10 M tokens (assumed)", "5,000 images x 10 passes"."""
    known = option.facts
    passes = float(known.get("epochs", 1.0))
    if "sample" in known:
        count = float(known["samples_per_epoch"])
        amount = say("amounts.samples", lang, samples=q.count_text(count, lang), unit=_unit(known["sample"], count, lang))
        parts = ["amount", "passes"] if passes != 1.0 else ["amount"]
    else:
        amount, parts = _tokens(option, workload, passes, lang)
    if passes != 1.0:
        amount = say("amounts.passes", lang, amount=amount, passes=q.plain(passes))
    elif "epochs" in known.get("assumed", ()) and workload.task == "finetune" and "sample" not in known:
        amount, parts = say("amounts.one_pass", lang, amount=amount), [*parts, "passes"]  # what decides is said, though it is one
    return marked(amount, parts, known, lang)


def _unit(sample: Mapping[str, Any], count: float, lang: Lang) -> str:
    """What one sample is called."""
    return say_or(f"training.unit_{sample['unit']}{'_one' if count == 1 else ''}", lang, str(sample["unit"]))


def _tokens(option: Option, workload: Any, passes: float, lang: Lang) -> tuple[str, list[str]]:
    """The tokens of one pass, as samples of a length where samples were given."""
    tokens = float(option.facts["tokens"]) / passes
    samples = workload.data_samples
    if samples and not option.layout.update:  # pairs and prompts are counted by their methods
        texts = {"samples": q.count_text(samples, lang), "each": q.plain(tokens / samples, 4)}
        if workload.seq_len:  # its length was stated, though it may be only the longest
            return say("amounts.tokens_of_full_samples", lang, **texts), ["stated"]
        return say("amounts.tokens_of_samples", lang, **texts), ["stated", "each"]
    if option.layout.update and (tuned := _tuned(option, workload, tokens, lang)) is not None:
        return tuned
    return say("amounts.tokens", lang, tokens=q.count_text(tokens, lang)), ["amount", "passes"] if passes != 1.0 else ["amount"]


def _tuned(option: Option, workload: Any, tokens: float, lang: Lang) -> tuple[str, list[str]] | None:
    """The pairs or prompts that a method of preferences or rewards trains on, each with its texts;
    None of a method of single texts."""
    from rightfit.facts.trainers import tuning_methods

    method, length = tuning_methods().get(str(option.layout.method)), float(option.facts.get("seq_len") or 0.0)
    count = float((workload.completions if method.rollout else 0) or method.sequences) if method else 0.0
    if method is None or count < 2.0 or not length:
        return None
    fields = {"samples": f"{tokens / (count * length):,.0f}", "count": q.plain(count), "each": f"{length:,.0f}"}
    fields["tokens"] = q.count_text(tokens, lang)
    if method.rollout:
        return say("amounts.prompts_answered", lang, **fields), ["amount", "input", "output"]
    return say("amounts.pairs", lang, **fields), ["amount", "length"]


def table_text(option: Option, workload: Any, lang: Lang) -> str:
    """What a classical model is trained on or scores, or what is prepared: rows and columns, or
    data with the items that were given."""
    known = option.facts
    if known["rows"]:
        texts = {"rows": q.count_text(known["rows"], lang), "columns": q.plain(known["cols"], 6)}
        return marked(say("amounts.table", lang, **texts), ["stated", "columns"], known, lang)
    data = q.data_text(known["data_bytes"])
    if not workload.data_samples:
        return data
    items = say_or(f"training.unit_{workload.data_unit}", lang, say("training.unit_samples", lang))
    amount = say("amounts.samples", lang, samples=q.count_text(workload.data_samples, lang), unit=items)
    return say("amounts.data_of", lang, amount=amount, data=data)


def request_text(option: Option, lang: Lang) -> str:
    """What one request of a service is like: tokens in and out, size, frames and steps of what is
    drawn, the length of a recording; empty where its size moves little."""
    known, one = option.facts, option.facts.get("one_input", {})
    if known.get("output_tokens"):
        texts = {name: q.plain(float(known[f"{name}_tokens"]), 6) for name in ("input", "output")}
        return marked(say("amounts.prompts", lang, **texts), ["input", "output"], known, lang)
    if known.get("input_tokens"):
        return marked(say("amounts.texts", lang, input=q.plain(float(known["input_tokens"]), 6)), ["input"], known, lang)
    if not one:
        return ""
    amount, parts = _drawn(one, lang)
    if "denoise_steps" in one:
        amount, parts = say("amounts.steps", lang, amount=amount, steps=q.plain(one["denoise_steps"])), [*parts, "steps"]
    return marked(amount, parts, known, lang)


def _drawn(one: Mapping[str, float], lang: Lang) -> tuple[str, list[str]]:
    """Pixels and frames, or seconds of sound."""
    if "seconds" in one:
        return say("amounts.sound", lang, seconds=q.duration_text(one["seconds"], lang)), ["seconds"]
    texts = {name: f"{value:.0f}" for name, value in one.items()}
    if one.get("frames", 1.0) > 1.0:
        return say("amounts.videos", lang, **texts), ["size", "frames"]
    return say("amounts.pictures", lang, **texts), ["size"]


def load_text(option: Option, workload: Any, lang: Lang) -> str:
    """How many requests come, and what each is like."""
    known, rate, each = option.facts, q.plain(float(option.facts["rate_per_s"])), request_text(option, lang)
    if not workload.users:
        coming = marked(say("amounts.rate", lang, rate=rate), ["rate"], known, lang)
    else:
        key = "users_in_flight" if not known["think_s"] else "users_assumed" if "think" in known.get("assumed", ()) else "users"
        key = "user_assumed" if "users" in known.get("assumed", ()) else key
        coming = say(f"amounts.{key}", lang, users=f"{workload.users:,}", rate=rate, think=q.duration_text(known["think_s"], lang))
    return say("amounts.of_each", lang, rate=coming, amount=each) if each else coming


def marked(amount: str, parts: Sequence[str], known: Mapping[str, Any], lang: Lang) -> str:
    """An amount with the parts of it that nobody stated."""
    assumed = [part for part in parts if set(_FIELDS.get(part, ())) & set(known.get("assumed", ()))]
    if not assumed:
        return amount
    if len(assumed) == len(parts):
        return say("amounts.assumed", lang, amount=amount)
    return say("amounts.assumed_part", lang, amount=amount, parts=join([say(f"amounts.part_{part}", lang) for part in assumed], lang))
