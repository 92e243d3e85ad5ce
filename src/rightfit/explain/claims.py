"""What people say about a card, a server, a cloud or a model ("T4 supports BF16", "gn7i has
NVLink", "L4 suits inference", "Lambda is cheaper than AWS", "Llama-3-8B needs 8 A100"), judged by
the facts, the catalog, and plans of the job that is meant.

Words are data (data/claims.toml). A sentence that is about none of these gives None.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rightfit import facts
from rightfit.explain import quantities as q
from rightfit.explain.claim_words import (
    Judged,
    any_of,
    best_rate,
    both,
    card_pattern,
    cards_of,
    faster_text,
    job_text,
    named,
    table,
    text_of,
    verb,
    words_of,
)
from rightfit.explain.factor_claims import factor_claim
from rightfit.explain.fit_claims import fits, model_in, need_claim
from rightfit.explain.messages import label
from rightfit.explain.trials import best_of, cost_text, where_text
from rightfit.explain.yes_or_no import is_question
from rightfit.facts.expressions import expression
from rightfit.market import server_names
from rightfit.market.names import find_provider, provider_display
from rightfit.market.offers import OfferFilter
from rightfit.market.verdicts import CheckResult
from rightfit.messages import LANGS, Lang

if TYPE_CHECKING:
    from rightfit.facts.records import Accelerator
    from rightfit.market import Catalog
    from rightfit.search.answer import Option


#: A card suits a job where it costs at most so much more than the cheapest way.
_NEAR_CHEAPEST = 2.0
#: Matrix units multiply far faster in 16 bits than the other units do in 32; twice as fast is
#: plain packing.
_TENSOR_CORE_GAIN = 3.0
#: Cards up to so many times apart are as fast as each other.
_NEAR_SPEED = 1.25
_SWITCHED = ("nvlink", "nvswitch")
_MOST_PAIRS = 4


def claim_lookup(query: str, catalog: Catalog) -> CheckResult | None:
    """The answer of `rightfit check` where `query` says something about a thing that we know."""
    said = _folded(query)
    from rightfit.explain.statement_parts import clauses

    asked = f"{said}?" if is_question(query) and not is_question(said) else said  # whether it fits is asked by the mark alone
    is_one = len([one for one in clauses(query) if verb("suits").search(one)]) < 2  # others are judged one by one
    for reader in (
        _cuda,
        factor_claim,
        _cheaper,
        _faster,
        _as_fast,
        _compared,
        only_one,
        _feature,
        fits,
        *([suits] if (is_one or " | " in said) and not _beyond_cost(query, said) else []),
    ):
        if (found := reader(asked if reader is fits else said, catalog)) is not None:
            texts = {lang: text_of("line", lang, reason=found.reason[lang]) for lang in LANGS}
            return CheckResult(query, found.kind, True, found.claim, dict(found.facts), (), texts["en"], texts["zh"])
    return None


def _beyond_cost(query: str, said: str) -> bool:
    """Whether a sentence says more than that a card suits a job, so that what the job costs on it
    judges nothing: that only one has something, a feature, a cloud, or a question between cards."""
    is_between = is_question(query) and len(cards_of(said)) > 1 and bool(any_of(table()["either"]["words"]).search(said))
    is_of_feature = bool(features_in(said)) and is_question(query)
    return is_exclusive(said) or is_between or is_of_feature or (is_question(query) and bool(_clouds_of(said)))


def _clouds_of(said: str) -> list[str]:
    """The clouds that a sentence names."""
    words = re.findall(r"[A-Za-z]+|[\u4e00-\u9fff]*云", said)
    return [code for word in words if (code := find_provider(word))]


def as_fast_lookup(query: str, catalog: Catalog) -> CheckResult | None:
    """The answer to whether two cards are as fast as each other; None of any other sentence."""
    return claim_lookup(query, catalog) if _as_fast(_folded(query), catalog) is not None else None


def needs_answer(query: str, catalog: Catalog) -> CheckResult | None:
    """The answer to what a job is said to need of GPU memory, where no rule of thumb says so."""
    found = need_claim(_folded(query), catalog)
    if found is None:
        return None
    texts = {lang: text_of("line", lang, reason=found.reason[lang]) for lang in LANGS}
    return CheckResult(query, found.kind, True, found.claim, dict(found.facts), (), texts["en"], texts["zh"])


# ---- Words.


def _folded(text: str) -> str:
    for written, meant in (("×", "x"), ("（", "("), ("）", ")"), ("，", ","), ("。", ""), ("？", "?")):
        text = text.replace(written, meant)
    return re.sub(r"(?<=\d)\s*x\s*(?=[A-Za-z])", " x ", " ".join(text.split())).strip(" ?!.;")


# ---- "CUDA 12.4 needs driver 550", "V100 works with CUDA 13".

_CUDA = re.compile(r"cuda\s*(\d+(?:\.\d+)?)", re.IGNORECASE)
_DRIVER = re.compile(r"(?:driver|驱动)[^\d.]{0,16}?(\d{3})(?:\.\d+)*", re.IGNORECASE)


def _cuda(said: str, _: Catalog) -> Judged | None:
    found, driver = _CUDA.search(said), _DRIVER.search(said)
    if found is None:
        return None
    rows, cards = facts.table("cuda_releases"), cards_of(_CUDA.sub(" ", said))
    if driver is None and not cards:
        return None
    version = found[1] if "." in found[1] else f"{found[1]}.0"
    row = next((row for row in rows if row["cuda"] == version), None)
    known: dict[str, Any] = {"cuda": version}
    if row is None:
        return Judged("rule", "unknown", both("cuda_unknown", cuda=version, most=rows[-1]["cuda"]), known)
    if driver is not None:
        claim = _driver_claim(said, int(driver[1]), row)
        key = "cuda_driver_only" if row["driver"] == row["least_driver"] else "cuda_driver"
        return Judged(
            "rule", claim, both(key, cuda=version, driver=row["driver"], least=row["least_driver"]), known | {"driver": row["driver"]}
        )
    card = facts.accelerators()[cards[0][1][-1]]
    if not card.compute_capability:
        return None
    runs = float(card.compute_capability) >= float(row["least_capability"])
    is_new = not card.min_cuda or float(version) >= float(card.min_cuda)
    is_lack = bool(verb("lacks").search(said)) and not re.search(r"有没有", said)
    reason = (
        both("cuda_card", card=card.name, capability=card.compute_capability, cuda=version, least=row["least_capability"])
        if is_new
        else both("cuda_card_old", card=card.name, min_cuda=card.min_cuda)
    )
    return Judged("accelerator", "right" if (runs and is_new) != is_lack else "wrong", reason, known | {"card": card.name})


def _driver_claim(said: str, driver: int, row: Mapping[str, str]) -> str:
    """A need is right where it names the driver that the release ships with; that a driver runs it,
    where it is as new as the least."""
    if re.search(r"需要|需|要求|至少|needs?|requires?|takes?|>=|≥", said, re.IGNORECASE):
        return "right" if driver == int(row["driver"].split(".")[0]) else "wrong"
    return "right" if driver >= int(row["least_driver"].split(".")[0]) else "wrong"


# ---- "T4 supports BF16", "gn7i has NVLink".


def is_exclusive(said: str) -> bool:
    """Whether a sentence says that one card alone has something."""
    return bool(re.search(table()["only"]["marks"], said, re.IGNORECASE))


def only_one(said: str, catalog: Catalog) -> Judged | None:
    """ "Only H100 supports FP8": whether the cards that it names have a feature, and they alone."""
    entry = table()["only"]
    matches = (expression(words).fullmatch(said) for words in entry["words"]) if is_exclusive(said) else ()
    for found in (match for match in matches if match):
        feature, named_cards = named("features", found["told"]), [facts.match_accelerators(one) for one in _listed(found["first"])]
        if feature == "rdma" and (judged := _only_cloud(found["first"], found["told"], said, catalog)) is not None:
            return judged
        if not feature or feature == "rdma" or not named_cards or not all(named_cards):
            continue
        own = [name for names in named_cards for name in names]
        has, kind, reason = _card_has([facts.accelerators()[name] for name in own], feature, shown := _shown(feature))
        others = _others_with(feature, own, catalog)
        more = both("only_others", others=", ".join(others[:_MOST_PAIRS])) if others else both("only_none", feature=shown)
        holds = bool(has) and not others
        told: dict[Lang, str] = {lang: ("；" if lang == "zh" else "; ").join((reason[lang], more[lang])) for lang in LANGS}
        claim = "right" if holds != bool(re.search(entry["denied"], said, re.IGNORECASE)) else "wrong"
        return Judged(kind, claim, told, {"feature": feature, "others": others})
    return None


def _only_cloud(first: str, told: str, said: str, catalog: Catalog) -> Judged | None:
    """ "Azure is the only cloud with InfiniBand": whether the servers of the clouds that it names
    have that link, and of no other (large) one."""
    from rightfit.market.sellers import is_major

    entry, clouds = table()["only"], [find_provider(one) for one in _listed(first)]
    if not clouds or None in clouds:
        return None
    servers = catalog.servers()
    has = Counter((link, cloud) for link, cloud in zip(servers.rdma, servers.provider, strict=True) if link not in ("", "none"))
    links = {link for link, _ in has}
    meant = {link for link in links if re.search(rf"(?<![a-z]){link}(?![a-z])", told.casefold())} or links
    having = {cloud for link, cloud in has if link in meant}
    is_large = bool(re.search(entry["large"], said, re.IGNORECASE))
    others = {cloud for cloud in having if cloud.partition("-")[0] not in clouds and (is_major(cloud) or not is_large)}
    holds = all(cloud in having for cloud in clouds) and not others
    claim = "right" if holds != bool(re.search(entry["denied"], said, re.IGNORECASE)) else "wrong"
    lines = [
        both(
            "link_of",
            link=label("joined", link.replace("-", "_"), "en"),
            clouds={lang: q.provider_text(", ".join(sorted(c for one, c in has if one == link)), lang) for lang in LANGS},
        )
        for link in sorted(links, key=lambda link: (link not in meant, link))
    ]
    told_all = {lang: ("；" if lang == "zh" else "; ").join(line[lang] for line in lines) for lang in LANGS}
    reason = both("link_any", told=told_all)
    return Judged("provider", claim, reason, {"links": sorted(meant), "others": sorted(others)})


def _listed(said: str) -> list[str]:
    return [one.strip() for one in re.split(table()["only"]["joins"], said) if one.strip()]


def _others_with(feature: str, own: Sequence[str], catalog: Catalog) -> list[str]:
    """Every other card that has a feature: of the same makers first, then those that most servers
    carry."""
    records, carried = facts.accelerators(), Counter(catalog.servers().accelerator_name)
    makers = {records[name].vendor for name in own}
    having = [name for name, record in records.items() if name not in own and _rate(record, feature)]
    return sorted(having, key=lambda name: (records[name].vendor not in makers, -carried[name], name))


def _feature(said: str, catalog: Catalog) -> Judged | None:
    if is_exclusive(said):
        return None
    for is_lack, words in ((True, verb("lacks")), (False, verb("supports"))):
        found = words.search(said)
        if found is None or not said[: found.start()].strip():
            continue
        subject, told = said[: found.start()].strip(" ,:："), said[found.end() :].strip()
        feature = named("features", told)
        if not feature or words_of("features").sub("", told).strip(" 吗么的、和/or?"):
            continue
        judged = feature_of(subject, feature, catalog) or feature_of(_without_cloud(subject), feature, catalog)
        if judged is not None:
            has, kind, reason = judged
            claim = "unknown" if has is None else "right" if has != is_lack else "wrong"
            return Judged(kind, claim, reason, {"subject": subject, "feature": feature, "has": has})
    return None


def _shown(feature: str) -> str:
    word: str = table()["features"][feature][0]
    return word.upper() if word in ("bf16", "fp16", "tf32", "fp8", "fp4", "int8", "int4", "fp64") else word.replace("nvlink", "NVLink")


def _without_cloud(subject: str) -> str:
    """ "阿里云 gn7i" is gn7i."""
    words = re.split(r"(?<=[\u4e00-\u9fff])(?=[A-Za-z])|(?<=[A-Za-z0-9])(?=的)|的|\s+", subject)
    return " ".join(word for word in words if word and find_provider(word) is None)


def features_in(text: str) -> list[str]:
    """Every feature that a text names."""
    return [name for name, words in table()["features"].items() if any_of(words).search(text)]


_Feature = tuple[bool | None, str, dict[Lang, str]]


def feature_of(subject: str, feature: str, catalog: Catalog) -> _Feature | None:
    """Whether a card or a server has a feature (None where it is not published), and why."""
    shown = _shown(feature)
    rows = server_names.exact_servers(catalog, subject) or server_names.series_members(catalog, subject)
    cards = facts.match_accelerators(server_names.bare_name(subject))
    if cards and feature != "rdma":
        return _card_has([facts.accelerators()[name] for name in cards], feature, shown)
    if not rows:
        return None
    servers = catalog.servers()
    if feature == "rdma":
        links = sorted({servers.rdma[row] for row in rows} - {"none", ""})
        has = bool(links)
        reason = both("server_has", name=subject, link=", ".join(links)) if has else both("server_no_rdma", name=subject, feature=shown)
        return has, "server", reason
    names = sorted({servers.accelerator_name[row] for row in rows if servers.accelerator_name[row]})
    if not names:
        return None
    records = [facts.accelerators()[name] for name in names]
    if feature != "nvlink":
        return _card_has(records, feature, shown)
    return _linked(subject, [row for row in rows if servers.num_accelerators[row] >= 1], records, catalog)


def _linked(subject: str, rows: Sequence[int], records: Sequence[Accelerator], catalog: Catalog) -> _Feature:
    """NVLink of a server: what its cloud publishes, else what its card is able to."""
    servers = catalog.servers()
    links = {servers.gpu_interconnect[row] for row in rows} - {"", "none"}
    if fast := sorted(links & set(_SWITCHED)):
        return True, "server", both("server_has", name=subject, link=", ".join(fast))
    if links or not any(record.nvlink_bandwidth for record in records):
        link = ", ".join(sorted(links)) or "pcie"
        return False, "server", both("server_has_not", name=subject, feature="NVLink", link=link)
    return None, "server", both("server_unknown", name=subject)


def _card_has(records: Sequence[Accelerator], feature: str, shown: str) -> _Feature:
    rates = {record.name: _rate(record, feature) for record in records}
    has = [record for record in records if rates[record.name]]
    reasons: list[dict[Lang, str]] = [_has_text(record, rates[record.name], shown) for record in has[:2]]
    lacking = next((record for record in records if not rates[record.name]), None)
    if lacking is not None:
        reasons.append(both("has_not", name=lacking.name, architecture=lacking.architecture, year=lacking.release_year, feature=shown))
    reason: dict[Lang, str] = {lang: ("；" if lang == "zh" else "; ").join(one[lang] for one in reasons) for lang in LANGS}
    return bool(has), "accelerator", reason


def _has_text(record: Accelerator, rate: float, shown: str) -> dict[Lang, str]:
    if rate <= 1.0:
        return both("has_plain", name=record.name, feature=shown)
    unit = "GB/s" if shown == "NVLink" else "TFLOPS" if not shown.startswith("INT") else "TOPS"
    return both("has", name=record.name, feature=shown, rate=f"{rate / (1e9 if unit == 'GB/s' else 1e12):,.4g} {unit}")


def _rate(record: Accelerator, feature: str) -> float:
    """Rate of a feature of a card [1/s], 1 where it has it without a rate, 0 without it."""
    properties: Mapping[str, Callable[[], float]] = {
        "tensor_cores": lambda: float(record.vendor == "NVIDIA" and record.fp16_flops >= _TENSOR_CORE_GAIN * record.fp32_flops > 0),
        "flash_attention": lambda: float(record.supports_flash_attention),
        "sparsity": lambda: float(record.structured_sparsity),
        "nvlink": lambda: record.nvlink_bandwidth,
        "int8": lambda: record.int8_ops,
        "int4": lambda: record.int4_ops,
    }
    return properties[feature]() if feature in properties else float(getattr(record, f"{feature}_flops"))


# ---- "L4 suits inference", "choose T4 or L4 for small-model inference".


def suits(said: str, catalog: Catalog) -> Judged | None:
    """Whether a card suits the kinds of job that a sentence or a row names: by what each costs on
    it."""
    cards = tuple(dict.fromkeys(name for _, names in cards_of(said) for name in names))
    jobs = _jobs_named(_RECOMMENDER.sub(" ", said))
    if not cards or not jobs or not (verb("suits").search(_RECOMMENDER.sub(" ", said)) or " | " in said) or _NUMBERED.search(said):
        return None
    if is_question(said) and (len(cards_of(said)) > 1 or model_in(card_pattern().sub(" ", said))):
        return None  # which of them, or of a model of its own: what usual jobs cost tells neither
    tried = [one for word, workload in jobs if (one := _suited(said, word, workload, cards, catalog)) is not None]
    if not tried:
        return None
    words = {one.claim for one in tried}
    claim = words.pop() if len(words) == 1 else "wrong"
    reason: dict[Lang, str] = {lang: ("；" if lang == "zh" else "; ").join(one.reason[lang] for one in tried) for lang in LANGS}
    return Judged("rule", claim, reason, tried[0].facts)


def _jobs_named(said: str) -> list[tuple[str, Mapping[str, Any]]]:
    """The jobs that a sentence names, each once: of words that overlap the longest."""
    found: list[tuple[str, Mapping[str, Any]]] = []
    spans = sorted(
        ((len(word), job) for job in table()["jobs"] for word in job["words"] if any_of([word]).search(said)),
        key=lambda one: -one[0],
    )
    rest = said
    for length, job in spans:
        word = next((word for word in job["words"] if len(word) == length and any_of([word]).search(rest)), None)
        if word is not None:
            rest = any_of([word]).sub(" ", rest)
            found += [] if any(job["workload"] == workload for _, workload in found) else [(word, job["workload"])]
    return found


def _suited(said: str, word: str, workload: Mapping[str, Any], cards: Sequence[str], catalog: Catalog) -> Judged | None:
    from rightfit.workload import Workload

    is_denied = bool(_UNSUITED.search(said))
    best = best_of(Workload(**workload, purchase=("on-demand",)), catalog)
    own = best_of(Workload(**workload, gpu=",".join(cards), purchase=("on-demand",)), catalog)
    if best is None:
        return None
    task = job_text(workload)
    shown = "/".join(dict.fromkeys(spoken for spoken, _ in cards_of(said)))
    fields: dict[str, Any] = {"job": task, "cards": shown, "where": where_text(best), "cost": cost_text(best)}
    known: dict[str, Any] = {"job": word, "workload": dict(workload), "cards": list(cards), "cheapest_usd": best.cost.total_usd}
    if own is None:
        return Judged("rule", "right" if is_denied else "wrong", both("suits_not", **fields), known)
    ratio = own.cost.total_usd / best.cost.total_usd
    key = "suits_best" if ratio <= 1.001 else "suits"
    own_where: dict[Lang, str] = {lang: where_text(own) + (text_of("suits_offload", lang) if _offloads(own) else "") for lang in LANGS}
    reason = both(key, **fields, own=cost_text(own), own_where=own_where, ratio=f"{ratio:.3g}")
    is_suited = ratio <= _NEAR_CHEAPEST and (not _offloads(own) or _offloads(best))
    claim = "right" if is_suited != is_denied else "wrong"
    return Judged("rule", claim, reason, known | {"own_usd": own.cost.total_usd, "ratio": ratio})


def _offloads(option: Option) -> bool:
    """Whether a job fits only with what the host's memory lends."""
    return getattr(option.layout, "offload", "none") not in ("", "none")


#: A number of cards is a plan, not a kind of card.
_NUMBERED = re.compile(r"(?<![A-Za-z])\d\s*[x块张卡]")
#: "推荐" is also the name of a kind of model.
_RECOMMENDER = re.compile(r"推荐(?=系统|算法|模型|任务|场景)")
_UNSUITED = re.compile(
    r"不(?:太|很|怎么)?(?:适合|适用|推荐|建议)|\b(?:not|n't) (?:suited|suitable|good|right|suit)|unsuitable", re.IGNORECASE
)


# ---- "Lambda is cheaper than AWS".


def _cheaper(said: str, catalog: Catalog) -> Judged | None:
    zh = re.fullmatch(r"(?P<first>.+?)比(?P<second>.+?)(?:更|要)?(?P<word>便宜|贵)(?:吗|么)?", said)
    en = re.fullmatch(r"(?:is )?(?P<first>.+?) (?:is )?(?P<word>cheaper|more expensive|dearer) than (?P<second>.+)", said, re.IGNORECASE)
    found = zh or en
    if found is None:
        return None
    first, second = find_provider(found["first"].strip()), find_provider(found["second"].strip())
    if first is None or second is None or first == second:
        return None
    mine, other = card_prices(catalog, first), card_prices(catalog, second)
    common = sorted(set(mine) & set(other), key=lambda card: -facts.accelerators()[card].release_year)
    names = {lang: (provider_display(first, lang=lang), provider_display(second, lang=lang)) for lang in LANGS}
    shown = {"first": {lang: names[lang][0] for lang in LANGS}, "second": {lang: names[lang][1] for lang in LANGS}}
    if not common:
        return Judged("provider", "unknown", both("cheaper_none", **shown), {"cards": {}})
    share = float(np.mean([mine[card] < other[card] for card in common]))
    pairs = [both("cheaper_pair", card=card, first=f"{mine[card]:.2f}", second=f"{other[card]:.2f}") for card in common[:_MOST_PAIRS]]
    joined: dict[Lang, str] = {lang: ("，" if lang == "zh" else ", ").join(pair[lang] for pair in pairs) for lang in LANGS}
    is_dearer = found["word"].casefold() in ("贵", "more expensive", "dearer")
    agrees = (1.0 - share if is_dearer else share) > 0.5
    reason = both("cheaper", count=len(common), share=q.percent_text(share), pairs=joined, **shown)
    known = {card: [mine[card], other[card]] for card in common}
    return Judged("provider", "right" if agrees else "wrong", reason, {"cards": known, "share": share})


# ---- "A10 is faster than T4", "A100比V100快3倍".


def _faster(said: str, catalog: Catalog) -> Judged | None:
    zh = re.fullmatch(
        r"(?P<first>.+?)\s*(?:要|会|大?约)?\s*比(?P<second>.+?)(?:要|会|更)?(?P<word>快|慢)\s*(?:了|上|大?约)?\s*(?P<times>[\d.]+\s*倍)?(?:多少|很多|以上|左右|多|吗|么)?",
        said,
    )
    en = re.fullmatch(
        r"(?:is |how much )?(?:the |an? )?(?P<first>.+?) (?:is )?(?:(?P<times>[\d.]+) ?(?:x|times) )?(?P<word>faster|slower) than (?:an? |the )?(?P<second>.+)",
        said,
        re.IGNORECASE,
    )
    found = zh or en
    if found is None:
        return None
    both = [facts.match_accelerators(found[name].strip()) for name in ("first", "second")]
    if not all(both):
        return None
    one, other = (facts.accelerators()[names[-1]] for names in both)
    speed, memory = (best_rate(one) / best_rate(other), one.memory_bandwidth / other.memory_bandwidth)
    is_faster = found["word"].casefold() in ("快", "faster")
    agrees = min(speed, memory) > 1.0 if is_faster else max(speed, memory) < 1.0
    if (times := re.search(r"[\d.]+", found["times"] or "")) and agrees:
        low, high = sorted((speed, memory) if is_faster else (1.0 / speed, 1.0 / memory))
        agrees = 0.8 * low <= float(times[0]) <= 1.25 * high
    return Judged("accelerator", "right" if agrees else "wrong", faster_text(one, other), {"arithmetic": speed, "bandwidth": memory})


def _as_fast(said: str, _: Catalog) -> Judged | None:
    """ "A100 速度和 T4 差不多", "an L4 is as fast as a T4": two cards whose speeds are near."""
    found = next((match for words in table()["equals"]["words"] if (match := expression(words).fullmatch(said))), None)
    cards = [facts.match_accelerators(found[name].strip()) for name in ("first", "second")] if found else []
    if not cards or not all(cards):
        return None
    one, other = (facts.accelerators()[names[-1]] for names in cards)
    speed, memory = best_rate(one) / best_rate(other), one.memory_bandwidth / other.memory_bandwidth
    agrees = all(1.0 / _NEAR_SPEED <= ratio <= _NEAR_SPEED for ratio in (speed, memory))
    return Judged("accelerator", "right" if agrees else "wrong", faster_text(one, other), {"arithmetic": speed, "bandwidth": memory})


def _compared(said: str, _: Catalog) -> Judged | None:
    """ "T4 draws less power than V100", "A100 显存比 V100 大": two cards by a figure of theirs."""
    for row in table()["comparisons"]:
        for pattern in row["words"]:
            found = expression(pattern).fullmatch(said)
            names = [facts.match_accelerators(found[name].strip()) for name in ("first", "second")] if found else []
            if not names or not all(names):
                continue
            one, other = (facts.accelerators()[each[-1]] for each in names)
            mine, theirs = (float(getattr(card, row["column"]) or math.nan) for card in (one, other))
            if not (math.isfinite(mine) and math.isfinite(theirs)):
                return None
            agrees = mine < theirs if row["is_less"] else mine > theirs
            shown = {name: row["shown"].format(value / float(row["unit"])) for name, value in (("mine", mine), ("theirs", theirs))}
            reason = both("compared_figure", first=one.name, second=other.name, what={lang: row[lang] for lang in LANGS}, **shown)
            return Judged("accelerator", "right" if agrees else "wrong", reason, {"column": row["column"], "figures": [mine, theirs]})
    return None


def card_prices(catalog: Catalog, provider: str) -> dict[str, float]:
    """The least on-demand price of a card at a provider [USD per card and hour]."""
    offers = catalog.offers(OfferFilter(providers=(provider,), purchases=("on-demand",)))
    table, prices = offers.servers, dict[str, float]()
    for at, price in zip(offers.server_index.tolist(), offers.price_usd_per_h.tolist(), strict=True):
        count, card = float(table.num_accelerators[at]), table.accelerator_name[at]
        if count >= 1 and math.isfinite(price):
            prices[card] = min(prices.get(card, math.inf), price / count)
    return prices
