"""What is said where GPU memory ran out, or where a post asks whether so much of it is enough: what
the job needs as it is set up, and what saves how much.
"""

from __future__ import annotations

import contextlib
import functools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.explain import quantities as q
from rightfit.explain.messages import topic, topic_text
from rightfit.explain.trials import REFERENCE_SERVERS, advise, need_on_one_card, set_up
from rightfit.messages import Lang
from rightfit.records import dataclass
from rightfit.units import GIB, parse_bytes

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.search.answer import Plan
    from rightfit.workload import Workload
    from rightfit.workload.ask.sentence import Understood

_TRAINED = frozenset({"train", "finetune"})
#: A job is taken to fit in so much of the memory of a GPU.
_USABLE = 0.95
#: What else a service may be held in: its formats, the largest first.
_FORMATS = ("none", "int8", "int4")
#: Letters before the words for it within which the card stands on which memory ran out.
_NEAR = 60


@dataclass(frozen=True, slots=True)
class Shortage:
    """GPU memory that ran out: how much there is of it (NaN: nobody says), on how many GPUs, and in
    which format the weights are, where it is told."""

    had_bytes: float
    cards: int = 1
    format: str = ""


def shortage_of(said: Understood, sentence: str, catalog: Catalog) -> Shortage | None:
    """The memory that ran out in the story of a sentence; None where none did."""
    from rightfit.search.ownership import read_machine
    from rightfit.workload.ask.names import names_in
    from rightfit.workload.ask.pasted import MEMORY_ERROR, UNKNOWN

    error = next((one for one in said.assumed if one.key == MEMORY_ERROR), None)
    trouble = re.search(topic("memory_out")["words"]["ran_out"], sentence, re.IGNORECASE)
    if error is None and trouble is None:
        return None
    wishes = said.wishes
    cards, name = int(wishes.get("num_gpus", 1)), str(wishes.get("gpu", "")).split(",")[0]
    if said.own_machine:
        with contextlib.suppress(RightfitError):
            machine = read_machine(said.own_machine)
            cards, name = machine.count, machine.gpu
    elif error is None and trouble is not None:  # the card on which it failed, not one that is asked about
        before = sentence[max(0, trouble.start() - _NEAR) : trouble.start()]
        near = [one.value for one in names_in(before) if one.kind == "gpu" and one.value != "none"]
        cards, name = (cards, name) if not near or near[-1] == name else (1, near[-1])
    found = facts.match_accelerators(name) if name and name != "none" else ()
    if not found:
        cards, found = _cards_of_server(sentence, catalog)
    if not found:
        name = next((one.value for one in names_in(sentence) if one.kind == "gpu" and one.value != "none"), "")
        found = facts.match_accelerators(name) if name else ()
    told = str(error.fields["had"]).replace(UNKNOWN, "") if error else ""
    had = parse_bytes(told) if told else float(facts.accelerators()[found[0]].memory_bytes) if found else math.nan
    split = re.search(topic("memory_out")["words"]["split_over"], sentence, re.IGNORECASE)
    return Shortage(had, int(split["cards"]) if split else cards, str(wishes.get("quantization", "")))


def _cards_of_server(sentence: str, catalog: Catalog) -> tuple[int, tuple[str, ...]]:
    """The GPUs of the first server that a sentence names: how many, and their name."""
    from rightfit.market.server_names import exact_servers

    servers = catalog.servers()
    for word in re.findall(r"[A-Za-z][\w.-]*\d[\w.-]*\w", sentence, re.ASCII):
        rows = exact_servers(catalog, word) if "." in word or "-" in word else ()
        if len(rows) and servers.accelerator_name[rows[0]] and servers.num_accelerators[rows[0]] >= 1:
            return int(servers.num_accelerators[rows[0]]), (servers.accelerator_name[rows[0]],)
    return 1, ()


def shortage_lines(short: Shortage | None, plan: Plan, catalog: Catalog, lang: Lang) -> list[str]:
    """What the job needs as it is told, and what saves how much of it."""
    if short is None:
        return []
    if plan.workload.task not in _TRAINED:
        told = _served(plan.workload.model, short.format, short.had_bytes * short.cards, lang)  # its weights are split over the GPUs
        return [_text("head_served", lang, told=told)] if told else []
    servers = [name for count, name in REFERENCE_SERVERS.items() if count >= short.cards]
    if not servers:
        return []
    base = set_up(plan.workload, servers[0], cards=short.cards, catalog=catalog)
    if base is None:
        return []
    need = float(base.estimate["peak_memory_bytes"].mid)
    effects = advise(plan, option=base, server=servers[0], is_lean=True, catalog=catalog)
    fields = {"need": q.memory_text(need), "had": q.memory_text(short.had_bytes), "micro_batch": base.layout.micro_batch}
    key = "head" if math.isfinite(short.had_bytes) else "head_unknown"
    said = "head_on" if base.layout.recompute == "full" else "head_off"
    lines = [_text(key, lang, **fields, setup=_text(said, lang))]
    enough = [one for one in effects if one.cards == short.cards and one.peak_bytes <= _USABLE * short.had_bytes]
    if math.isfinite(short.had_bytes) and need <= _USABLE * short.had_bytes:
        lines.append(_text("fits_as_told", lang, **fields))
    elif math.isfinite(short.had_bytes) and not enough:
        lines.append(_text("none_enough", lang, **fields))
    return [*lines, *(f"- {_effect(one, short.had_bytes, lang)}" for one in effects)]


def _effect(effect: Any, had: float, lang: Lang) -> str:
    mark = "effect" if not math.isfinite(had) else "effect_fits" if effect.peak_bytes <= _USABLE * had else "effect_not"
    fields = {
        "action": effect.action_text(lang),
        "peak": q.memory_text(effect.peak_bytes),
        "saved": q.memory_text(effect.old_peak_bytes - effect.peak_bytes),
        "speed": effect.speed_text(lang),
        "had": q.memory_text(had),
    }
    return _text(mark, lang, **fields)


def room_text(amount: float, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    """Whether the job fits in so many GB of one GPU; the need first, then what fits where it does
    not."""
    had = amount * GIB
    if plan.workload.task not in _TRAINED:
        return _served(plan.workload.model, "" if _is_assumed(plan) else plan.workload.quantization or "", had, lang) or _planned(
            plan, had, lang
        )
    told, rest = list[str](), list(_methods(plan.workload))
    while rest:
        way, job = rest.pop(0)
        need = need_on_one_card(job, catalog=catalog)
        if not math.isfinite(need):
            continue
        fits = need <= _USABLE * had
        key = ("room_yes" if fits else "room_no") if not told else ("room_lighter" if fits else "room_lighter_not")
        told.append(_text(key, lang, way=q.method_text(way, lang), need=q.memory_text(need), had=q.memory_text(had)))
        if fits:
            break
    return ("；" if lang == "zh" else "; ").join(told)


def _methods(workload: Workload) -> Iterator[tuple[str, Workload]]:
    """The way that is told, then lighter ones."""
    method = str(workload.method or "full")
    yield method, workload
    for other in {"full": ("lora", "qlora"), "lora": ("qlora",)}.get(method, ()) if workload.task == "finetune" else ():
        with contextlib.suppress(RightfitError):
            yield other, workload.with_changes(method=other, optimizer=None)


def _planned(plan: Plan, had: float, lang: Lang) -> str:
    """By the peak of what is planned."""
    best = plan.best or plan.unfit
    if best is None or "peak_memory_bytes" not in best.estimate:
        return ""
    need = float(best.estimate["peak_memory_bytes"].mid)
    key = "room_yes" if need <= _USABLE * had else "room_no"
    return _text(key, lang, way=_text("planned", lang), need=q.memory_text(need), had=q.memory_text(had))


def _is_assumed(plan: Plan) -> bool:
    return any(one.field == "quantization" for one in plan.assumptions)


def _served(model: Any, told: str, had: float, lang: Lang) -> str:
    """The weights of a service in each format, and which fit with room for the cache."""
    from rightfit.explain.fit_claims import ROOMY, counted_weights

    formats: Sequence[str] = (told,) if told and told != "none" else _FORMATS
    parts = []
    for name in formats:
        job: Mapping[str, Any] = {"model": model, **({} if name == "none" else {"quantization": name})}
        weights = counted_weights(job)
        if weights is None:
            return ""
        key = "weights" if not math.isfinite(had) else "weights_fit" if weights <= ROOMY * had else "weights_not"
        parts.append(
            _text(key, lang, format=_text("bits", lang) if name == "none" else name, weights=q.memory_text(weights), had=q.memory_text(had))
        )
    return ("；" if lang == "zh" else "; ").join(parts)


_text = functools.partial(topic_text, "memory_out")
