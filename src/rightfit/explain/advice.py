"""What would let a smaller card do: each lever tried for real on the same reference card, with its predicted effect on memory and speed."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rightfit.errors import RightfitError
from rightfit.explain import quantities as q
from rightfit.explain.messages import Lang, say
from rightfit.explain.trials import REFERENCE_SERVER
from rightfit.records import dataclass

if TYPE_CHECKING:
    from rightfit.catalog import Catalog
    from rightfit.search.answer import Option, Plan

SHARDED_SERVER = "gcp/a2-ultragpu-8g"
_WORTHWHILE = 0.95
_SHORTEST_SEQUENCE = 256
_USABLE = 0.95


@dataclass(frozen=True, slots=True)
class Effect:
    """One lever and what it does to a card: the peak with and without it, how much slower a token gets, and the smallest card that holds
    the rest.

    `card_bytes` is 0 where no card of the catalog does. `cards` is over how many the job is split.
    """

    action: str
    peak_bytes: float
    old_peak_bytes: float
    slowdown: float
    card_bytes: float
    cards: int = 1
    fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def text(self, lang: Lang) -> str:
        """One line: what to do, what it does to memory and speed, which card would then do."""
        names = {name: q.method_text(value, lang) if name in ("old", "method") else value for name, value in self.fields.items()}
        speed = say("advice.slower" if self.slowdown > 1.02 else "advice.as_fast", lang, factor=q.plain(self.slowdown, 3))
        fields = {
            "action": say(f"advice.{self.action}", lang, **names),
            "peak": q.memory_text(self.peak_bytes),
            "old_peak": q.memory_text(self.old_peak_bytes),
            "less": q.percent_text(1 - self.peak_bytes / self.old_peak_bytes),
            "speed": speed,
            "card": q.memory_text(self.card_bytes),
            "count": self.cards,
        }
        return say("advice.effect" if self.card_bytes else "advice.effect_no_card", lang, **fields)


def advise(plan: Plan, *, option: Option | None = None, catalog: Catalog | None = None) -> list[Effect]:
    """The levers that lower the memory of one card for this plan's best option (or `option`), largest saving first; empty without an
    option."""
    chosen = option or plan.best or plan.unfit
    if chosen is None:
        return []
    sizes = card_sizes(catalog)
    as_planned = _as_planned(chosen)
    base = _tried(plan.workload, as_planned, REFERENCE_SERVER, catalog)
    if base is None:
        return []
    found = []
    for action, changes, server, fields in levers(plan.workload, chosen):
        option_ = _tried(plan.workload, {**as_planned, **changes}, server, catalog)
        if option_ is not None and _peak(option_) < _WORTHWHILE * _peak(base):
            found.append(_effect(action, option_, base, sizes, fields))
    return sorted(found, key=lambda effect: effect.peak_bytes)


def levers(workload: Any, option: Option) -> Iterator[tuple[str, dict[str, Any], str, dict[str, Any]]]:
    """What can be tried: (action, changes of the workload, server to try it on, fields of its text)."""
    layout = option.layout
    if layout.micro_batch > 1:
        yield "accumulate", {"micro_batch": 1}, REFERENCE_SERVER, {"micro_batch": layout.micro_batch}
    if layout.recompute != "full":
        yield "recompute", {"recompute": "full"}, REFERENCE_SERVER, {}
    if workload.task == "finetune":
        for method in _lighter(layout.method):
            yield method, {"method": method, "optimizer": None}, REFERENCE_SERVER, {"old": layout.method}
    if layout.method == "full" and workload.optimizer in (None, "adamw"):
        yield "optimizer_8bit", {"optimizer": "adamw-8bit"}, REFERENCE_SERVER, {}
        yield "offload", {"offload": "optimizer"}, REFERENCE_SERVER, {}
    lightest = _lighter(layout.method)[-1:] if workload.task == "finetune" else ()
    lean: dict[str, Any] = {"micro_batch": 1, "recompute": "full"} | ({"method": lightest[0], "optimizer": None} if lightest else {})
    yield "together", lean, REFERENCE_SERVER, {"method": lightest[0] if lightest else layout.method}
    yield "shard", {"sharding": "zero3"}, SHARDED_SERVER, {"count": 8}
    seq_len = int(workload.seq_len or option.facts.get("seq_len") or 0)
    if seq_len // 2 >= _SHORTEST_SEQUENCE:
        yield "shorter", {"seq_len": seq_len // 2}, REFERENCE_SERVER, {"seq_len": seq_len // 2, "old_seq_len": seq_len}


def _lighter(method: str) -> tuple[str, ...]:
    return {"full": ("lora", "qlora"), "lora": ("qlora",), "dora": ("qlora",), "galore": ("lora", "qlora")}.get(method, ())


def _as_planned(option: Option) -> dict[str, Any]:
    """The option's own micro-batch and recomputation on one card, nothing sharded or offloaded, no limits."""
    return {
        "micro_batch": option.layout.micro_batch,
        "recompute": option.layout.recompute,
        "offload": "none",
        "sharding": "none",
        "tensor_parallel": 1,
        "pipeline_parallel": 1,
        "deadline_s": None,
        "budget_usd": None,
        "budget": None,
    }


def _tried(workload: Any, changes: Mapping[str, Any], server: str, catalog: Catalog | None) -> Option | None:
    from rightfit.planner.given import estimate_one

    try:
        plan = estimate_one(workload.with_changes(**changes), on=server, catalog=catalog)
    except RightfitError:
        return None  # the lever does not go with something that the user fixed
    return plan.best or plan.unfit


def _effect(action: str, tried: Option, base: Option, sizes: tuple[float, ...], fields: Mapping[str, Any]) -> Effect:
    cards = tried.num_accelerators
    per_card = [_rate(option) / option.num_accelerators for option in (base, tried)]
    card = next((size for size in sizes if size * _USABLE >= _peak(tried)), 0.0)
    return Effect(action, _peak(tried), _peak(base), per_card[0] / per_card[1], card, cards, fields)


def _rate(option: Option) -> float:
    """Tokens a second, or samples where those are trained on."""
    return option.estimate["tokens_per_s" if "tokens_per_s" in option.estimate else "samples_per_s"].mid


def _peak(option: Option) -> float:
    return option.estimate["peak_memory_bytes"].mid


def card_sizes(catalog: Catalog | None = None) -> tuple[float, ...]:
    """Memory of the cards that can be rented, ascending."""
    from rightfit.search.priced import open_priced

    servers = (catalog or open_priced()).servers(has_accelerator=True)
    known = zip(servers.accelerator_memory_bytes.tolist(), servers.num_accelerators.tolist(), servers.not_recommended, strict=True)
    return tuple(sorted({size for size, count, refused in known if count >= 1 and not refused and math.isfinite(size)}))
