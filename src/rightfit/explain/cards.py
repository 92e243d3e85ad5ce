"""An option as a card: what to rent, what it costs, how long it takes, how full the memory is and
how sure that is. Faces draw it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rightfit.explain import quantities as q
from rightfit.explain.messages import label
from rightfit.explain.plan_words import usable_bytes
from rightfit.explain.quantities import server_text
from rightfit.explain.voices import voice_for
from rightfit.messages import Lang
from rightfit.records import dataclass

if TYPE_CHECKING:
    from rightfit.estimation.figures import Figure
    from rightfit.search.answer import Option
    from rightfit.workload.model import Workload

#: Upper end of the 80 % interval over its lower end, up to which a figure is called so. The medians
#: of docs/accuracy.md: memory 1.3, time of language models 1.5, most other families 2 to 3.
CONFIDENCES = ((1.6, "high"), (3.0, "medium"))


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Peak memory [bytes] with its 80 % interval against what is there; `of_card`: of one
    card, else of the host."""

    mid: float
    low: float
    high: float
    capacity: float
    of_card: bool


@dataclass(frozen=True, slots=True)
class Fact:
    """One labelled value of a card; `detail` is its interval or what it means."""

    name: str
    label: str
    value: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class OptionCard:
    """One option at a glance. `money` and `time` are the two figures that plans are chosen by;
    `facts` the rest, in reading order; `server_id` and `accelerator` the names by which the
    catalog knows them."""

    rank: int
    server: str
    provider: str
    hardware: str
    place: str
    purchase: str
    money: Fact
    time: Fact
    facts: tuple[Fact, ...]
    memory: MemoryUse | None
    confidence: str
    confidence_text: str
    price_date: str
    is_stale: bool
    server_id: str
    accelerator: str


def option_card(option: Option, workload: Workload, lang: Lang) -> OptionCard:
    """The card of an option, in one language and in the currency of the workload."""
    level = confidence(option)
    return OptionCard(
        rank=option.rank,
        server=f"{option.nodes} × {option.instance_type}" if option.nodes > 1 else option.instance_type,
        provider=q.provider_text(option.provider, lang),
        hardware=_hardware(option, lang),
        place=q.region_text(option.region, lang),
        purchase=q.purchase_text(option.purchase, lang),
        money=_money(option, workload, lang),
        time=_time(option, workload, lang),
        facts=_facts(option, workload, lang),
        memory=memory_use(option),
        confidence=level,
        confidence_text=label("card", f"confidence_{level}", lang),
        price_date=option.price_as_of,
        is_stale=bool(option.facts.get("is_stale")),
        server_id=f"{option.provider}/{option.instance_type}",
        accelerator=option.accelerator.name,
    )


def confidence(option: Option) -> str:
    """high, medium or low, by the widest 80 % interval of what the option is chosen by: its cost,
    and its time or latency."""
    widths = [_width(option.cost.total), _width(_time_figure(option))]
    return next((name for limit, name in CONFIDENCES if max(widths) <= limit), "low")


def memory_use(option: Option) -> MemoryUse | None:
    """Memory of one card, or of the host where the job needs no card; None where no
    capacity is known."""
    works = bool(option.accelerator.name) and getattr(option.layout, "device", "gpu") == "gpu"
    of_card = works and "peak_memory_bytes" in option.estimate
    figure = option.estimate.get("peak_memory_bytes" if of_card else "host_memory_bytes") or option.estimate.get("peak_memory_bytes")
    capacity = max(option.accelerator.memory_bytes, 0.0) if of_card else option.memory_bytes
    if figure is None or not capacity > 0:
        return None
    return MemoryUse(figure.mid, figure.low80, figure.high80, capacity, of_card)


def _width(figure: Figure) -> float:
    return figure.high80 / figure.low80 if figure.low80 > 0 else float("inf")


def _time_figure(option: Option) -> Figure:
    return option.estimate["total_time_s" if "total_time_s" in option.estimate else "latency_s"]


def _hardware(option: Option, lang: Lang) -> str:
    """The cards of all servers, or what the processors are."""
    card = option.accelerator
    if card.name and option.num_accelerators:
        return f"{option.num_accelerators:g} × {card.name}"
    return server_text(option, lang)


def _money(option: Option, workload: Workload, lang: Lang) -> Fact:
    monthly = workload.task == "serve"
    total, currency = option.cost.total, workload.currency
    value = q.money_text(total.mid, currency)
    between = label("card", "between", lang, low=q.money_text(total.low80, currency), high=q.money_text(total.high80, currency))
    return Fact("money", label("card", "cost_month" if monthly else "cost_job", lang), value, between)


def _time(option: Option, workload: Workload, lang: Lang) -> Fact:
    figure = _time_figure(option)
    name = "time_job" if "total_time_s" in option.estimate else "time_request"
    low, high = q.duration_text(figure.low80, lang), q.duration_text(figure.high80, lang)
    return Fact("time", label("card", name, lang), q.duration_text(figure.mid, lang), label("card", "between", lang, low=low, high=high))


def _facts(option: Option, workload: Workload, lang: Lang) -> tuple[Fact, ...]:
    currency, voice = workload.currency, voice_for(workload)
    found = [Fact("hourly", label("card", "hourly", lang), q.money_text(option.cost.hourly_usd, currency))]
    timed = [name for name in ("ttft_s", "tpot_s") if name in option.estimate]
    found.extend(Fact(name, label("card", name, lang), q.duration_text(option.estimate[name].mid, lang)) for name in timed)
    for name in ("per_thousand_requests_usd", "per_million_tokens_usd"):
        value = getattr(option.cost, name, None)
        if value is not None and value == value and voice.is_service:
            found.append(Fact(name, label("card", name, lang), q.money_text(value, currency)))
    for name in ("tokens_per_s", "samples_per_s"):
        if name in option.estimate and voice.is_training:
            found.append(Fact(name, label("card", name, lang), q.plain(option.estimate[name].mid)))
            break
    return (*found, *_memory_facts(option, lang))


def _memory_facts(option: Option, lang: Lang) -> list[Fact]:
    use = memory_use(option)
    if use is None:
        return []
    limit = usable_bytes(option) if use.of_card else use.capacity
    shown = label("card", "of", lang, value=q.memory_text(use.mid), whole=q.memory_text(use.capacity))
    name = "memory_card" if use.of_card else "memory_host"
    detail = label("card", "memory_high", lang, high=q.memory_text(use.high), usable=q.memory_text(limit))
    return [Fact("memory", label("card", name, lang), shown, detail)]
