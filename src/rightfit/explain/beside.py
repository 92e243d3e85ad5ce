"""Questions beside a wish ("微调LLaMA-2-13B要不要NVLink", "is 32 GB of RAM enough?", "vLLM还是
TensorRT-LLM"): taken out of the sentence, and answered from the plan of the rest.

Words are data (data/beside.toml). A sentence that is all question is left as it is.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.explain import quantities as q
from rightfit.explain.claim_words import card_pattern
from rightfit.explain.command_text import command_line
from rightfit.explain.decisions import chart_words, decision_lines
from rightfit.explain.glossary import term_text
from rightfit.explain.memory_out import Shortage, room_text, shortage_lines, shortage_of
from rightfit.explain.messages import topic
from rightfit.explain.plan_words import data_path_lines
from rightfit.explain.reasons import offload_text
from rightfit.explain.rule_trials import measures_of
from rightfit.explain.rules import all_rules, judge
from rightfit.explain.trials import best_for, best_of, cost_text, need_on_one_card, where_text
from rightfit.facts.expressions import Expression, expression
from rightfit.facts.tables import says
from rightfit.market.names import find_provider
from rightfit.market.offers import OfferFilter
from rightfit.market.sellers import DEFAULT_TIER, tier_of
from rightfit.messages import LANGS, Lang
from rightfit.records import dataclass
from rightfit.units import GIB

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.search.answer import Option, Plan, Reason
    from rightfit.workload import Workload
    from rightfit.workload.ask.sentence import Understood

#: A card that costs so many times the cheapest way is near it; exchange that takes so much of a
#: step is worth a faster network.
_NEAR, _SLOW = 1.25, 0.2
_MANY = 300
#: Named GPUs of which each gets a line, rows of a plan that are shown, and sellers of a GPU.
_MOST_CARDS, _SHOWN, _MANY_SELLERS = 6, 3, 8
#: Counts of GPUs that are tried for the fewest.
_COUNTS = (1, 2, 3, 4, 6, 8, 16)
#: A limit that holds with at least this probability is kept.
_SURE = 0.9
_OPEN_END = " ,，;；。?？、"
#: Commas between parts of a sentence, not those that mark the thousands of a number.
_COMMAS = re.compile(r"\s*(?:[，、]|,(?!(?<=\d,)\d{3}(?!\d)))(?:\s*[,，、])*\s*")


@dataclass(frozen=True, slots=True)
class Question:
    """One question: a key of data/beside.toml, its words as they stand in the sentence, and the
    amount that it asks about (NaN: none)."""

    key: str
    words: str
    amount: float = math.nan


@dataclass(frozen=True, slots=True)
class Beside:
    """A sentence without the questions beside its wish."""

    wish: str
    questions: tuple[Question, ...]


def _table() -> Mapping[str, Any]:
    return topic("beside")


@functools.cache
def _patterns() -> Mapping[str, tuple[Expression, ...]]:
    words = {key: entry.get("words", ()) for key, entry in _table()["questions"].items()}
    return {key: tuple(expression(word) for word in listed) for key, listed in words.items()} | {"chart": chart_words()}


def _text(key: str, lang: Lang, **fields: Any) -> str:
    text: str = _table()["texts"][key][lang]
    return text.format(**fields)


def without_questions(sentence: str) -> Beside:
    """The wish of a sentence and the questions beside it."""
    rest, found = sentence, list[Question]()
    for key, patterns in _patterns().items():
        needed = _table()["questions"][key].get("with", "")
        if needed and not re.search(needed, sentence, re.IGNORECASE | re.DOTALL):
            continue
        for pattern in patterns:
            while match := pattern.search(rest):
                amount = next((float(value) for value in match.groupdict().values() if value), math.nan)
                found.append(Question(key, match[0].strip(_OPEN_END), amount))
                rest = f"{rest[: match.start()]}, {rest[match.end() :]}"
    rest = _COMMAS.sub(", ", rest).strip(_OPEN_END)
    order = {question: sentence.find(question.words) for question in found}
    return Beside(rest, tuple(sorted(found, key=lambda one: order[one]))) if found and len(rest) > 2 else Beside(sentence, ())


def answers(questions: Sequence[Question], plan: Plan, catalog: Catalog, lang: Lang) -> list[str]:
    """A line for each question, answered from the plan; none where nothing can be rented."""
    told: dict[str, str] = {}
    for question in questions:
        if plan.best is None and not _table()["questions"][question.key].get("always"):
            continue
        entry, words = _table()["questions"][question.key], question.words
        parts = [_ANSWERS[entry["answer"]](question, plan, catalog, lang)] if "answer" in entry else []
        parts += [_rule(entry["rule"], plan, catalog, lang)] if "rule" in entry else []
        parts += [term_text(entry["term"], lang)] if "term" in entry else []
        if answer := ("" if lang == "zh" else " ").join(part for part in parts if part):
            told.setdefault(answer, words)
    end = "。" if lang == "zh" else "."
    return [
        _text("line", lang, question=words, answer=answer.rstrip(".。") + ("" if answer.endswith("`") else end))
        for answer, words in told.items()
    ]


def terms_told(questions: Sequence[Question], lang: Lang) -> list[str]:
    """What can be said without a plan: the words of the field that were asked about."""
    asked = ((one.words, _table()["questions"][one.key].get("term", "")) for one in questions)
    return [_text("line", lang, question=words, answer=term_text(term, lang)) for words, term in asked if term]


def _rule(name: str, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    assert plan.best is not None
    return judge(all_rules()[name], measures_of(plan.best, plan.workload, catalog=catalog)).reason(lang)


# ---- Each answer from the plan; `_best` because none is asked for without one.


def _best(plan: Plan) -> Option:
    assert plan.best is not None
    return plan.best


_currency: ContextVar[str] = ContextVar("_currency", default="usd")


@contextlib.contextmanager
def _told_in(currency: str) -> Iterator[None]:
    """Money in the currency of the plan, so that one answer has one."""
    token = _currency.set(currency)
    try:
        yield
    finally:
        _currency.reset(token)


def _money(option: Option, lang: Lang) -> str:
    return cost_text(option, _currency.get())[lang]


def _usd(amount: float) -> str:
    return q.money_text(amount, _currency.get())


def _total(option: Option) -> float:
    return float(option.cost.total_usd)


def _other(plan: Plan, catalog: Catalog, **changes: Any) -> Option | None:
    """What leads where the wish is changed; None where nothing does."""
    from rightfit.planner.plan import plan as plan_again

    try:
        return plan_again(plan.workload.with_changes(**changes), catalog=catalog, top=1).best
    except RightfitError:
        return None


_TRAINED = frozenset({"train", "finetune"})


def _gpu(question: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    """With a GPU or without one, each at its best: the one that wins, with both costs."""
    best = _best(plan)
    named = [found[0] for found in card_pattern().finditer(question.words) if facts.match_accelerators(found[0])]
    gpus: Any = ",".join(named) if named else tuple(facts.accelerators())
    if named:
        best = _other(plan, catalog, gpu=gpus) or best
    rows = _cards_beside(named, best, plan, catalog, lang)
    other = _other(plan, catalog, gpu="none" if best.num_accelerators else gpus)
    if other is not None and _total(other) < _total(best):
        best, other = other, best
    if other is None:
        is_trained = str(plan.workload.task) in _TRAINED  # no speed of it is known without a GPU: that says not that it cannot be done
        key = "gpu_none" if not best.num_accelerators else "gpu_trained" if is_trained else "gpu_only"
        return _text(key, lang, way=way_text(best, lang))
    ratio = f"{_total(other) / _total(best):.2g}"
    key = "gpu_cheaper" if best.num_accelerators else "gpu_dearer"
    return _text(key, lang, ratio=ratio, way=way_text(best, lang), other=way_text(other, lang)) + rows


def _cards_beside(named: Sequence[str], best: Option, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    """What each other named GPU takes, beside the one that leads."""
    others = [name for name in named if best.accelerator.name not in facts.match_accelerators(name)]
    if len(others) == len(named):
        return ""
    told = []
    for name in others:
        option = _other(plan, catalog, gpu=name)
        told.append(
            _text("card_none", lang, card=name) if option is None else _text("card_row", lang, card=name, way=way_text(option, lang))
        )
    sep, end = ("；", "。") if lang == "zh" else ("; ", ".")
    return "".join(sep + one.removesuffix(end) for one in told)


def _link(_: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    best = _best(plan)
    if best.num_accelerators <= 1:
        return _text("link_one", lang, where=where_text(best))
    share = measures_of(best, plan.workload, catalog=catalog).communication_share
    link = str(best.facts.get("gpu_interconnect") or "pcie")
    key = "link_plain" if link == "pcie" else "link_many"
    return _text(key, lang, count=q.plain(best.num_accelerators), link=link, share=q.percent_text(share))


def _latency(_: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    """How long one request takes on what leads."""
    best = _best(plan) if plan.workload.task == "serve" else _other(plan, catalog, task="serve")
    if best is None:
        return _text("latency_none", lang)
    found = best.estimate
    if "ttft_p95_s" in found:
        first, each = (q.duration_text(found[name].mid, lang) for name in ("ttft_p95_s", "tpot_p50_s"))
        return _text("latency_tokens", lang, first=first, tpot=each, way=way_text(best, lang))
    mid, p95 = (q.duration_text(found[name].mid, lang) for name in ("latency_p50_s", "latency_p95_s"))
    return _text("latency", lang, mid=mid, p95=p95, way=way_text(best, lang))


def _network(_: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    best = _best(plan)
    if best.nodes == 1:
        return _text("network_one", lang, where=where_text(best))
    share = measures_of(best, plan.workload, catalog=catalog).communication_share
    known = best.network_gbps and math.isfinite(best.network_gbps)
    network = f"{best.network_gbps:g} Gbit/s" if known else _text("network_unknown", lang)
    key = "network_slow" if share > _SLOW else "network_many"
    return _text(key, lang, nodes=best.nodes, network=network, share=q.percent_text(share))


def _enough(question: Question, amount: str, need: float, text: str, lang: Lang) -> str:
    """The need in words, before it whether the amount asked about covers it."""
    if not math.isfinite(question.amount):
        return text
    return _text("enough" if question.amount >= need else "enough_not", lang, amount=amount, need=text)


def _cores(question: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    best = _best(plan)
    need = float(best.data_path.get("needed_cores", math.nan))
    if best.num_accelerators and math.isfinite(need):
        text = _text(
            "cores_need", lang, cores=q.plain(math.ceil(need)), workers=q.plain(float(best.data_path["workers"])), had=q.plain(best.vcpus)
        )
        return _enough(question, f"{question.amount:g}", math.ceil(need), text, lang)
    if not math.isfinite(question.amount):
        return _text("cores_had", lang, had=q.plain(best.vcpus))
    least = min(_all(plan, catalog), key=lambda option: (option.vcpus * option.nodes, _total(option)))
    text = _text("cores_least", lang, had=q.plain(least.vcpus * least.nodes), where=where_text(least), cost=_money(least, lang))
    return _enough(question, f"{question.amount:g}", least.vcpus * least.nodes, text, lang)


def _all(plan: Plan, catalog: Catalog) -> Sequence[Option]:
    """As many ways to do it as there are."""
    from rightfit.planner.plan import plan as plan_again

    return plan_again(plan.workload, catalog=catalog, top=_MANY).options or (_best(plan),)


def _memory(question: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    best = _best(plan)
    if "host_memory_bytes" not in best.estimate:
        return _text("memory_had", lang, had=q.memory_text(best.memory_bytes), where=where_text(best))
    need = best.estimate["host_memory_bytes"].high80
    text = _text("memory_need", lang, need=q.memory_text(need), had=q.memory_text(best.memory_bytes))
    return _enough(question, f"{question.amount:g} GB", need / GIB, text, lang)


def _disk(question: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    if "disk_bytes" not in _best(plan).estimate:
        return _text("unknown", lang)
    need = _best(plan).estimate["disk_bytes"].high80
    return _enough(question, f"{question.amount:g} GB", need / 1e9, _text("disk_need", lang, need=q.data_text(need)), lang)


def _count(_: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    """The fewest GPUs that do it, and what leads where that takes others."""
    best = _best(plan)
    if not best.num_accelerators:
        return _text("count_none", lang, where=where_text(best), cost=_money(best, lang))
    told = [_count_text("count", best, lang)]
    if (few := _fewest(plan, catalog)) is not None and few.num_accelerators < best.num_accelerators:
        told = [_count_text("count_least", few, lang), _count_text("count_chosen", best, lang)]
    return ("；" if lang == "zh" else "; ").join(told)


def _count_text(key: str, option: Option, lang: Lang) -> str:
    fields = {
        "count": q.plain(option.num_accelerators),
        "card": option.accelerator.name,
        "where": where_text(option),
        "cost": _money(option, lang),
    }
    weights = str(getattr(option.layout, "weight_format", "") or "")
    in_format = _text("in_format", lang, format=weights) if weights and option.accelerator.name and not weights.endswith("16") else ""
    return _text(key, lang, **fields) + in_format + _offload_text(option, lang)


def _offload_text(option: Option, lang: Lang) -> str:
    """That a job fits only with what the host lends, "" where it fits by the GPUs alone."""
    offload = str(getattr(option.layout, "offload", "none") or "none")
    return "" if offload == "none" else _text("offloaded", lang, what=offload_text(offload, lang))


def _fewest(plan: Plan, catalog: Catalog) -> Option | None:
    """What does it on the fewest GPUs, without help of the host where that is possible."""
    best = _best(plan)
    if plan.workload.num_gpus is not None or best.purchase == "owned":
        return None
    counts = [count for count in _COUNTS if count < best.num_accelerators]
    for help_ in ({"offload": "none", "max_nodes": "1"}, {"offload": "none"}, {}):
        found = (_other(plan, catalog, num_gpus=count, **help_) for count in counts)
        if (few := next((one for one in found if one is not None), None)) is not None:
            return few
    return None


def _vram(_: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    """GPU memory that one copy of the job needs; of fine-tuning without a method, by method."""
    workload = plan.workload
    is_open = workload.task == "finetune" and "method" in workload.assumed
    methods = ["full", "lora", "qlora"] if is_open else [str(workload.method)]
    told = []
    for method in methods:
        try:
            job = workload if method == workload.method else workload.with_changes(method=method, optimizer=None)
        except RightfitError:
            continue
        if math.isfinite(need := need_on_one_card(job, catalog=catalog)):
            way = q.method_text(method, lang) if workload.task == "finetune" else ""
            told.append(_text("vram_of" if way else "vram", lang, way=way, need=q.memory_text(need)))
    best = _best(plan)
    if workload.task == "serve" and not told:
        told += _served_vram(plan, lang)
    if "peak_memory_bytes" in best.estimate and best.num_accelerators:
        peak = q.memory_text(best.estimate["peak_memory_bytes"].mid)
        told.append(
            _text("vram_planned", lang, count=q.plain(best.num_accelerators), card=best.accelerator.name, peak=peak)
            + _offload_text(best, lang)
        )
    return ("；" if lang == "zh" else "; ").join(told) or _text("unknown", lang)


def _buying(_: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    """What the servers of the plan cost to buy, compared with renting them."""
    from rightfit.explain.reasons import renderer
    from rightfit.search.ownership import own_section

    section = own_section(plan, catalog)
    if section is None:
        return ""
    render = renderer(lang, currency=_currency.get())
    return ("" if lang == "zh" else " ").join(render(reason) for reason in section.reasons[:2])


def _hourly(_: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    """What costs least per hour of all that does it."""
    least = min(_all(plan, catalog), key=lambda option: (option.cost.hourly_usd, _total(option)))
    time = least.estimate.get("total_time_s")
    return _text(
        "hourly",
        lang,
        where=where_text(least),
        hourly=_usd(least.cost.hourly_usd),
        count=q.plain(least.num_accelerators),
        card=least.accelerator.name or "CPU",
        time=("，" if lang == "zh" else ", ") + q.duration_text(time.mid, lang) if time else "",
        cost=_money(least, lang) + _offload_text(least, lang),
    )


#: Pricing models that commit to a year.
_OF_A_YEAR = ("reserved-1y", "savings-plan-1y", "subscription-1y")


def _commitment(_: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    """Whether what leads with a commitment of a year costs less than what leads on demand."""
    bound = _other(plan, catalog, purchase=_OF_A_YEAR)
    free = _other(plan, catalog, purchase=("on-demand",))
    if bound is None or free is None:
        return _text("commitment_none", lang)
    share = 1.0 - _total(bound) / _total(free)
    fields = {"where": where_text(bound), "purchase": q.purchase_text(bound.purchase, lang), "cost": _money(bound, lang)}
    return _text("commitment" if share > 0.0 else "commitment_not", lang, **fields, share=q.percent_text(share), other=_money(free, lang))


def _api(_: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    """The same tokens at an API; where a place is named also at those that do not say where they
    compute."""
    from rightfit.planner.plan import plan as plan_again

    found, is_bound = _api_of(plan), False
    if not found:
        wish = plan.workload.with_changes(country=(), residency=(), region=(), cloud=())
        found, is_bound = _api_of(plan_again(wish, catalog=catalog, top=1)), True
    if not found:
        return _text("api_none", lang)
    share, month = float(found["api_usd"]), plan.workload.task == "serve"
    money = q.money_text(share, _currency.get())
    api = (f"每月 {money}" if lang == "zh" else f"{money} per month") if month else money
    key = "api_cheaper" if share < _total(_best(plan)) else "api_dearer"
    said = _text(key, lang, api=api, own=_money(_best(plan), lang), seller=str(found["price"]["provider"]))
    return said + (_text("api_anywhere", lang) if is_bound else "")


def _api_of(plan: Plan) -> Mapping[str, Any]:
    section = next((one for one in plan.sections if one.name == "api"), None)
    return section.content if section is not None and section.content.get("price") else {}


def _room(question: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    return room_text(question.amount, plan, catalog, lang)


def _served_vram(plan: Plan, lang: Lang) -> list[str]:
    """What a service needs at least: its weights, which leave a quarter to the cache; the rest of
    the GPU goes to the cache of more requests."""
    from rightfit.explain.fit_claims import ROOMY, weights_bytes

    told = str(plan.workload.quantization or "")
    try:
        weights = weights_bytes({"model": plan.workload.model, "quantization": told})
    except RightfitError:
        return []
    if not math.isfinite(weights):
        return []
    return [_text("vram_served", lang, format=told or "16 bit", weights=q.memory_text(weights), least=q.memory_text(weights / ROOMY))]


def _time(_: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    """How long it takes on what leads, and on one GPU where that takes several."""
    best = _best(plan)
    told = [_time_text(best, lang)]
    if plan.workload.gpu and best.num_accelerators > 1 and plan.workload.num_gpus is None:
        one = _other(plan, catalog, num_gpus=1)
        told = [*([_time_text(one, lang)] if one is not None else []), *told]
    told = [one for one in told if one]
    return ("；" if lang == "zh" else "; ").join(told) or _text("unknown", lang)


def _time_text(option: Option, lang: Lang) -> str:
    time = option.estimate.get("total_time_s")
    if not time:
        return ""
    cards = (
        _text("time_cards", lang, count=q.plain(option.num_accelerators), card=option.accelerator.name)
        if option.num_accelerators
        else "CPU "
    )
    return _text("time", lang, time=q.duration_text(time.mid, lang), cards=cards, where=where_text(option), cost=_money(option, lang))


def _cost(_: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    return way_text(_best(plan), lang) + _offload_text(_best(plan), lang)


def _which(_: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    return _text("which", lang, where=where_text(_best(plan)), cost=_money(_best(plan), lang))


def _series(question: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    """Whether the server of the plan is of the series of Alibaba Cloud that is asked about."""
    best = _best(plan)
    letter = re.sub(r"[^crgmu]", "", question.words.casefold())[:1]
    is_one = best.provider == "alicloud" and re.match(rf"ecs\.{letter}\d", best.instance_type) is not None
    key = "series" if is_one else "series_gpu" if best.num_accelerators else "series_not"
    return _text(key, lang, series=letter, where=where_text(best), cost=_money(best, lang))


#: One read of a disk, by which IOPS are counted [bytes].
_READ_BYTES = 16 * 1024


def _iops(question: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    """Reads a second that the job needs, then where its data lie."""
    needed = float(_best(plan).data_path.get("needed_bytes_per_s", math.nan))
    if not math.isfinite(needed):
        return _text("unknown", lang)
    head = _text("iops", lang, count=q.plain(max(1, math.ceil(needed / _READ_BYTES))), rate=f"{q.data_text(needed)}/s")
    return head + _data(question, plan, catalog, lang)


def _interrupted(_: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    best = _best(plan)
    risk = best.facts.get("risk")
    if best.purchase != "spot" or not risk:
        return _text("interrupted_not", lang, purchase=q.purchase_text(best.purchase, lang))
    low, high = (q.percent_text(float(best.facts[name])) for name in ("spot_low", "spot_high"))
    interval = q.duration_text(_interval(best), lang)
    return _text(
        "interrupted", lang, low=low, high=high, chance=q.percent_text(-math.expm1(-float(risk["interruptions"]))), interval=interval
    )


def _interval(option: Option) -> float:
    """How often to save [s]."""
    saved = option.data_path.get("checkpoint") or {}
    return min(float(saved.get("interval_s", math.inf)), float((option.facts.get("risk") or {}).get("interval_s") or math.inf))


def _checkpoint(_: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    saved = _best(plan).data_path.get("checkpoint")
    if not saved:
        return _text("unknown", lang)
    size, save = q.data_text(float(saved["bytes"])), q.duration_text(float(saved["save_s"]), lang)
    return _text("checkpoint", lang, interval=q.duration_text(_interval(_best(plan)), lang), size=size, save=save)


def _saving(_: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    best = _best(plan)
    way = "spot" if best.purchase == "on-demand" else "on-demand"
    other = (best.facts.get("price") or {}).get("otherwise") if way == "on-demand" else None
    if not other:
        return _text("saving_none", lang)
    share = 1.0 - _total(best) / float(other["total_usd"])
    purchase = q.purchase_text(other["purchase"], lang)
    return _text(
        "saving",
        lang,
        share=q.percent_text(share),
        cost=_money(best, lang),
        other=_usd(float(other["total_usd"])),
        purchase=purchase,
    )


def _worth(_: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    best = _best(plan)
    other = _other(plan, catalog, gpu=None)
    if other is None or _total(best) <= 1.001 * _total(other):
        return _text("worth_best", lang)
    ratio = _total(best) / _total(other)
    fields = {"where": where_text(best), "cards": best.accelerator.name, "cost": _money(best, lang), "ratio": f"{ratio:.3g}"}
    key = "worth_near" if ratio <= _NEAR else "worth_not"
    return _text(key, lang, other_where=where_text(other), card=other.accelerator.name or "CPU", other=_money(other, lang), **fields)


def _data(_: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    best = _best(plan)
    if not best.data_path:
        return _text("unknown", lang)
    return ("" if lang == "zh" else " ").join(data_path_lines(best.data_path, lang)[:3])


def _serverless(question: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    """Which is cheaper, the product that is named (else the cheapest) or the server."""
    section = next((section for section in plan.sections if section.name == "serverless"), None)
    if section is None:
        return _text("serverless_none", lang, cost=_money(_best(plan), lang))
    offers = section.content["offers"]
    named = [
        one for one in offers if re.search(rf"(?<![a-z]){re.escape(one['product'].split()[0])}(?![a-z])", question.words, re.IGNORECASE)
    ]
    priced = [one for one in named or offers if one["monthly_usd"] is not None]
    unpriced = _text("serverless_unpriced", lang, product=named[0]["product"]) if named and not priced else ""
    best = min(priced or [one for one in offers if one["monthly_usd"] is not None], key=lambda one: float(one["monthly_usd"]))
    key = "serverless_cheaper" if best["monthly_usd"] < _total(_best(plan)) else "serverless_dearer"
    fields = {"product": f"{q.provider_text(best['provider'], lang)} {best['product']}", "monthly": _usd(float(best["monthly_usd"]))}
    return unpriced + _text(key, lang, cost=_money(_best(plan), lang), accelerator=best["accelerator"], **fields)


def _sellers(_: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    """Which clouds rent the GPU of the plan, the least price on demand of each."""
    from rightfit.explain.market_questions import clouds_of

    best = _best(plan)
    cards = tuple(dict.fromkeys(card for name in plan.workload.gpu for card in facts.match_accelerators(name))) or (best.accelerator.name,)
    if not best.num_accelerators:
        return _text("unknown", lang)
    found = [_text("seller", lang, cloud=q.provider_text(cloud, lang), price=_usd(price)) for cloud, price in clouds_of(cards, catalog)]
    return ("、" if lang == "zh" else ", ").join(found[:_MANY_SELLERS]) or _text("unknown", lang)


def _then(_: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    """What serving the trained model costs beside training it, and both."""
    from rightfit.workload.model import Workload

    wishes = {"model": str(plan.workload.model), "task": "serve", "rate": "1/s"}
    served = best_of(Workload(**wishes), catalog)
    if served is None:
        return _text("then_none", lang)
    fields = {"cost": _money(_best(plan), lang), "where": where_text(served), "monthly": _money(served, lang)}
    return _text("then", lang, total=_usd(_total(_best(plan)) + _total(served)), command=command_line(wishes), **fields)


def _chart(_: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    return "\n".join(decision_lines(plan, catalog, lang))


def _scaling(_: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    replicas = getattr(_best(plan).layout, "replicas", 0)
    return _text("scaling", lang, replicas=replicas, cost=_money(_best(plan), lang)) if replicas else ""


# ---- Two ways between which a wish asks to choose: each planned, a row each, the choice.


@dataclass(frozen=True, slots=True)
class Asked:
    """A sentence settled: the wish to plan (with the cheaper of two ways that it asks about), the
    questions beside it, and what is told already, in each language."""

    wish: str
    questions: tuple[Question, ...] = ()
    told: Mapping[Lang, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    is_able: bool = False
    #: Options that take the way that is told to be better, where its sentence names all of them.
    chosen: Mapping[str, str] = dataclasses.field(default_factory=dict)
    #: How often the work is done that is planned once, and as what (a key of the texts).
    repeated: tuple[str, float] = ("", 1.0)
    #: Whether hardware is to be bought, so that buying is compared with renting.
    is_purchase: bool = False
    #: GPU memory that ran out in its story.
    short: Shortage | None = None

    @property
    def _asks_room(self) -> bool:
        """Whether it is asked of so much memory, which has its own answer."""
        return any(one.key == "room" for one in self.questions)

    def lines(self, plan: Plan, catalog: Catalog, lang: Lang) -> list[str]:
        """What is said before the plan of the wish."""
        told = self.told.get(lang, ())
        left = [one for one in self.questions if not told or _table()["questions"][one.key].get("answer") != "cost"]  # rows of ways have it
        with _told_in(plan.workload.currency):
            able = able_lines(plan, lang, catalog) if self.is_able and not self.told and not self._asks_room else []
            return [
                *able,
                *repeated_lines(self.repeated, plan.best, lang),
                *told,
                *answers(left, plan, catalog, lang),
                *(answers([Question("buying", _text("buying", lang))], plan, catalog, lang) if self.is_purchase else []),
                *shortage_lines(self.short, plan, catalog, lang),
            ]


#: What a sentence assumes of work that comes again: the text of its line, and how often.
_REPEATS = {"workload.assumed_jobs": "repeated_jobs", "workload.assumed_each_day": "repeated_days"}
_DAYS = 30.0


def repeats_of(said: Understood) -> tuple[str, float]:
    """How often the work of a sentence is done: each of its jobs, or each day of a month."""
    found = next((one for one in said.assumed if one.key in _REPEATS), None)
    if found is None:
        return "", 1.0
    return _REPEATS[found.key], float(str(found.fields.get("jobs", _DAYS)).replace(",", ""))


def repeated_lines(repeated: tuple[str, float], best: Option | None, lang: Lang) -> list[str]:
    """What all of the work takes and costs, where one part of it is planned."""
    key, count = repeated
    if not key or best is None or "total_time_s" not in best.estimate:
        return []
    time = q.duration_text(float(best.estimate["total_time_s"].mid) * count, lang)
    return [_text(key, lang, count=q.plain(count), time=time, cost=_usd(_total(best) * count))]


#: Criteria of what is sold, which say nothing of what the cards can do.
_OFFERING = frozenset({"status", "cloud", "region", "country", "gpu", "purchase", "num_gpus", "seller", "software", "max_nodes", "quota"})


def able_lines(plan: Plan, lang: Lang, catalog: Catalog) -> list[str]:
    """Yes or no to "can it be done", with the time; where hardware, a deadline or a budget was
    named, without which anything can be done."""
    from rightfit.explain.sheets import OWN_REFUSED

    wish, best = plan.workload, plan.best
    if best is None:
        assumed = _assumed_limit(plan)
        if assumed is None:
            is_missing = all(one.criterion in _OFFERING for one in plan.rejected) and not _is_offered(wish, catalog)
            return [_unrented(plan, catalog, lang) or _text("able_not_offered" if is_missing else "able_no", lang)]
        limit = q.duration_text(float(assumed["limit_s"]), lang)  # it runs, slower than a limit that nobody asked for
        return [_text("able_slow", lang, limit=limit, option=assumed["option"])]
    if refused := next((reason for reason in plan.advice if reason.key in OWN_REFUSED), None):
        key = "able_card" if refused.key.startswith("card_") else "able_rented"
        return [_text(key, lang, way=way_text(best, lang), machine=refused.params.get("machine", ""))]
    chances = [chance for name in ("deadline", "budget") if (chance := best.probability.get(name)) is not None]
    if best.purchase != "owned" and not chances and not wish.gpu and wish.num_gpus is None:
        return []
    chance = min(chances, default=1.0)
    way = way_text(best, lang) + _offload_text(best, lang)
    return [_text("able_likely" if chance < _SURE else "able_yes", lang, way=way, chance=q.percent_text(chance))]


def _is_offered(wish: Workload, catalog: Catalog) -> bool:
    """Whether anybody rents a server with the cards that are named, in their number."""
    if not (cards := _cards_named(wish)) or wish.num_gpus is None:
        return False
    offers = catalog.offers(OfferFilter(gpus=cards))
    return bool((offers.servers.num_accelerators[offers.server_index] == wish.num_gpus).any())


def unrented_machine(wish: Workload, catalog: Catalog) -> str:
    """The machine of the cards that a wish names, where no cloud rents any of them; else ""."""
    cards = _cards_named(wish)
    return "" if not cards or len(catalog.offers(OfferFilter(gpus=cards))) else f"{wish.num_gpus or 1}x{cards[-1]}"


def _cards_named(wish: Workload) -> tuple[str, ...]:
    return tuple(card for name in wish.gpu for card in facts.match_accelerators(name))


def within_unsaid(
    plan: Plan, catalog: Catalog, lang: Lang, *, again: Callable[..., Plan], is_asked: bool = False, **asked: Any
) -> tuple[Plan, list[str]]:
    """Where nothing does what a sentence asks: the plan on a machine of one's own, or within a
    longer wait where only a limit that nobody stated is in the way; and what is said of that.
    `is_asked`: the sentence asks whether its GPUs do it, so that where they do not the plan goes
    on with what does."""
    if plan.best is not None:
        return _within_patience(plan, catalog, lang, again=again, **asked)
    own, told = on_unrented(plan, catalog, lang, again=again, **asked)
    assumed = _assumed_limit(plan)
    if own.best is not None or assumed is None:
        return (own, told) if own.best is not None or not is_asked else (_beyond_cards(plan, catalog, again=again, **asked), [])
    fields = {name: q.duration_text(float(assumed[name]), lang) for name in ("limit_s", "usual_s") if name in assumed}
    longer = again(plan.workload.with_changes(**{assumed["option"]: f"{float(assumed['limit_s']):g}s"}), catalog=catalog, **asked)
    if longer.best is None:
        return plan, []
    return longer, [
        _text("waited", lang, metric=_text(f"waited_{assumed['option']}", lang), option=assumed["option"], limit=fields["limit_s"])
    ]


def _within_patience(plan: Plan, catalog: Catalog, lang: Lang, *, again: Callable[..., Plan], **asked: Any) -> tuple[Plan, list[str]]:
    """A run of years that is cheapest where nobody set a deadline, as one that somebody waits
    for, where more servers do it."""
    time = plan.best.estimate.get("total_time_s") if plan.best else None
    figures = facts.coefficients("planning")
    if plan.best is None or plan.workload.deadline_s is not None or time is None or time.mid <= figures["longest_run_days"] * 86_400.0:
        return plan, []
    for days in (figures["usual_run_days"], figures["longest_run_days"]):
        sooner = again(plan.workload.with_changes(deadline=f"{days:g} days"), catalog=catalog, **asked)
        if sooner.best is not None:
            way = way_text(plan.best, lang)
            return sooner, [_text("sooner", lang, days=f"{days:g}", way=way)]
    return plan, []


def _beyond_cards(plan: Plan, catalog: Catalog, *, again: Callable[..., Plan], **asked: Any) -> Plan:
    """The plan without the GPUs that are named, and why these do not do it; the plan itself where
    no other GPU does it either."""
    from rightfit.planner.cards import plan_on_own

    wish = plan.workload
    if not (cards := _cards_named(wish)):
        return plan
    try:
        machine = f"{wish.num_gpus or 1}x{cards[-1]}"
        free = plan_on_own(wish.with_changes(gpu=(), num_gpus=None, max_nodes=None), machine, again, catalog, **asked)
    except RightfitError:
        return plan
    if free.best is None or free.best.purchase == "owned":
        return plan
    advice = tuple(_of_card(reason) for reason in free.advice if reason.key != "own_by_lighter")
    return dataclasses.replace(free, advice=advice, assumptions=tuple(one for one in free.assumptions if one.field != "have"))


def _of_card(reason: Reason) -> Reason:
    """The refusal of a machine as that of a GPU that is asked about."""
    return dataclasses.replace(reason, key=f"card_{reason.key.removeprefix('own_')}") if reason.key.startswith("own_") else reason


def _assumed_limit(plan: Plan) -> Mapping[str, Any] | None:
    """The latency that nobody stated and that keeps all servers out: what would let one pass."""
    return next((reason.params for reason in plan.advice if reason.key in ("serve_change_assumed", "serve_wait_assumed")), None)


def on_unrented(plan: Plan, catalog: Catalog, lang: Lang, *, again: Callable[..., Plan], **asked: Any) -> tuple[Plan, list[str]]:
    """The plan on a machine of one's own with the cards that a wish names, where no cloud rents
    them, or games' cards in this number for this job, and the machine does it; and what is said of
    that. `again` plans."""
    from rightfit.planner.cards import plan_on_own

    wish = plan.workload
    if plan.best is not None:
        return plan, []
    machine, key = unrented_machine(wish, catalog), "unrented_planned"
    if not machine and wish.num_gpus and (cards := _cards_named(wish)) and all(says("setup", "geforce", card) for card in cards):
        machine, key = f"{wish.num_gpus}x{cards[-1]}", "rented_not_planned"  # cards that people own
    servers, number = wish.max_nodes or 1, wish.num_gpus or 0
    if servers > 1 and number > servers and number % servers == 0 and _cards_named(wish):  # a machine of one's own is one server
        machine, key = f"{number // servers}x{_cards_named(wish)[-1]}", "unrented_one_of"
    if not machine:
        return plan, []
    try:
        own = plan_on_own(wish.with_changes(gpu=None, num_gpus=None, max_nodes=None), machine, again, catalog, **asked)
    except RightfitError:
        return plan, []
    if own.best is None or own.best.purchase != "owned":
        return plan, []
    return own, [_text(key, lang, card="/".join(wish.gpu), machine=machine, servers=servers)]


def _unrented(plan: Plan, catalog: Catalog, lang: Lang) -> str:
    """Of cards that nobody rents: whether one's own do it; "" of any other."""
    from rightfit.planner.cards import plan_on_own
    from rightfit.planner.plan import plan as plan_again

    wish = plan.workload
    machine = unrented_machine(wish, catalog)
    if not machine:
        return ""
    fields = {"card": "/".join(wish.gpu), "machine": machine}
    try:
        own = plan_on_own(wish.with_changes(gpu=None, num_gpus=None), machine, plan_again, catalog, top=1).best
    except RightfitError:
        own = None
    key = "able_unrented_own" if own is not None and own.purchase == "owned" else "able_unrented"
    return _text(key, lang, **fields)


def way_text(option: Option, lang: Lang) -> str:
    """A server with the time and the money of the job on it."""
    time = option.estimate.get("total_time_s")
    told = _text("compared_time", lang, time=q.duration_text(time.mid, lang)) if time else ""
    where = _text("own_machine", lang) if option.purchase == "owned" else where_text(option)
    return _text("way", lang, where=where, time=told, cost=_money(option, lang))


def settle(sentence: str, catalog: Catalog, given: Mapping[str, Any] | None = None) -> Asked:
    """Take a sentence apart; `given`: options beside it, which win."""
    from rightfit.explain.server_questions import with_cards
    from rightfit.workload.ask import understand
    from rightfit.workload.ask.asides import PURCHASE

    sentence = with_cards(sentence, catalog)
    asked = _settled(sentence, catalog, given)
    try:
        said = understand(asked.wish)
        return dataclasses.replace(
            asked,
            repeated=repeats_of(said),
            is_purchase=any(one.key == PURCHASE for one in said.assumed),
            short=shortage_of(said, sentence, catalog),
        )
    except RightfitError:
        return asked


def _settled(sentence: str, catalog: Catalog, given: Mapping[str, Any] | None) -> Asked:
    beside = without_questions(sentence)
    is_able = bool(re.search(_table()["ways"]["able"], sentence, re.IGNORECASE))
    chosen = {name: value for name, value in (given or {}).items() if value is not None}
    ways: Sequence[_Way | None] = (
        _servers(beside.wish, chosen, catalog)
        or _listed(beside.wish, chosen, catalog, sentence)
        or [_tried(name, wish, chosen, catalog) for name, wish in _ways(beside.wish, sentence)]
    )
    done = [way for way in ways if way is not None]
    if len(ways) < 2 or len(done) < len(ways):
        return Asked(beside.wish, beside.questions, is_able=is_able, chosen={} if "task" in chosen else _tuned_first(beside))
    has_own = any("have" in way.wishes for way in done)
    done = done if has_own else _told_alike(done, catalog)
    measure = (
        _peak
        if re.search(_table()["ways"]["memory"], sentence, re.IGNORECASE)
        else _OBJECTIVES[str(done[0].wishes.get("objective", "cost"))]
    )
    done.sort(key=lambda way: math.inf if way.option is None else measure(way.option))
    why = [way.excluded(catalog) for way in done]
    with _told_in(_currency_of(done)):
        told = {lang: _compared(done, measure, why, lang) for lang in LANGS}
    apart = re.compile(_table()["ways"]["apart"], re.IGNORECASE)
    timed = [way for way in done if way.option is not None and "total_time_s" in way.option.estimate]
    questions = beside.questions
    if apart.search(sentence) and len(timed) > 1:
        questions = tuple(one for one in questions if one.key != "time" or not apart.search(one.words))
        for lang in LANGS:
            told[lang].insert(1, _time_ratio(timed, lang))
    return Asked(done[0].wish, questions, {lang: tuple(lines) for lang, lines in told.items()}, is_able, {} if has_own else done[0].alone)


def _tuned_first(beside: Beside) -> dict[str, Any]:
    """What a sentence means by training a large model that it serves afterwards: fine-tuning, where
    nothing says that it begins from scratch."""
    from rightfit.workload.ask import FROM_SCRATCH, understand

    if "then" not in {one.key for one in beside.questions}:
        return {}
    try:
        found = understand(beside.wish)
    except RightfitError:
        return {}
    return {"task": "finetune"} if any(one.key == FROM_SCRATCH for one in found.assumed) else {}


def _currency_of(ways: Sequence[_Way]) -> str:
    from rightfit.workload.model import Workload

    try:
        return Workload(**{name: value for name, value in ways[0].wishes.items() if name != "have"}).currency
    except RightfitError:
        return "usd"


def _time_ratio(ways: Sequence[_Way], lang: Lang) -> str:
    """How many times as long one way takes as another, the quickest first."""
    timed = sorted((_duration(way.option), way.name) for way in ways if way.option is not None)
    (least, quick), (most, slow) = timed[0], timed[-1]
    times = {"quick_time": q.duration_text(least, lang), "slow_time": q.duration_text(most, lang)}
    return _text("time_ratio", lang, quick=quick, slow=slow, ratio=f"{most / least:.2g}", **times)


def _told_alike(ways: list[_Way], catalog: Catalog) -> list[_Way]:
    """Ways under the same sellers and one pricing model: where one is only at sellers that plans
    leave out by themselves, all are planned at every seller; where one leads on spot and another,
    as cheap jobs do, on demand, all on demand, else on spot. Otherwise these are compared."""
    tiers = {way.option.facts["seller_tier"] > DEFAULT_TIER for way in ways if way.option is not None and way.option.purchase != "owned"}
    if len(tiers) > 1 and not any(way.wishes.get(name) for way in ways for name in ("sellers", "cloud")):
        ways = _under(ways, catalog, sellers="all") or ways
    paid = {way.option.purchase for way in ways if way.option is not None}
    if paid != {"on-demand", "spot"} or any(way.wishes.get("purchase") for way in ways):
        return ways
    return _under(ways, catalog, purchase="on-demand") or _under(ways, catalog, purchase="spot") or ways


def _under(ways: list[_Way], catalog: Catalog, **told: str) -> list[_Way]:
    """All ways with an option told; [] where one that could be done cannot be then."""
    alike = [way.under(told, catalog) for way in ways]
    return alike if all(one.option is not None for one, way in zip(alike, ways, strict=True) if way.option is not None) else []


@dataclass(frozen=True, slots=True)
class _Way:
    """One of the ways between which a sentence asks: its name there, the sentence and the options
    that take it, on which server (empty: any), what leads its plan (None: nothing), and what
    options take it beside a sentence that names the other ways too."""

    name: str
    wish: str
    wishes: Mapping[str, Any]
    option: Option | None
    server: str = ""
    alone: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def command(self) -> str:
        return command_line(self.wishes, server=self.server)

    def under(self, told: Mapping[str, str], catalog: Catalog) -> _Way:
        """The same with an option told."""
        wishes = {**self.wishes, **told}
        found = None if self.option is None else _led(wishes, catalog, self.server)
        return dataclasses.replace(self, wishes=wishes, option=found, alone={**self.alone, **told})

    def excluded(self, catalog: Catalog) -> Mapping[Lang, str]:
        """What excludes a way that cannot be done, but for the card or cloud that it is about."""
        from rightfit.explain.plan_words import either_text, smallest_sets

        if self.option is not None:
            return {}
        if "have" in self.wishes:
            return {lang: _text("own_not", lang) for lang in LANGS}
        try:
            blame = _plan_of(self.wishes, self.server, catalog).blame
        except RightfitError as error:
            return {lang: error.text(lang) for lang in LANGS}
        told = smallest_sets([tuple(name for name in group if name not in _LISTED) or group for group in blame])
        return {lang: either_text(told, lang) for lang in LANGS}


def _plan_of(wishes: Mapping[str, Any], server: str, catalog: Catalog) -> Plan:
    from rightfit.planner.given import estimate_one
    from rightfit.planner.plan import plan as plan_again
    from rightfit.workload.model import Workload

    if server:
        return estimate_one(Workload(**wishes), on=server, catalog=catalog)
    return plan_again(Workload(**wishes), catalog=catalog, top=1)


def _peak(option: Option) -> float:
    """Memory that it takes of each card [bytes]."""
    return float(option.estimate["peak_memory_bytes"].mid) if "peak_memory_bytes" in option.estimate else math.inf


def _duration(option: Option) -> float:
    """How long it takes [s]; what a service costs, which ends at no time."""
    time = option.estimate.get("total_time_s")
    return float(time.mid) if time else _total(option)


def _both(option: Option) -> float:
    """Cost and time in one, as plans with this objective are ranked."""
    import numpy as np

    from rightfit.search.rank import scores

    return float(scores("balanced", total_usd=np.array([_total(option)]), total_s=np.array([_duration(option)]))[0])


_OBJECTIVES: Mapping[str, Callable[[Any], float]] = {"cost": _total, "time": _duration, "balanced": _both}


def _ways(wish: str, sentence: str) -> list[tuple[str, str]]:
    """The ways between which a sentence asks to choose, each with the wish that takes it: they set
    one option, and no list."""
    from rightfit.workload.ask import understand

    table = _table()["ways"]
    if not re.search(table["choose"], sentence, re.IGNORECASE):
        return _times(wish)
    word = rf"[A-Za-z][A-Za-z0-9+-]*(?:\.[A-Za-z0-9]+)*|{'|'.join(table['words'])}"
    for found in re.finditer(rf"(?:{word})(?:\s*(?:{table['joins']})\s*(?:用|选)?\s*(?:{word}))+", wish, re.IGNORECASE):
        names = [one for one in re.findall(word, re.sub(r"\b(?:or|vs|versus)\b", "、", found[0], flags=re.IGNORECASE)) if one]
        ways = [
            (name, wish[: found.start()] + name + re.sub("^ *(?:哪个|哪种|which)", " ", wish[found.end() :]))
            for name in dict.fromkeys(names)
        ]
        try:
            read = [understand(way) for _, way in ways]
        except RightfitError:
            continue
        wishes = [one.wishes for one in read]
        told = [
            {reading.option for reading in one.readings if _says(reading.words, name)} for (name, _), one in zip(ways, read, strict=True)
        ]
        if any(one in wishes[:at] for at, one in enumerate(wishes)):  # two names of one way are no choice
            continue
        changed = {key for one in wishes for key in one if any(other.get(key) != one[key] for other in wishes)}
        is_one = len(ways) > 1 and len(changed - {"objective"}) == 1 and not changed & _LISTED
        if is_one and all(changed & options for options in told) and not any(one.weighty for one in read):
            return ways
    return _times(wish)


def _says(words: str, name: str) -> bool:
    """Whether a name stands in the words that an option was read from."""
    return re.search(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", words, re.IGNORECASE) is not None


def _servers(wish: str, given: Mapping[str, Any], catalog: Catalog) -> list[_Way]:
    """Servers between which a wish asks to choose, each tried with the rest of it; [] where it
    names fewer than two."""
    from rightfit.market.server_names import exact_servers
    from rightfit.workload.ask import understand

    words = [
        word for word in re.findall(r"[A-Za-z][\w.-]*\w", wish, re.ASCII) if re.search(r"\d", word) and not facts.match_accelerators(word)
    ]
    named = {word: rows for word in words if (rows := exact_servers(catalog, word))}
    if len(named) < 2:
        return []
    rest, table = wish, catalog.servers()
    joins = _table()["ways"]["joins"]
    for word in named:
        rest = re.sub(rf"(?:\s*(?:{joins})\s*)?{re.escape(word)}(?:\s*[(（][^()（）]*[)）])?", " ", rest, flags=re.IGNORECASE)
    rest = re.sub("^ *(?:哪个|哪台|哪种|which)", " ", rest)
    servers = {word: f"{table.provider[rows[0]]}/{table.instance_type[rows[0]]}" for word, rows in named.items()}
    try:
        wishes = {**understand(rest).settled(), **given}
    except RightfitError:
        return []
    found = [_Way(word, rest, wishes, _led(wishes, catalog, server), server) for word, server in servers.items()]
    return found if any(way.option is not None for way in found) else []


def _listed(wish: str, given: Mapping[str, Any], catalog: Catalog, sentence: str) -> list[_Way]:
    """Cards or clouds between which a wish asks to choose, each tried alone with the rest of it;
    [] where it names fewer than two."""
    from rightfit.workload.ask import understand

    try:
        said = understand(wish)
        wishes = {**(said.wishes if said.own_machine and not said.weighty else said.settled()), **given}
    except RightfitError:
        return []
    if "model" in wishes and "gpu" not in given and (cards := _cards_told(said, wishes, sentence)):
        found = [_card_way(name, wish, {**wishes, **told}, told, catalog) for name, told in cards.items()]
        return [*_own_way(said.own_machine, wish, wishes, catalog), *found] if any(way.option is not None for way in found) else []
    if others := [str(one.fields["other"]) for one in said.assumed if one.key == "workload.assumed_alternative"]:
        return _models_told([str(wishes.get("model")), *others], wish, wishes, given, catalog)
    if said.own_machine or not re.search(_table()["ways"]["choose"], sentence, re.IGNORECASE):
        return []
    found = []
    names = dict.fromkeys(str(wishes.get("cloud", "")).split(","))
    if "cloud" in given or len(names) < 2 or "model" not in wishes:
        return []
    spoken: Lang = "zh" if re.search(r"[\u4e00-\u9fff]", wish) else "en"
    for name in names:
        found.append(
            _Way(q.provider_text(name, spoken), wish, alone := {**wishes, "cloud": name}, _led(alone, catalog), alone={"cloud": name})
        )
    return found if any(way.option is not None for way in found) else []


def _models_told(names: Sequence[str], wish: str, wishes: Mapping[str, Any], given: Mapping[str, Any], catalog: Catalog) -> list[_Way]:
    """Models between which a wish asks to choose, each with all of the rest; [] where an option
    names the model, or none can be planned."""
    if "model" in given or "have" in wishes:
        return []
    found = [_Way(name, wish, one := {**wishes, "model": name}, _led(one, catalog), alone={"model": name}) for name in names]
    return found if any(way.option is not None for way in found) else []


def _card_way(name: str, wish: str, alone: Mapping[str, Any], told: Mapping[str, str], catalog: Catalog) -> _Way:
    """What leads with one of the cards; within a longer wait where only a limit that nobody stated
    is in the way."""
    way = _Way(name, wish, alone, _led(alone, catalog), alone=told)
    if way.option is not None:
        return way
    try:
        assumed = _assumed_limit(_plan_of(alone, "", catalog))
    except RightfitError:
        return way
    if assumed is None:
        return way
    longer = {assumed["option"]: f"{float(assumed['limit_s']):g}s"}
    option = _led({**alone, **longer}, catalog)
    return way if option is None else dataclasses.replace(way, wishes={**alone, **longer}, option=option, alone={**told, **longer})


def _cards_told(said: Understood, wishes: Mapping[str, Any], sentence: str) -> dict[str, dict[str, str]]:
    """Cards between which a sentence asks to choose, by their names there, and the options that
    take each: different ones, or different numbers of one; beside a machine of one's own also one
    alone. {} where there is no choice."""
    from rightfit.workload.ask.posts import is_post

    named = dict.fromkeys(name for name in str(wishes.get("gpu", "")).split(",") if facts.match_accelerators(name))
    counted = [(name, count) for name, count in dict.fromkeys(said.cards) if said.own_machine or name in named]
    counted += [(name, 0) for name in named if name not in dict(counted)]
    several = {name for name, count in counted if count}
    chosen = [(name, count) for name, count in counted if count or name not in several]
    is_counted = len({count for _, count in chosen}) > 1 or said.own_machine
    if len(chosen) < (1 if said.own_machine else 2) or not (
        said.own_machine or is_counted or is_post(sentence) or re.search(_table()["ways"]["choose"], sentence, re.IGNORECASE)
    ):
        return {}
    clouds = dict(said.card_clouds)
    return {
        f"{count} x {name}" if count and is_counted else name: {
            "gpu": name,
            **({"num_gpus": str(count)} if count and is_counted else {}),
            **({"cloud": clouds[name]} if name in clouds else {}),
        }
        for name, count in chosen
    }


def _own_way(have: str, wish: str, wishes: Mapping[str, Any], catalog: Catalog) -> list[_Way]:
    """The machine of one's own as one of the ways; [] without one."""
    from rightfit.planner.cards import plan_on_own
    from rightfit.planner.plan import plan as plan_again
    from rightfit.workload.model import Workload

    if not have:
        return []
    try:
        best = plan_on_own(Workload(**wishes), have, plan_again, catalog, top=1).best
    except RightfitError:
        best = None
    return [_Way(have, wish, {**wishes, "have": have}, best if best is not None and best.purchase == "owned" else None)]


def _led(wishes: Mapping[str, Any], catalog: Catalog, server: str = "") -> Option | None:
    """What leads the plan of these options; None where nothing does."""
    if not server:
        return best_for(wishes, catalog)
    try:
        return _plan_of(wishes, server, catalog).best
    except RightfitError:
        return None


#: Options of which a plan compares several by itself.
_LISTED = frozenset({"avoid", "gpu", "cloud", "region", "country", "purchase", "model", "data"})


def _times(wish: str) -> list[tuple[str, str]]:
    """Two deadlines: "一天内训练完,和一周内训练完差多少钱"."""
    within = _table()["ways"]["within"]
    pattern = rf"{within}\s*(?:之?内)?(?P<rest>[^,，]*?)\s*[,，]?\s*(?:{_table()['ways']['joins']})\s*{within.replace('?P<one>', '?P<two>').replace('?P<unit>', '?P<other>')}\s*(?:之?内)?(?:(?P=rest))?\s*(?:相?差多少钱?|差价多少|哪个便宜|(?:差|贵|便宜)多少钱?)?"
    found = re.search(pattern, wish, re.IGNORECASE)
    if found is None:
        return []
    times = (found["one"] + found["unit"], found["two"] + found["other"])
    return [(time, f"{wish[: found.start()]} {time}内{found['rest']} {wish[found.end() :]}") for time in times]


def _tried(name: str, wish: str, given: Mapping[str, Any], catalog: Catalog) -> _Way | None:
    """A way and what leads its plan; None where it is no whole wish."""
    from rightfit.workload.ask import understand
    from rightfit.workload.model import Workload

    try:
        wishes = {**understand(wish).settled(), **given}
        return _Way(name, wish, wishes, best_of(Workload(**wishes), catalog))
    except RightfitError:
        return None


def _compared(ways: Sequence[_Way], measure: Callable[[Option], float], why: Sequence[Mapping[Lang, str]], lang: Lang) -> list[str]:
    """The choice, then a row for each way, the one with least cost or memory first; `why`: what
    excludes each that cannot be done."""
    names = (" 还是 " if lang == "zh" else " or ").join(way.name for way in ways)
    costs = [measure(way.option) for way in ways if way.option is not None]
    by_measure: Mapping[Callable[[Option], float], str] = {
        _peak: "compared_memory_choice",
        _duration: "compared_time_choice",
        _both: "compared_both_choice",
    }
    key = by_measure.get(measure, "compared_choice" if len(costs) == 2 else "compared_first_choice")
    better = ways[0].name
    if len(costs) < 2:
        choice = _text("compared_only" if costs else "compared_none", lang, better=better)
    elif costs[0] >= 0.995 * costs[1]:
        choice = _text("compared_same", lang, better=better)
    else:
        saved = _usd(costs[1] - costs[0]) if measure is _total else ""
        choice = _text(key, lang, better=better, ratio=q.percent_text(costs[0] / costs[1]), saved=saved)
    return [
        _text("compared_head", lang, names=names, choice=choice),
        *(_way_row(way, lang, why=told.get(lang, "")) for way, told in zip(ways, why, strict=True)),
    ]


def _way_row(way: _Way, lang: Lang, *, why: str) -> str:
    option, command = way.option, f"`{way.command}`"
    if option is None:
        return _text("compared_row_none", lang, name=way.name, why=why, command=command)
    time, peak = (option.estimate.get(key) for key in ("total_time_s", "peak_memory_bytes"))
    count = option.num_accelerators
    fields = {
        "cards": _text("compared_cards", lang, count=q.plain(count), card=option.accelerator.name) if count else "",
        "time": _text("compared_time", lang, time=q.duration_text(time.mid, lang)) if time else "",
        "memory": _text("compared_memory", lang, memory=q.memory_text(peak.mid)) if peak and option.num_accelerators else "",
    }
    is_own = option.purchase == "owned"
    where = (
        _text("own_machine", lang)
        if is_own
        else _text("compared_where", lang, where=where_text(option), purchase=q.purchase_text(option.purchase, lang))
    )
    return _text("compared_row", lang, name=way.name, where=where, cost=_money(option, lang), command=command, **fields)


def other_card_lines(plan: Plan, catalog: Catalog, lang: Lang) -> list[str]:
    """A line for each GPU and cloud that was asked for by name and leads no row that is shown: its
    best way, by other sellers where the usual ones have none, or that there is none."""
    if plan.best is None or plan.best.purchase == "owned":
        return []
    wish, shown = plan.workload, plan.options[:_SHOWN]
    cards = [name for name in wish.gpu if facts.match_accelerators(name)]
    lines = []
    if 2 <= len(cards) <= _MOST_CARDS:
        led = {option.accelerator.name for option in shown}
        lines += [_named_line(plan, catalog, lang, "gpu", name) for name in cards if not led & set(facts.match_accelerators(name))]
    clouds = [find_provider(name) or name for name in wish.cloud]
    if 2 <= len(clouds) <= _MOST_CARDS:
        led = {option.provider for option in shown}
        lines += [_named_line(plan, catalog, lang, "cloud", name) for name in clouds if name not in led]
    return lines


def _named_line(plan: Plan, catalog: Catalog, lang: Lang, asked: str, name: str) -> str:
    """The best way with one of the GPUs or clouds that were named."""
    wish = plan.workload
    option = _other(plan, catalog, **{asked: name}) or (None if wish.sellers else _other(plan, catalog, **{asked: name, "sellers": "all"}))
    if option is None:
        return _text("card_none" if asked == "gpu" else "cloud_none", lang, card=name)
    is_usual = bool(wish.sellers) or asked == "cloud" or tier_of(option.provider, option.purchase) <= DEFAULT_TIER
    return _text("card_row" if is_usual else "card_row_sellers", lang, card=name, way=way_text(option, lang))


_Answer = Callable[[Question, "Plan", "Catalog", Lang], str]
_ANSWERS: Mapping[str, _Answer] = {
    "gpu": _gpu,
    "link": _link,
    "latency": _latency,
    "network": _network,
    "cores": _cores,
    "memory": _memory,
    "disk": _disk,
    "interrupted": _interrupted,
    "checkpoint": _checkpoint,
    "saving": _saving,
    "worth": _worth,
    "data": _data,
    "serverless": _serverless,
    "sellers": _sellers,
    "scaling": _scaling,
    "chart": _chart,
    "which": _which,
    "series": _series,
    "iops": _iops,
    "count": _count,
    "then": _then,
    "vram": _vram,
    "room": _room,
    "hourly": _hourly,
    "buying": _buying,
    "commitment": _commitment,
    "api": _api,
    "time": _time,
    "cost": _cost,
}
