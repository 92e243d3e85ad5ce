"""What people state of memory rules, weights, networks, embedding tables, data sets, disks, spot
servers, ZeRO and LoRA ("VRAM = parameters x 16 bytes", "25 Gbps is 3.1 GB/s"), held against the
arithmetic and the tables."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Sequence

from rightfit import facts
from rightfit.explain import quantities as q
from rightfit.explain.card_claims import cards_in
from rightfit.explain.rule_match import sense
from rightfit.explain.statement_parts import Part, Reader, Told, both, figures, judged, word
from rightfit.facts.expressions import expression
from rightfit.market.names import find_provider, names_data
from rightfit.messages import LANGS, Lang

_NUMBER = r"(\d[\d,]*(?:\.\d+)?)"
#: Model states of AdamW in mixed precision, and a weight in 16 bits [bytes per parameter].
_STATES, _WEIGHT = 16.0, 2.0
_NEAR = 0.12
_PARAMS = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)\s*(B|亿|billion)(?![A-Za-z])", re.IGNORECASE)
_GB = re.compile(rf"{_NUMBER}\s*(GB|GiB|TB|MB|G(?![A-Za-z]))(?!\s*/)(?!/s|ps)", re.IGNORECASE)
_SIZES = {"GB": 1e9, "GIB": 2.0**30, "G": 1e9, "TB": 1e12, "MB": 1e6}
_FACTOR = re.compile(
    r"[x*]\s*(\d+(?:\.\d+)?)|(\d+(?:\.\d+)?)\s*(?:字节|bytes?|[x*])|(\d+(?:\.\d+)?)\s*倍|翻?(\d+(?:\.\d+)?)\s*times", re.IGNORECASE
)
_COUNT = r"(\d[\d,]*(?:\.\d+)?)\s*(千万|百万|亿|万|千|million|billion|thousand|M|K)?\s*"
_MULTIPLES = {
    "": 1.0,
    "千": 1e3,
    "万": 1e4,
    "百万": 1e6,
    "千万": 1e7,
    "亿": 1e8,
    "thousand": 1e3,
    "k": 1e3,
    "million": 1e6,
    "m": 1e6,
    "billion": 1e9,
}


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def _size(found: re.Match[str]) -> float:
    return _number(found[1]) * _SIZES[found[2].upper()]


def _remember(clause: str, told: Told) -> Sequence[Part]:
    """What later clauses are about."""
    told.training |= bool(word("training").search(clause))
    told.inference |= bool(word("inference").search(clause))
    if found := _PARAMS.search(clause):
        told.params = float(found[1]) * (1e8 if found[2] == "亿" else 1e9)
    told.is_table |= bool(word("table").search(clause))
    told.is_full |= bool(word("full").search(clause)) and not re.search("lora", clause, re.IGNORECASE)
    told.is_spot |= bool(word("spot").search(clause))
    for cloud in _clouds():
        if re.search(rf"(?<![A-Za-z]){re.escape(cloud)}(?![A-Za-z])", clause, re.IGNORECASE):
            told.cloud = find_provider(cloud) or told.cloud
            break
    return ()


@functools.cache
def _clouds() -> tuple[str, ...]:
    known = names_data()["providers"]
    rows = [row["provider"] for row in facts.table("spot_notices")]
    return tuple(name for code in rows for name in (code, known[code]["zh"], known[code]["en"], *known[code]["aliases"]))


# ---- Memory.


def _rule(clause: str, told: Told) -> Sequence[Part]:
    """Bytes per parameter: "VRAM = parameters x 16 bytes"."""
    states = [name for name, words in figures()["states"].items() if expression(words).search(clause)]
    if "+" in clause and len(states) == len(figures()["states"]):  # "weights 2 + gradients 2 + optimizer 12"
        total = sum(float(one) for one in re.findall(r"\d+(?:\.\d+)?", re.sub(r"(?:fp|bf)\d+|=.*", "", clause, flags=re.IGNORECASE)))
        return [judged(clause, total == _STATES or None, both("train_rule"))]
    is_rule = (word("memory").search(clause) and word("param").search(clause)) or word("per_param").search(clause)
    found = _FACTOR.search(clause)
    if not is_rule or found is None or "%" in clause or _GB.search(clause) or _PARAMS.search(clause):
        return ()
    factor = float(next(one for one in found.groups() if one))
    if word("lean").search(clause) and not re.search(r"adamw?\b(?!\s*8)", clause, re.IGNORECASE):
        return [judged(clause, None, both("lean_rule"))]
    is_training = told.training and not (word("inference").search(clause) and not word("training").search(clause))
    each = _bytes(clause)
    if is_training:
        return [judged(clause, _STATES <= factor <= 1.25 * _STATES, both("train_rule"))]
    if told.inference:
        return (
            [judged(clause, each * 0.95 <= factor <= 1.3 * each if each else factor in (4.0, 2.0, 1.0, 0.5) or None, both("serve_rule"))]
            if each or (factor != _WEIGHT and factor <= 4.0)
            else [judged(clause, _WEIGHT <= factor <= 1.3 * _WEIGHT, both("serve_rule"))]
        )
    if factor == _STATES:
        return [judged(clause, True, both("train_rule"))]
    holds = True if factor == (each or _WEIGHT) else None
    return [judged(clause, holds, both("serve_rule") if holds else both("both_rules", train=both("train_rule"), serve=both("serve_rule")))]


def _bytes(clause: str) -> float:
    """Bytes of one number in the format that a clause names; 0 where it names none."""
    return next((size for words, size in figures()["bytes"].items() if expression(words).search(clause)), 0.0)


def _model_memory(clause: str, told: Told) -> Sequence[Part]:
    """Memory of a model's weights, or of its states in full training: "70B in FP16: 140 GB"."""
    amounts = list(_GB.finditer(clause))
    if not told.params or len(amounts) != 1 or told.is_table or cards_in(clause) or told.bits_per_s:
        return ()
    stated, params = _size(amounts[0]), q.count_text(told.params, "en")
    is_weights = bool(word("weights").search(clause)) and not re.search("状态|states|梯度", clause)
    is_full = told.is_full or bool(re.search("模型状态|model states", clause, re.IGNORECASE))
    if word("lean").search(clause) or not (is_weights or is_full):
        return ()
    each = (_bytes(clause) or _WEIGHT) if is_weights else _STATES
    need = told.params * each
    is_most = bool(word("most").search(clause))
    holds: bool | None = abs(stated / need - 1.0) <= _NEAR or (each == 0.5 and 1.0 <= stated / need <= 1.3)
    if not is_weights and not holds:
        holds = None if need < stated <= 2.0 * need else False
    if is_most and stated > need:
        holds = True if is_weights else holds
    key = "weights" if is_weights else "states"
    return [judged(clause, holds, both(key, params=params, bytes=f"{each:g}", need=q.data_text(need)))]


_SHARES = {"half": 0.5, "quarter": 0.25, "third": 1 / 3, "eighth": 0.125, "twice": 2.0, "four": 4.0}


def _format_ratio(clause: str, told: Told) -> Sequence[Part]:
    """How many times the memory of one format another takes ("INT8 takes half of FP16")."""
    named = sorted(
        (found.start(), found[0], size)
        for words, size in figures()["bytes"].items()
        for found in expression(words).finditer(clause)
        if found[0].casefold() != "half"
    )
    shares = [share for name, share in _SHARES.items() if word(f"share_{name}").search(clause)]
    if (
        len(named) != 2
        or len(shares) != 1
        or word("speed").search(clause)
        or not (word("memory").search(clause) or word("weights").search(clause))
    ):
        return ()
    (_, first, one), (_, second, two) = named[::-1] if word("from_to").search(clause) else named
    reason = both("ratio_of_formats", first=first, second=second, one=f"{one:g}", two=f"{two:g}", ratio=q.percent_text(one / two))
    return [judged(clause, math.isclose(one / two, shares[0]), reason)]


# ---- Networks.

_BITS = re.compile(rf"{_NUMBER}\s*([GMT])(?:bps|bit/?s|b/s)(?![A-Za-z])")
_BYTES_PER_S = re.compile(rf"{_NUMBER}\s*([GM])i?B/s|每秒\s*{_NUMBER}\s*([GM])i?B?(?![A-Za-z])", re.IGNORECASE)
_SCALE = {"M": 1e-3, "G": 1.0, "T": 1e3}


def _units(clause: str, told: Told) -> Sequence[Part]:
    """Bits and bytes of a network in one breath."""
    if bits := _BITS.search(clause):
        told.bits_per_s = _number(bits[1]) * _SCALE[bits[2].upper()] * 1e9
    stated = _BYTES_PER_S.search(_BITS.sub(" ", clause))
    if stated is None or not told.bits_per_s or not word("same").search(clause):
        return ()
    rate = _number(stated[1] or stated[3]) * _SCALE[(stated[2] or stated[4]).upper()] * 1e9
    holds = abs(rate * 8.0 / told.bits_per_s - 1.0) <= 0.05
    return [judged(clause, holds, both("units", bits=f"{told.bits_per_s / 1e9:g}", bytes=f"{told.bits_per_s / 8e9:.4g}"))]


# ---- Embedding tables.

_ROWS = re.compile(rf"{_COUNT}(?:{figures()['words']['rows']})", re.IGNORECASE)
_DIMS = re.compile(rf"(\d+)\s*(?:{figures()['words']['dims']})", re.IGNORECASE)


def _table(clause: str, told: Told) -> Sequence[Part]:
    if not told.is_table:
        return ()
    rows, dims = _ROWS.search(clause), _DIMS.search(clause)
    amount = next(iter(_GB.finditer(clause)), None)
    if rows and dims:
        count, each = _number(rows[1]) * _MULTIPLES[(rows[2] or "").casefold()], _bytes(clause) or 4.0
        told.table_bytes = count * float(dims[1]) * each
        reason = both("table", rows=_each(count), dims=dims[1], bytes=f"{each:g}", need=q.data_text(told.table_bytes))
        return [judged(clause, _agrees(_size(amount), told.table_bytes), reason)] if amount else ()
    if amount and told.table_bytes and re.search(r"adam|三份|3\s*[x倍]|三倍|总共|接近", clause, re.IGNORECASE):
        whole = 3.0 * told.table_bytes
        told.table_bytes = whole if word("adam").search(clause) or re.search("接近|总共", clause) else told.table_bytes
        return [judged(clause, _agrees(_size(amount), whole), both("table_adam", need=q.data_text(whole)))]
    if told.table_bytes and (word("adam").search(clause)) and not amount:
        return [judged(clause, True, both("table_adam", need=q.data_text(3.0 * told.table_bytes)))] if re.search("[两2二]", clause) else ()
    named = cards_in(clause)
    if told.table_bytes and named and (word("no_fit").search(clause) or word("fit").search(clause)):
        card = facts.accelerators()[named[0][-1]]
        fits = told.table_bytes <= card.memory_bytes
        reason = both("table_fit", need=q.data_text(told.table_bytes), had=q.memory_text(card.memory_bytes), card=card.name)
        return [judged(clause, fits != bool(word("no_fit").search(clause)), reason)]
    return ()


def _each(count: float) -> dict[Lang, str]:
    return {lang: q.count_text(count, lang) for lang in LANGS}


def _agrees(stated: float, known: float) -> bool:
    """The same amount, in GB or GiB."""
    return abs(stated / known - 1.0) <= _NEAR


# ---- Data sets and disks.

_SAMPLES = re.compile(rf"{_COUNT}(?:张|幅|个样本|条|images?|pictures?|samples?|图)", re.IGNORECASE)


def _dataset(clause: str, told: Told) -> Sequence[Part]:
    named = next((one for one in re.findall(r"[A-Za-z][\w-]{3,}", clause, re.ASCII) if _forms(one)), told.dataset)
    if not named or re.search(r"分钟|小时|天|hours?\b|days?\b|epoch|轮", clause):
        return ()
    told.dataset = named
    rows = _forms(named)
    sizes = sorted(row.size_bytes for row in rows if row.size_bytes)
    counts = [row.samples for row in rows if row.samples]
    amount, samples = _GB.search(clause), _SAMPLES.search(clause)
    if not sizes or not (amount or samples) or (amount and sense(clause).concepts & {"ram", "vram"}):
        return ()  # memory is no size of the data
    holds = True
    if amount:
        holds &= 0.92 * sizes[0] <= _size(amount) <= 1.08 * sizes[-1]
    if samples and counts:
        holds &= any(abs(_number(samples[1]) * _MULTIPLES[(samples[2] or "").casefold()] / count - 1.0) <= 0.08 for count in counts)
    size = "–".join(dict.fromkeys(q.data_text(one) for one in (sizes[0], sizes[-1])))
    return [judged(clause, holds, both("dataset", name=named, samples=_each(float(counts[0]) if counts else math.nan), size=size))]


@functools.cache
def _forms(name: str) -> tuple[facts.records.Dataset, ...]:
    """The usual forms of a data set of this name: those of its samples, no smaller copies."""
    if (meant := facts.bundled.exact_dataset(name)) is None:
        return ()
    same = [row for row in facts.datasets().values() if row.samples == meant.samples and row.domain == meant.domain and row.samples]
    return tuple(
        row for row in same if row.name.split()[0] == meant.name.split()[0] and not re.search(r"\bas\b|\bpx\b|\d+px", row.name)
    ) or (meant,)


_RATE = re.compile(rf"{_NUMBER}\s*(?:(?P<mb>M(?:i?B)?/s|MBps)|(?P<iops>IOPS))", re.IGNORECASE)


def _volume(clause: str, told: Told) -> Sequence[Part]:
    rows = {row["volume"]: row for row in facts.table("volumes") if "-" not in row["volume"]}
    told.volume = next((name for name in rows if re.search(rf"\b{name}\b", clause, re.IGNORECASE)), told.volume)
    if not told.volume:
        return ()
    row, parts = rows[told.volume], []
    for rate in _RATE.finditer(clause):
        stated, is_iops = _number(rate[1]), bool(rate["iops"])
        base = float(row["base_iops" if is_iops else "base_mb_per_s"])
        most = float(row["max_iops"]) if is_iops else max(float(row["max_mb_per_s"]), float(row["provisioned_mb_per_s"]))
        fits = {"base": abs(stated / base - 1) <= 0.05 if base else False, "most": abs(stated / most - 1) <= 0.05}
        holds = (
            fits["base"] if word("default").search(clause) else fits["most"] if word("peak").search(clause) else any(fits.values()) or None
        )
        unit = "IOPS" if is_iops else "MB/s"
        parts.append(judged(clause, holds, both("volume", volume=told.volume, base=f"{base:g} {unit}", most=f"{most:g} {unit}")))
    return parts


# ---- Spot servers.

_TIME = re.compile(
    r"(\d+(?:\.\d+)?|[一两半])\s*(?:个)?\s*(秒|分钟|小时|天|seconds?|minutes?|hours?|days?|min\b|s\b|h\b)|(?<=[a-z] )an? (hour|minute)|(\w+)[ -](minutes?|hours?)",
    re.IGNORECASE,
)
_SPOKEN = {"一": 1.0, "两": 2.0, "半": 0.5, "two": 2.0, "one": 1.0, "five": 5.0}
_SECONDS = {"秒": 1.0, "s": 1.0, "分": 60.0, "m": 60.0, "小": 3600.0, "h": 3600.0, "天": 86400.0, "d": 86400.0}


def _spot(clause: str, told: Told) -> Sequence[Part]:
    row = next((row for row in facts.table("spot_notices") if row["provider"] == told.cloud), None)
    found = _TIME.search(clause)
    if row is None or found is None or not told.is_spot or not (seconds := _seconds(found)):
        return ()
    cloud = {lang: q.provider_text(told.cloud, lang) for lang in LANGS}
    if word("protected").search(clause):
        known = float(row["protected_s"])
        reason = both("protected", cloud=cloud, hours=_time(known)) if known else both("protected_not", cloud=cloud)
        return [judged(clause, bool(known) and abs(seconds / known - 1) <= 0.1, reason)]
    if word("notice").search(clause):
        known = float(row["notice_s"])
        return [judged(clause, abs(seconds / known - 1) <= 0.1, both("notice", cloud=cloud, notice=_time(known)))]
    return ()


def _seconds(found: re.Match[str]) -> float:
    if found[3]:
        return _SECONDS[found[3][0].casefold()]
    number, unit = (found[1], found[2]) if found[1] else (found[4], found[5])
    value = _SPOKEN.get(number.casefold(), float(number) if re.fullmatch(r"[\d.]+", number) else 0.0)
    return value * _SECONDS[unit[0].casefold()]


def _time(seconds: float) -> dict[Lang, str]:
    return {lang: q.duration_text(seconds, lang) for lang in LANGS}


# ---- ZeRO and LoRA.


def _zero(clause: str, told: Told) -> Sequence[Part]:
    if found := re.search(r"zero\s*-?\s*([123])(?!\d)", clause, re.IGNORECASE):
        told.stage = int(found[1])
    if not told.stage or (len(re.findall(r"zero\s*-?\s*[123]", clause, re.IGNORECASE)) > 1):
        return ()
    if word("traffic").search(clause) and word("greatest").search(clause):
        return [judged(clause, told.stage == 3, both("traffic"))]
    if not word("shard").search(clause):
        return ()
    shares = set(figures()["zero"][str(told.stage)])
    said = {name for name, words in figures()["states"].items() if expression(words).search(clause)}
    if not said:
        return ()
    holds = not said & shares if word("denied").search(clause) else said == shares if word("only").search(clause) else said <= shares
    states = {
        lang: ("、" if lang == "zh" else ", ").join(both(f"state_{name}")[lang] for name in figures()["zero"][str(told.stage)])
        for lang in LANGS
    }
    return [judged(clause, holds, both("zero", stage=told.stage, states=states))]


def _lora(clause: str, told: Told) -> Sequence[Part]:
    found = re.search(r"(\d+(?:\.\d+)?)\s*%", clause)
    if found is None or not re.search(r"lora", clause, re.IGNORECASE) or not word("param").search(clause):
        return ()
    return [judged(clause, 0.05 <= float(found[1]) <= 3.0, both("lora"))]


# ---- Methods beside each other, and what everybody knows.

_COMPARED = re.compile(
    r"(?P<first>q?lora|全参数?(?:微调)?|全量(?:微调)?|full(?:[ -]parameter)? fine-?tuning)\s*(?:微调)?\s*(?:比|(?:needs?|takes?|uses?) (?P<en>less|more) (?:gpu )?(?:memory|vram) than)"
    r"\s*(?P<second>q?lora|全参数?(?:微调)?|全量(?:微调)?|full(?:[ -]parameter)? fine-?tuning)\s*(?:微调)?\s*(?:更|要)?\s*(?P<zh>省|少占|占用?(?:的)?显存(?:更)?少|节省|费|多占|吃)?\s*(?:显存|内存)?",
    re.IGNORECASE,
)


def _methods(clause: str, told: Told) -> Sequence[Part]:
    """Which of two ways to fine-tune takes less memory."""
    from rightfit.explain.trials import need_on_one_card
    from rightfit.workload import Workload

    found = _COMPARED.search(clause)
    if found is None or not (found["en"] or found["zh"]) or not word("memory").search(clause):
        return ()
    methods = [{"q": "qlora", "l": "lora"}.get(found[name][0].casefold(), "full") for name in ("first", "second")]
    needs = [need_on_one_card(Workload(model=_EXAMPLE, task="finetune", method=method, data="10Mtok")) for method in methods]
    is_more = (found["en"] or "").casefold() == "more" or (found["zh"] or "") in ("费", "多占", "吃")
    names = [{lang: q.method_text(method, lang) for lang in LANGS} for method in methods]
    reason = both("methods_memory", first=names[0], second=names[1], one=q.memory_text(needs[0]), two=q.memory_text(needs[1]))
    return [judged(clause, needs[0] > needs[1] if is_more else needs[0] < needs[1], reason)]


_EXAMPLE = "meta-llama/Meta-Llama-3-8B"


def _common(clause: str, told: Told) -> Sequence[Part]:
    """What holds whatever the job (figures.toml, [[common]]): all of its words are said and none
    that it excludes."""
    for entry in figures()["common"]:
        if all(expression(words).search(clause) for words in entry["says"]) and not re.search(
            entry.get("unless", r"\d"), clause, re.IGNORECASE
        ):
            found = judged(clause, entry["holds"], {lang: entry[lang] for lang in LANGS})
            return [dataclasses.replace(found, is_common=True)]
    return ()


READERS: tuple[Reader, ...] = (
    _remember,
    _rule,
    _format_ratio,
    _methods,
    _common,
    _units,
    _table,
    _model_memory,
    _dataset,
    _volume,
    _spot,
    _zero,
    _lora,
)
