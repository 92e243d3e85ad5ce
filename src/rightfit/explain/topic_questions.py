"""Questions about hardware, data and ways to train rather than about one job ("does more data need
more GPU memory", "LoRA 比全参快多少", "ImageNet 有多大"), each answered in a few sentences with
figures of our tables and plans.

What a question is about is data (data/topic_questions.toml): classes of words, and for each topic
the classes that must all stand in it; the topic with the most of them answers.
"""

from __future__ import annotations

import functools
import math
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.explain import quantities as q
from rightfit.explain.capacity import capacity_fields, first_token_fields
from rightfit.explain.claim_words import NAMED_SERVER, cards_of
from rightfit.explain.glossary import with_figures
from rightfit.explain.messages import topic
from rightfit.explain.operation_figures import exchanged_fields, file_fields, xid_fields
from rightfit.explain.size_questions import FIELDS as SIZES
from rightfit.explain.yes_or_no import is_question
from rightfit.facts.expressions import Expression, expression
from rightfit.messages import LANGS, Lang

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.market.verdicts import CheckResult

_Fields = dict[Lang, dict[str, str]]


#: Tables of topics: those of hardware and data, and what goes wrong while a server is used.
_TABLES = ("operation_questions", "topic_questions")


@functools.cache
def _class(name: str) -> Expression:
    return expression(next(words[name] for table in _TABLES if name in (words := topic(table)["classes"])))


@functools.cache
def all_topics() -> tuple[Mapping[str, Any], ...]:
    """The topics of all tables."""
    return tuple(one for table in _TABLES for one in topic(table)["topics"])


def topic_question(sentence: str, catalog: Catalog, *, is_said: bool = False) -> CheckResult | None:
    """The answer to a question about one of the topics, or where it `is_said` the verdict on a
    statement; None for any other sentence."""
    from rightfit.market.verdicts import CheckResult

    topics: Sequence[Mapping[str, Any]] = all_topics()
    if is_said:
        topics = [one for one in topics if "answer" in one and not one.get("first")]
    elif not is_question(sentence):  # what went wrong is told rather than asked
        topics = [one for one in topics if one.get("reported")]
    if not (fitting := [one for one in topics if all(_class(name).search(sentence) for name in one["all"])]):
        return None
    named = _named(sentence)
    fitting = [one for one in fitting if _is_about(one, sentence, named)]
    for found in sorted(fitting, key=lambda one: (not one.get("first"), -len(one["all"]))):
        known = [_FIELDS[name](sentence, named, catalog) for name in str(found.get("figures", "")).split()]
        if None in known:
            continue
        fields = {lang: {name: text for one in known if one for name, text in one[lang].items()} for lang in LANGS}
        told = {lang: with_figures(found[lang]).format(**fields[lang]) + _asked(found, fields[lang]) for lang in LANGS}
        answer = next((one["en"]["answer"] for one in known if one and "answer" in one["en"]), str(found.get("answer", "")))
        claim = {"yes": "right", "no": "wrong", "depends": "unknown"}.get(answer)
        return CheckResult(sentence, "market", True, claim, {"topic": found["id"]}, (), told["en"], told["zh"])
    return None


def _asked(found: Mapping[str, Any], fields: Mapping[str, str]) -> str:
    named = {name: shlex.quote(text) if name == "model" else text for name, text in fields.items()}
    return f" `{found['ask'].format(**named)}`" if "ask" in found else ""


def _is_about(one: Mapping[str, Any], sentence: str, named: Mapping[str, Any]) -> bool:
    """Whether no class that a topic excludes stands in a sentence; a job that is named is asked
    about itself, unless the topic takes it."""
    if any(_class(name).search(sentence) for name in one.get("none", ())):
        return False
    if set(one.get("without", ())) & set(named):
        return False
    takes = set(one.get("takes", ()))
    return not {"model", "gpu", "server"} & set(named) - takes and set(one.get("needs", ())) <= set(named)


def _named(sentence: str) -> dict[str, Any]:
    from rightfit.explain.beside.questions import without_questions
    from rightfit.workload.ask import understand

    server = {"server": found[0]} if (found := NAMED_SERVER.search(sentence)) else {}
    try:
        return {**understand(without_questions(sentence).wish).wishes, **server}
    except RightfitError:
        return server


# ---- Figures of topics.


def _methods(_: str, named: Mapping[str, Any], catalog: Catalog) -> _Fields | None:
    """How long one server takes for the same data by each method, and what each needs of memory."""
    from rightfit.explain.fit_claims import least_bytes
    from rightfit.planner.given import estimate_one
    from rightfit.workload.model import Workload

    rule = topic("topic_questions")["methods"]
    model = str(named.get("model") or rule["model"])
    times, memory = dict[str, float](), dict[str, float]()
    for method in ("full", "lora", "qlora"):
        job = {"model": model, "task": "finetune", "method": method, "data": str(named.get("data") or rule["data"])}
        try:
            found = estimate_one(Workload(**job), on=rule["server"], catalog=catalog)
            memory[method] = least_bytes(job, catalog)
        except RightfitError:
            return None
        if found.best is None:
            return None
        times[method] = found.best.estimate["total_time_s"].mid
    return {
        lang: {
            "model": model,
            "data": str(named.get("data") or rule["data"]),
            "server": rule["server"],
            **{f"{method}_time": q.duration_text(time, lang) for method, time in times.items()},
            **{f"{method}_memory": q.memory_text(need) for method, need in memory.items()},
            "lora_ratio": f"{times['lora'] / times['full']:.2g}",
            "qlora_ratio": f"{times['qlora'] / times['full']:.2g}",
        }
        for lang in LANGS
    }


def _dataset(sentence: str, named: Mapping[str, Any], _: Catalog) -> _Fields | None:
    """How large a public data set is that a question names."""
    record = _dataset_of(sentence, named)
    if record is None or not record.size_bytes or not record.samples:
        return None
    return {
        lang: {
            "name": record.name,
            "size": q.data_text(record.size_bytes),
            "samples": f"{record.samples:,}",
            "disk": q.data_text(2.0 * record.size_bytes),
        }
        for lang in LANGS
    }


def _dataset_of(sentence: str, named: Mapping[str, Any]) -> Any:
    words = [str(named.get("data", "")), *re.findall(r"[A-Za-z][\w./-]*\d*(?: \d+[Kk]?)?", sentence, re.ASCII)]
    for word in filter(None, words):
        try:
            return facts.dataset(word)
        except RightfitError:
            continue
    return None


def _host_memory(_: str, named: Mapping[str, Any], catalog: Catalog) -> _Fields | None:
    """Host memory and vCPUs of the servers that have so many of a card."""
    spoken = str(named["gpu"]).split(",")[0]
    names, count = set(facts.match_accelerators(spoken)), int(named.get("num_gpus") or 1)
    servers = catalog.servers()
    rows = [
        row
        for row, name in enumerate(servers.accelerator_name)
        if name in names and servers.num_accelerators[row] == count and not servers.not_recommended[row] and servers.memory_bytes[row] > 0
    ]
    if not rows:
        return None
    memory = np.percentile([servers.memory_bytes[row] for row in rows], (10, 50, 90))
    vcpus = np.percentile([servers.vcpus[row] for row in rows], (10, 50, 90))
    total = count * max(float(facts.accelerators()[name].memory_bytes) for name in {servers.accelerator_name[row] for row in rows})
    shown = {"card": spoken, "count": f"{count}", "servers": f"{len(rows)}", "total": q.memory_text(total)}
    shown |= {f"memory{at}": q.memory_text(float(one)) for at, one in enumerate(memory)}
    shown |= {f"vcpus{at}": f"{one:.0f}" for at, one in enumerate(vcpus)}
    return dict.fromkeys(LANGS, shown)


#: What a run that goes on saves for a parameter: 2 bytes of 16 bits, the fp32 copy, two moments.
_SAVED_BYTES = 2.0 + 4.0 + 8.0


def _checkpoint(_: str, named: Mapping[str, Any], __: Catalog) -> _Fields | None:
    """Bytes of a model's weights in 16 bits, and of all that a full run saves."""
    from rightfit.explain.fit_claims import counted_weights

    if (weights := counted_weights({"model": named["model"], "quantization": "bf16"})) is None:
        return None
    whole = _SAVED_BYTES / 2.0 * weights
    shown = {"model": str(named["model"]), "weights": q.data_text(weights), "whole": q.data_text(whole)}
    shown |= {"lora": q.data_text(weights + _SYSTEM_BYTES), "full": q.data_text(weights + _KEPT * whole + _SYSTEM_BYTES)}
    return dict.fromkeys(LANGS, shown)


#: Disk of the system, drivers, an image with PyTorch and its packages, and some room [bytes].
_SYSTEM_BYTES = 60e9
#: Checkpoints that are kept: the latest two and the one that is being written.
_KEPT = 3
#: Share of GPU memory that weights may take where a short context is to fit beside them.
_USABLE = 0.85
#: Tokens of a sequence where none are told.
_USUAL_TOKENS = 8192.0


def _cache(_: str, named: Mapping[str, Any], __: Catalog) -> _Fields | None:
    """KV cache of one token and of one sequence, in 16 bits."""
    from rightfit.estimation.serving_extras import sequence_cache_bytes
    from rightfit.explain.fit_claims import counted_weights
    from rightfit.units import parse_count

    weights, model = counted_weights({"model": named["model"], "quantization": "bf16"}), facts.model(str(named["model"]), network=False)
    if weights is None or not isinstance(model, facts.TransformerArchitecture):
        return None
    tokens = parse_count(str(named["seq_len"])) if "seq_len" in named else _USUAL_TOKENS
    held = sequence_cache_bytes(model, tokens)
    shown = {"model": str(named["model"]), "weights": q.memory_text(weights), "tokens": f"{tokens:,.0f}"}
    return dict.fromkeys(LANGS, shown | {"token": f"{held / tokens / 1024.0:,.0f} KiB", "held": q.memory_text(held)})


def _bound(_: str, named: Mapping[str, Any], __: Catalog) -> _Fields | None:
    """What bounds the answers of a model on so many of a card: the memory's bandwidth, and the link
    where there are several."""
    from rightfit.explain.fit_claims import counted_weights

    weights, names = counted_weights({"model": named["model"], "quantization": "bf16"}), facts.match_accelerators(str(named["gpu"]))
    if weights is None or not names:
        return None
    card, count = facts.accelerators()[names[-1]], int(named.get("num_gpus") or 1)
    told: _Fields = {}
    for lang in LANGS:
        texts = {name: text[lang] for name, text in topic("topic_questions")["bound"].items()}
        most = count * card.memory_bandwidth / weights
        reads = texts["reads"].format(count=count, card=card.name, bandwidth=f"{card.memory_bandwidth / 1e9:,.4g}", most=f"{most:.2g}")
        is_pcie = not card.nvlink_bandwidth > 0.0
        link = texts["linked"].format(link=texts["pcie"].format(card=card.name)) if count > 1 and is_pcie else ""
        told[lang] = {"bound": reads + link, "model": str(named["model"]), "card": card.name}
    return told


def _proportion(sentence: str, _: Mapping[str, Any], __: Catalog) -> _Fields:
    """Whether what is asked about grows in proportion: the cache of a context does, GPU memory in
    all does not."""
    is_cache = expression(topic("topic_questions")["proportions"]["cache"]).search(sentence)
    shown = {"answer": "yes" if is_cache else "no"}
    return dict.fromkeys(LANGS, shown)


def _experts_held(sentence: str, _: Mapping[str, Any], __: Catalog) -> _Fields:
    """Whether what is asked about is held: all experts are, not only the active ones."""
    is_all = expression(topic("topic_questions")["proportions"]["all_experts"]).search(sentence)
    shown = {"answer": "yes" if is_all else "no"}
    return dict.fromkeys(LANGS, shown)


def _lora_share(sentence: str, named: Mapping[str, Any], catalog: Catalog) -> _Fields | None:
    """What LoRA takes of the memory of full fine-tuning, held against the share that a question
    names."""
    from rightfit.explain.fit_claims import least_bytes

    model, rule = str(named.get("model") or topic("topic_questions")["methods"]["model"]), topic("topic_questions")["methods"]
    job = {"model": model, "task": "finetune", "data": rule["data"]}
    try:
        full, lora, qlora = (least_bytes({**job, "method": method}, catalog) for method in ("full", "lora", "qlora"))
    except RightfitError:
        return None
    told = re.search(r"(\d+(?:\.\d+)?)\s*[%％]", sentence)
    saves = _class("saves").search(sentence) is not None
    shown = {"lora_share": q.percent_text(lora / full), "qlora_share": q.percent_text(qlora / full)}
    if told is not None:
        share = float(told[1]) / 100.0
        share = 1.0 - share if saves else share
        shown["answer"] = "yes" if abs(share - lora / full) <= _NEAR_SHARE or abs(share - qlora / full) <= _NEAR_SHARE else "no"
    return dict.fromkeys(LANGS, shown)


#: A share that is told is right so near the computed one.
_NEAR_SHARE = 0.06
#: GPUs where none are told, and how many are told.
_USUAL_CARDS = 8
_COUNTED = re.compile(r"(?<![A-Za-z0-9.])(\d{1,4})\s*(?:张|块|卡|x|×|gpus?|cards?)", re.IGNORECASE)
_SPOKEN = re.compile(r"([两二三四八])\s*(?:张|块)?\s*卡|\b(two|three|four|eight|sixteen) (?:gpus?|cards?)", re.IGNORECASE)
_NUMBERS = {"两": 2, "二": 2, "三": 3, "四": 4, "八": 8, "two": 2, "three": 3, "four": 4, "eight": 8, "sixteen": 16}


def _cards_told(sentence: str, named: Mapping[str, Any]) -> int:
    if found := _COUNTED.search(sentence):
        return max(int(found[1]), 2)
    if spoken := _SPOKEN.search(sentence):
        return _NUMBERS[(spoken[1] or spoken[2]).casefold()]
    return max(int(str(named.get("num_gpus") or _USUAL_CARDS)), 2)


def _shards(sentence: str, named: Mapping[str, Any], _: Catalog) -> _Fields:
    """Bytes per parameter of the three stages of sharding over so many GPUs."""
    count = _cards_told(sentence, named)
    each = {"one": 4.0 + 12.0 / count, "two": 2.0 + 14.0 / count, "full": 16.0 / count}
    shown = {"count": f"{count}", **{name: f"{value:.2g}" for name, value in each.items()}}
    return dict.fromkeys(LANGS, shown)


#: Share of linear that data parallelism reaches: over NVLink, and over PCIe.
_LINKED, _OVER_PCIE = (0.85, 0.97), (0.5, 0.9)


def _scaled(sentence: str, named: Mapping[str, Any], _: Catalog) -> _Fields:
    """How many times as fast so many GPUs are."""
    count = _cards_told(sentence, named)
    ends = {
        f"{name}_{end}": f"{count * share:.2g}"
        for name, shares in (("linked", _LINKED), ("pcie", _OVER_PCIE))
        for end, share in zip(("low", "high"), shares, strict=True)
    }
    answer = "no" if _class("times").search(sentence) else "depends"
    shown = {"count": f"{count}", "answer": answer, **ends}
    return dict.fromkeys(LANGS, shown)


#: Prompts that the time to the first token is told for, and their share of a GPU's rate.
_PROMPTS, _PREFILL_SHARE = (2_000, 30_000), 0.5


def _prefill(sentence: str, named: Mapping[str, Any], _: Catalog) -> _Fields:
    """How long prompts take to be computed, by the model and GPU that are named, or usual ones."""
    from rightfit.explain.claim_words import best_rate

    text = topic("topic_questions")["bound"]["prefill"]
    model = str(named.get("model") or "8B")
    spoken = str(named.get("gpu") or "A100").split(",")[0]
    try:
        record, card = facts.model(model, network=False), facts.accelerator(spoken, typical=True)
    except RightfitError:
        record, card = facts.model("8B", network=False), facts.accelerator("A100", typical=True)
    count = int(str(named.get("num_gpus") or 1))
    active = float(getattr(record, "params_active", 0.0) or getattr(record, "params_total", 8e9))
    told_tokens = re.search(r"(\d+(?:\.\d+)?)\s*[kK](?![A-Za-z])", sentence)
    tokens = (float(told_tokens[1]) * 1e3,) if told_tokens else _PROMPTS
    each = [2.0 * active * one / (count * best_rate(card) * _PREFILL_SHARE) for one in tokens]
    joined = {"en": ", ", "zh": "，"}
    return {
        lang: {
            "prefill": text[lang].format(
                model=model,
                count=count,
                card=card.name,
                times=joined[lang].join(
                    topic("topic_questions")["bound"]["prefill_each"][lang].format(tokens=f"{size:,.0f}", time=q.duration_text(time, lang))
                    for size, time in zip(tokens, each, strict=True)
                ),
            )
        }
        for lang in LANGS
    }


#: GPU memory that is told without a card.
_MEMORY = re.compile(r"(?<![A-Za-z0-9.])(?P<size>\d{1,3})\s*G(?:i?B)?(?![A-Za-z0-9/])", re.IGNORECASE)


def _held(sentence: str, named: Mapping[str, Any], catalog: Catalog) -> _Fields:
    """Whether the weights of the model that a question names fit in the memory that it names."""
    from rightfit.explain.fit_claims import ROOMY, counted_weights
    from rightfit.explain.weight_questions import USABLE, memory_named

    told: _Fields = {lang: {"fit": ""} for lang in LANGS}
    amount = _MEMORY.search(sentence)
    card = {"gpu": f"{amount['size']}GB"} if amount and "gpu" not in named else {}
    had, shown, _count = memory_named(sentence, {**named, **card}, catalog)
    sizes = {bits: counted_weights({"model": named["model"], "quantization": bits}) for bits in ("fp16", "awq")} if "model" in named else {}
    if not had or not sizes.get("fp16") or not sizes.get("awq"):
        return told
    whole, small = float(sizes["fp16"] or 0.0), float(sizes["awq"] or 0.0)
    key = "roomy" if whole <= ROOMY * had else "tight" if whole <= USABLE * had else "crowded" if small <= _USABLE * had else "too_small"
    for lang in LANGS:
        fields = {"model": named["model"], "memory": shown, "whole": q.memory_text(whole), "small": q.memory_text(small)}
        told[lang]["fit"] = topic("topic_questions")["bound"][key][lang].format(**fields)
    return told


def _without_bf16(sentence: str, named: Mapping[str, Any], __: Catalog) -> _Fields | None:
    """A card without BF16, and whether the model that is named fits on it in 16 or in 4 bits."""
    cards = [name for _, names in cards_of(sentence) for name in names]
    card = facts.accelerators()[cards[0]] if cards else None
    if card is None or card.bf16_flops > 0.0:
        return None
    return {lang: {"card": card.name, "architecture": card.architecture, "fit": _fit_on(card, named, lang)} for lang in LANGS}


def _linked(sentence: str, named: Mapping[str, Any], __: Catalog) -> _Fields:
    """Whether the card of a question has NVLink, and whether its model fits on so many."""
    cards = [name for _, names in cards_of(sentence) for name in names]
    card = facts.accelerators()[cards[0]] if cards else None
    text = topic("topic_questions")["bound"]["no_link"]
    return {
        lang: {
            "link": text[lang].format(card=card.name) if card is not None and not card.nvlink_bandwidth else "",
            "fit": _fit_on(card, named, lang) if card is not None else "",
        }
        for lang in LANGS
    }


def _fit_on(card: facts.Accelerator, named: Mapping[str, Any], lang: Lang) -> str:
    """Whether the weights of the model that a question names fit on so many of a card, in 16 bits
    or in 4; "" where it names none."""
    from rightfit.explain.fit_claims import ROOMY, counted_weights

    sizes = {bits: counted_weights({"model": named["model"], "quantization": bits}) for bits in ("fp16", "awq")} if "model" in named else {}
    whole, small = sizes.get("fp16"), sizes.get("awq")
    if not whole or not small:
        return ""
    memory = int(str(named.get("num_gpus") or 1)) * float(card.memory_bytes)
    key = "roomy" if whole <= ROOMY * memory else "crowded" if small <= _USABLE * memory else "too_small"
    text: str = topic("topic_questions")["bound"][key][lang]
    return text.format(model=named["model"], memory=q.memory_text(memory), whole=q.memory_text(whole), small=q.memory_text(small))


def _staged(sentence: str, _: Mapping[str, Any], catalog: Catalog) -> _Fields | None:
    """The local disks of the servers that a question names."""
    from rightfit.explain.server_questions import servers_named

    disks, held = servers_named(sentence, catalog), catalog.servers().local_nvme_bytes
    sizes = {name: max(float(held[row]) for row in rows) for name, rows in disks.items()}
    text = topic("topic_questions")["bound"]["staged"]
    return {
        lang: {"staged": "".join(text[lang].format(server=name, disk=q.data_text(size)) for name, size in sizes.items() if size > 0.0)}
        for lang in LANGS
    }


def _notices(sentence: str, named: Mapping[str, Any], _: Catalog) -> _Fields | None:
    """How long before it is taken back clouds give notice of a spot server."""
    from rightfit import lookup

    wanted = set(lookup.read_names("cloud", named["cloud"])) if "cloud" in named else set()
    rows = [row for row in facts.table("spot_notices") if not wanted or row["provider"] in wanted]
    if not rows:
        return None
    texts = topic("topic_questions")["notices"]
    told: _Fields = {}
    for lang in LANGS:
        each = [
            texts["protected" if float(row["protected_s"]) else "plain"][lang].format(
                cloud=q.provider_text(row["provider"], lang),
                notice=q.duration_text(float(row["notice_s"]), lang),
                protected=q.duration_text(float(row["protected_s"]), lang),
            )
            for row in rows
        ]
        told[lang] = {"notices": ("；" if lang == "zh" else "; ").join(each)}
    return told


#: What a project moves in a month [GB], free amounts of small accounts aside.
_MONTHLY_GB = 10_000.0


def _traffic(_: str, named: Mapping[str, Any], catalog: Catalog) -> _Fields | None:
    """What clouds charge for a GB that leaves a region."""
    from rightfit import lookup

    clouds = lookup.read_names("cloud", named["cloud"]) if "cloud" in named else tuple(topic("topic_questions")["traffic"]["regions"])
    texts, told = topic("topic_questions")["traffic"], dict[Lang, dict[str, str]]()
    for lang in LANGS:
        lines, example = [], ""
        for cloud in clouds:
            region = texts["regions"].get(cloud)
            ways = ("other_region", "internet") if region else ()
            prices = [price for where in ways if (price := catalog.egress_price(cloud, region, destination=where))]
            if len(prices) == 2:
                per_gb = [price.cost_usd(_MONTHLY_GB) / _MONTHLY_GB for price in prices]
                other, internet = map(q.money_text, per_gb)
                example = example or q.money_text(_EXAMPLE_GB * per_gb[1])
                lines.append(texts["line"][lang].format(cloud=q.provider_text(cloud, lang), region=region, other=other, internet=internet))
        if not lines:
            return None
        told[lang] = {"prices": ("；" if lang == "zh" else "; ").join(lines), "example": example}
    return told


#: The weights of 70B in 16 bits [GB].
_EXAMPLE_GB = 140.0


def _volumes(sentence: str, _: Mapping[str, Any], __: Catalog) -> _Fields | None:
    """What the kinds of disks give that a question names."""
    texts = topic("topic_questions")["volumes"]
    rows = [row for row in facts.table("volumes") if _spells(row["volume"], sentence, texts["spoken"])]
    if not rows:
        return None
    told: _Fields = {}
    for lang in LANGS:
        each = [
            texts["line"][lang].format(
                volume=row["volume"],
                rate=f"{float(row['max_mb_per_s']) + float(row['provisioned_mb_per_s']):,.0f}",
                iops=f"{float(row['max_iops']):,.0f}",
                price=texts["price" if float(row["usd_per_gb_month"]) else "with_server"][lang].format(
                    price=f"${float(row['usd_per_gb_month']):.3g}"
                ),
            )
            for row in rows[:4]
        ]
        told[lang] = {"disks": ("；" if lang == "zh" else "; ").join(each)}
    return told


def _market(_: str, __: Mapping[str, Any], catalog: Catalog) -> _Fields | None:
    """Hourly prices of the cards that examples are told with, what spot and commitments save, and
    when an own server pays off."""
    from rightfit.explain.market_statements import judge_statement, saving_of
    from rightfit.search.ownership import own_of

    shown = dict[str, str]()
    for name, card, count in (("t4", "T4", 1), ("a10g", "A10G", 1), ("a100s", "A100-SXM-80GB", 8)):
        prices = _hourly(catalog, card, count)
        if not len(prices):
            return None
        low, mid = np.percentile(prices, (0, 50))
        shown |= {
            f"{name}_low": q.money_text(float(low)),
            f"{name}_mid": q.money_text(float(mid)),
            f"{name}_day": q.money_text(24.0 * float(low)),
        }
    shown["spot_saves"] = q.percent_text(saving_of(catalog, ("spot",))[1])
    shown["committed_hours"] = f"{judge_statement('market_subscription_for_long_use', catalog).figures['hours']:.0f}"
    bought = own_of("A100", count=8, catalog=catalog).content
    rents = [one["break_even"] for one in bought["rents"] if one["purchase"] == "on-demand" and math.isfinite(one["break_even"])]
    shown |= {f"own_{end}": q.money_text(bought[f"capex_{end}_usd"]) for end in ("low", "high")}
    shown["own_most"] = q.percent_text(max(rents, default=1.0))
    return dict.fromkeys(LANGS, shown)


def _hourly(catalog: Catalog, card: str, count: int) -> Any:
    """Sound prices on demand [USD per hour] of servers with so many of a card."""
    from rightfit.market.offers import PURCHASE_CODES

    offers = catalog.all_offers(has_accelerator=True)
    servers = offers.servers
    is_such = (np.array(servers.accelerator_name) == card) & (servers.num_accelerators == count)
    is_sound = ~offers.is_quarantined & ~offers.is_estimate & ~offers.is_stale & np.isfinite(offers.price_usd_per_h)
    return offers.price_usd_per_h[is_such[offers.server_index] & is_sound & (offers.purchase_index == PURCHASE_CODES["on-demand"])]


def _spells(volume: str, sentence: str, spoken: Mapping[str, str]) -> bool:
    words = spoken.get(volume) or re.escape(volume).replace(r"\-", r"[\s-]*")
    return bool(re.search(rf"(?<![A-Za-z0-9])(?:{words})(?![A-Za-z0-9])", sentence, re.IGNORECASE))


def _heads(_: str, named: Mapping[str, Any], __: Catalog) -> _Fields:
    """The attention heads of the model that a question names, if it names one."""
    try:
        model = facts.model(str(named["model"]), network=False) if "model" in named else None
    except RightfitError:
        model = None
    shown: dict[Lang, str] = dict.fromkeys(LANGS, "")
    if isinstance(model, facts.TransformerArchitecture):
        text = topic("topic_questions")["bound"]["heads"]
        shown = {lang: text[lang].format(model=named["model"], heads=model.num_heads, shared=model.num_kv_heads) for lang in LANGS}
    return {lang: {"heads": shown[lang]} for lang in LANGS}


_FIELDS: Mapping[str, Callable[[str, Mapping[str, Any], Catalog], _Fields | None]] = {
    "methods": _methods,
    "dataset": _dataset,
    "host_memory": _host_memory,
    "bound": _bound,
    "cache": _cache,
    "capacity": capacity_fields,
    "first_token": first_token_fields,
    "checkpoint": _checkpoint,
    "exchanged": exchanged_fields,
    "files": file_fields,
    "without_bf16": _without_bf16,
    "xids": xid_fields,
    "staged": _staged,
    "experts_held": _experts_held,
    "held": _held,
    "proportion": _proportion,
    "lora_share": _lora_share,
    "shards": _shards,
    "scaled": _scaled,
    "prefill": _prefill,
    "linked": _linked,
    "heads": _heads,
    "notices": _notices,
    "traffic": _traffic,
    "volumes": _volumes,
    "market": _market,
    **SIZES,
}
