"""Several models on one GPU: the language model is planned in the memory that the others leave."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.explain import quantities as q
from rightfit.explain.messages import topic, topic_text
from rightfit.explain.open_wishes import writes_text
from rightfit.messages import Lang
from rightfit.records import dataclass
from rightfit.units import GIB

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.search.answer import Plan
    from rightfit.workload.ask import Understood

#: Bytes of a parameter in 16 bits.
_HALF = 2.0


@dataclass(frozen=True, slots=True)
class Together:
    """Several models on one GPU: the plan of the one that takes what the others leave, its wishes,
    and each of the others with its memory [bytes] (NaN: nobody knows it, the usual is taken)."""

    plan: Plan
    wishes: Mapping[str, Any]
    others: tuple[tuple[str, float, bool], ...]
    in_turn: bool = False

    def lines(self, lang: Lang) -> list[str]:
        """What stands on the GPU beside the planned model."""
        said = [
            topic_text("open_wishes", "beside_assumed" if assumed else "beside_one", lang, name=name, memory=q.memory_text(size))
            for name, size, assumed in self.others
        ]
        joined = topic_text("open_wishes", "beside_join", lang).join(said)
        return [topic_text("open_wishes", "in_turn" if self.in_turn else "beside", lang, others=joined, model=self.wishes["model"])]


def wants_one_gpu(found: Understood) -> bool:
    """Whether all models of a sentence are to stand on one GPU."""
    told = found.wishes
    return "1" in (told.get("num_gpus"), told.get("max_nodes")) or bool(
        re.search(topic("open_wishes")["words"]["one_gpu"], found.sentence, re.IGNORECASE)
    )


def together(found: Understood, parts: Sequence[Mapping[str, Any]], catalog: Catalog, *, is_asked: bool) -> Together | None:
    """All models of a sentence on one GPU, the cheapest that holds them; None where none does, none
    of them answers requests or nobody asks for it. Those that draw take turns anyway."""
    from rightfit.workload.ask.voices import speaks

    voices = speaks(found.sentence)
    if any(wishes.get("task", "serve") != "serve" for wishes in parts) or len(parts) + len(voices) < 2:
        return None
    sizes = [_weights_bytes(str(wishes["model"])) for wishes in parts]
    if not all(sizes):
        return None
    leading = max(range(len(parts)), key=lambda at: (writes_text(str(parts[at]["model"])), sizes[at]))
    if not voices and all(_draws(str(one["model"])) for one in parts):
        return _in_turn(found, parts, sizes, leading, catalog)
    if not is_asked:
        return None
    usual = facts.coefficients("serving_planning")
    others = [(str(one["model"]), sizes[at] + usual["beside_bytes"], False) for at, one in enumerate(parts) if at != leading]
    others += [(voice, usual["voice_bytes"], True) for voice in voices]
    taken = sum(size for _, size, _ in others)
    of_all = {
        key: value for key, value in found.wishes.items() if key in ("gpu", "quantization", "framework", "precision", "ttft", "latency")
    }
    wishes = {
        key: value
        for key, value in {**of_all, **parts[leading]}.items()
        if key not in ("max_nodes", "budget", "rate" if "users" in parts[leading] else "")
    }
    wishes |= {"num_gpus": "1", "task": "serve"}
    best: Together | None = None
    for memory in _memories(str(wishes.get("gpu", "")), sizes[leading] + taken):
        share = usual["engine_share"] - taken / memory
        told = {**wishes, "gpu": wishes.get("gpu") or f"{memory / GIB:.0f}GB"}
        told |= {"gpu_memory_utilization": f"{share:.2f}"} if writes_text(str(wishes["model"])) else {}
        plan = _planned(told, catalog)
        if plan is None or plan.best is None:
            continue
        if best is not None and best.plan.best is not None and plan.best.cost.total_usd >= best.plan.best.cost.total_usd:
            break
        best = Together(plan, told, tuple(others))
    return best


def _weights_bytes(model: str) -> float:
    try:
        record = facts.model(model, network=False)
        return _HALF * float(getattr(record, "params_total", 0) or getattr(record, "total_params", 0) or getattr(record, "params", 0) or 0)
    except RightfitError:
        return 0.0


def _draws(model: str) -> bool:
    try:
        return isinstance(facts.model(model, network=False), facts.DiffusionModel)
    except RightfitError:
        return False


def _in_turn(
    found: Understood, parts: Sequence[Mapping[str, Any]], sizes: Sequence[float], leading: int, catalog: Catalog
) -> Together | None:
    """Models that draw for the same people, of which a tool loads one at a time: the plan of the
    largest."""
    if "rate" in found.wishes and "users" not in found.wishes and len({str(one.get("rate")) for one in parts}) > 1:
        return None
    wishes = dict(parts[leading])
    plan = _planned(wishes, catalog)
    others = tuple((str(one["model"]), sizes[at], False) for at, one in enumerate(parts) if at != leading)
    return Together(plan, wishes, others, in_turn=True) if plan is not None and plan.best is not None else None


#: Memory of GPUs is told in these steps: cards of one step differ by less [bytes].
_STEP = 4.0 * GIB
_MOST_SIZES = 3


def _named(gpu: str) -> list[str]:
    return [name for one in gpu.split(",") if one for name in facts.match_accelerators(one)]


def _memories(gpu: str, needed: float) -> list[float]:
    """The least memories of GPUs that hold so much [bytes], of those that are named or of all."""
    cards = facts.accelerators()
    names = _named(gpu) or [name for name, card in cards.items() if card.vendor == "NVIDIA"]
    usual = facts.coefficients("serving_planning")["engine_share"]
    sizes = {round(cards[name].memory_bytes / _STEP) * _STEP for name in names if cards[name].memory_bytes * usual > needed}
    return sorted(sizes)[:_MOST_SIZES]


def _planned(wishes: Mapping[str, Any], catalog: Catalog) -> Plan | None:
    from rightfit.planner.plan import plan
    from rightfit.workload.model import Workload

    try:
        return plan(Workload(**wishes), catalog=catalog, top=1)
    except RightfitError:
        return None


__all__ = ["Together", "together", "wants_one_gpu"]
