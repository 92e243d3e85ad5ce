"""From a workload to numbers where a language model answers: the load, the lengths, the latency limits, and every default that was
taken."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rightfit import facts
from rightfit.errors import ContradictionError, InputError
from rightfit.facts.image_tokens import image_rule
from rightfit.facts.records import TransformerArchitecture
from rightfit.families.serving.extras import read_extras
from rightfit.families.serving.seen import Seen, read_seen
from rightfit.messages import Message
from rightfit.search.notes import Notes
from rightfit.search.own_model import note_own
from rightfit.search.service.load import busiest_rate_per_s, mean_lengths, peak_of, read_load, trace_of
from rightfit.search.service.wish import LATENCIES, Limits, ServingWish, start_notes, usual

if TYPE_CHECKING:
    from rightfit.workload import Workload
    from rightfit.workload.traces import Requests


def read_token_wish(workload: Workload) -> ServingWish:
    """The workload as numbers; raises what the user must know."""
    notes, model = start_notes(workload), facts.model(workload.model)
    assert isinstance(model, TransformerArchitecture)
    note_own(model, notes)
    if model.certainty == "typical":
        notes.take("model", model.name, "typical_shape", params=model.params_total)
    trace = trace_of(workload)
    prompt, output = token_lengths(workload, model, notes) if trace is None else mean_lengths(trace)
    seen = read_seen(workload, model, notes)
    prompt = _with_seen(prompt, output, seen, workload, model)
    limits = token_limits(workload, notes, prompt=prompt)
    rate = request_rate(workload, notes, trace=trace)
    asked_by_users = 0.0 if rate else rate_of_users(workload, limits, output, notes)
    rate = rate or asked_by_users
    extras = read_extras(workload, model, input_tokens=prompt, notes=notes)
    load = read_load(workload, trace, lengths=(prompt, output), rate_per_s=rate, longest=model.max_position or 0, notes=notes)
    return ServingWish(
        workload=workload,
        model=model,
        rate_per_s=rate,
        users=0 if asked_by_users else workload.users or 0,
        requests=requests_of(workload, model, prompt, notes) if workload.task == "batch" else 0.0,
        input_tokens=prompt,
        output_tokens=output,
        limits=limits,
        load=None if load is None else dataclasses.replace(load, shared_tokens=extras.shared_tokens),
        extras=dataclasses.replace(extras, images=seen.images, image_patches=seen.patches),
        assumptions=tuple(notes.taken),
    )


def _with_seen(prompt: int, output: int, seen: Seen, workload: Workload, model: TransformerArchitecture) -> int:
    """The whole prompt: its text and what is seen and heard; raises where that is over the model's limit."""
    whole, limit = prompt + seen.tokens, model.max_position
    if seen.tokens and limit and whole + output > limit:
        name = next(name for name in ("images", "frames", "image_size", "audio_length_s") if getattr(workload, name) is not None)
        raise ContradictionError(
            Message(
                "families.prompt_over_limit",
                option=name.removesuffix("_s"),
                tokens=seen.tokens,
                prompt=prompt,
                output=output,
                model=model.name,
                limit=limit,
            ),
            field=name.removesuffix("_s"),
        )
    return whole


def token_lengths(workload: Workload, model: TransformerArchitecture, notes: Notes) -> tuple[int, int]:
    """Prompt and answer length of a request, within the model's limit: a default gives way to it, what the user says does not."""
    limit = model.max_position
    given = [getattr(workload, name) for name in ("input_tokens", "output_tokens")]
    chosen = usual_lengths(given, limit)
    for name, said, value in zip(("input_tokens", "output_tokens"), given, chosen, strict=True):
        if said is None:
            is_cut = value < int(usual()[name])
            notes.take(name, value, f"serve_{name}_within" if is_cut else f"serve_{name}", **({"limit": limit} if is_cut else {}))
    if limit and sum(chosen) > limit:
        raise ContradictionError(
            Message("families.lengths_over_limit", prompt=chosen[0], output=chosen[1], model=model.name, limit=limit),
            field="input_tokens",
        )
    return chosen[0], chosen[1]


def usual_lengths(given: Sequence[int | None], limit: int | None) -> list[int]:
    """Tokens of prompt and answer; the usual ones where they are not given, cut to what the model's limit leaves, at least one each."""
    usual_ones = [int(usual()[name]) for name in ("input_tokens", "output_tokens")]
    chosen = [int(usual_ones[at] if value is None else value) for at, value in enumerate(given)]
    if not limit or sum(chosen) <= limit:
        return chosen
    if given[1] is None:
        share = usual_ones[1] / sum(usual_ones) * limit if given[0] is None else limit - chosen[0]
        chosen[1] = max(1, min(chosen[1], int(share)))
    if given[0] is None:
        chosen[0] = max(1, min(chosen[0], limit - chosen[1]))
    return chosen


def request_rate(workload: Workload, notes: Notes, *, trace: Requests | None = None) -> float:
    """Requests a second that must be served: as given, of the trace's busiest hour, or the peak of the profile."""
    if trace is not None:
        return busiest_rate_per_s(trace)
    if workload.profile:
        peak = peak_of(workload)
        if peak is not None:
            return peak
    if workload.task == "batch" or (workload.rate_per_s is None and workload.users):
        return 0.0
    if workload.rate_per_s is None:
        rate = usual()["rate_per_s"]
        notes.take("rate", rate, "serve_rate")
        return float(rate)
    return workload.rate_per_s


def rate_of_users(workload: Workload, limits: Limits, output: int, notes: Notes) -> float:
    """Requests a second of users who read an answer and write on before they ask again; 0 where nobody thinks (then each user always has a request in
    flight). An answer is taken to come in half the time that the limits allow.

    Reference: the interactive response time law, E. Lazowska et al., Quantitative System Performance (1984), chapter 3: X = N / (Z + R).
    """
    if not workload.users or workload.task == "batch":
        return 0.0
    think_s = float(usual()["think_s"]) if workload.think_s is None else workload.think_s
    if think_s <= 0:
        return 0.0
    answer_s = 0.5 * min(limits.latency_s, limits.ttft_s + max(output - 1, 0) * limits.tpot_s)
    rate = workload.users / (think_s + answer_s)
    if workload.think_s is None:
        notes.take("think", think_s, "serve_think", users=workload.users, rate=rate)
    return rate


def requests_of(workload: Workload, model: TransformerArchitecture, prompt: int, notes: Notes) -> float:
    """Requests of a batch job: samples as they are, tokens cut into prompts."""
    if workload.data_unit == "images" and workload.data_samples is not None and (rule := image_rule(model)) and rule.takes_images:
        return workload.data_samples / (workload.images or 1)
    if workload.data_samples is not None and (workload.data_unit or "samples") in ("images", "frames", "hours", "videos", "clips"):
        raise InputError(Message("families.data_unit_serving", unit=workload.data_unit), field="data")
    if workload.data_samples is not None:
        return workload.data_samples
    tokens = workload.data_tokens
    if tokens is None and workload.data_bytes is not None:
        per_token = facts.coefficients("planning")["bytes_per_token"]
        tokens = workload.data_bytes / per_token
        notes.take("data_tokens", tokens, "tokens_from_bytes", bytes=workload.data_bytes, bytes_per_token=per_token)
    if tokens is None:
        raise InputError(Message("families.amount_of_prompts"), field="data")
    count = max(1.0, tokens / prompt)
    notes.take("requests", count, "serve_requests", tokens=tokens, input_tokens=prompt)
    return count


def usual_first_token_s(prompt: int) -> tuple[float, bool]:
    """The usual limit of the first token after a prompt of so many tokens [s], and whether it is longer than that of a usual prompt."""
    more = float(usual()["ttft_s_per_token"]) * max(0, prompt - int(usual()["input_tokens"]))
    return round(float(usual()["ttft_s"]) + more, 1), more > 0


def token_limits(workload: Workload, notes: Notes, *, prompt: int) -> Limits:
    """Latency limits: the user's, and of first token and later tokens the usual ones where nothing is said of them. Saying one does not
    drop the other; a limit of the whole request bounds the first token too. The longer the prompt, the longer its first token may take."""
    infinity = float("inf")
    given: dict[str, float | None] = {name: getattr(workload, f"{name}_s") for name in LATENCIES}
    percentile = (workload.percentile or usual()["percentile"]) / 100.0
    if workload.task == "batch":
        return Limits(infinity, infinity, infinity, percentile)
    if given["ttft"] is None:
        first_token_s, is_longer = usual_first_token_s(prompt)
        given["ttft"] = first_token_s
        notes.take("ttft", first_token_s, "serve_ttft_long" if is_longer else "serve_ttft", **({"tokens": prompt} if is_longer else {}))
    if given["tpot"] is None:
        given["tpot"] = float(usual()["tpot_s"])
        notes.take("tpot", float(usual()["tpot_s"]), "serve_tpot")
    if workload.percentile is None:
        notes.take("percentile", float(usual()["percentile"]), "serve_percentile")
    ttft, tpot, latency = (infinity if (said := given[name]) is None else said for name in LATENCIES)
    return Limits(ttft, tpot, latency, percentile)
