"""Whether a job fits in so much GPU memory, and whether cards have a feature, whatever their count
("does 70B QLoRA fit in 48 GB", "2 张 4090 有 NVLink 吗")."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.explain import quantities as q
from rightfit.explain.claim_words import card_pattern
from rightfit.explain.claims import claim_lookup, feature_of, features_in
from rightfit.explain.fit_claims import ROOMY, counted_weights, format_of
from rightfit.explain.messages import topic
from rightfit.explain.trials import need_on_one_card
from rightfit.explain.yes_or_no import is_question
from rightfit.facts.expressions import expression
from rightfit.market.denials import turned
from rightfit.messages import LANGS, Lang
from rightfit.units import GIB

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.market.verdicts import CheckResult

_MEMORY = re.compile(
    r"(?P<amount>\d+(?:\.\d+)?)\s*G(?:i?B)?(?![A-Za-z0-9])(?:\s*(?:的)?(?:显存|显卡|卡|of (?:gpu )?memory|of vram|vram|gpu|card))?",
    re.IGNORECASE,
)
_FITS = expression(r"\bfits?\b|\benough\b|够|放得下|装得下|放不下|放得进|塞得下|跑得动")
_ENOUGH = re.compile(r"(?:is|are|would|will) (?P<what>.+?) (?:be )?(?:enough|sufficient) (?P<job>(?:to|for) .+?)\s*\??", re.IGNORECASE)
_HOST = expression(r"(?<!显)内存|\bram\b|host memory|硬盘|磁盘|\bdisk\b|\bssd\b")


def _texts() -> Mapping[str, Any]:
    return topic("fit_questions")


def _text(key: str, lang: Lang, **fields: Any) -> str:
    text: str = _texts()[key][lang]
    return text.format(**fields)


def fit_question(sentence: str, catalog: Catalog) -> CheckResult | None:
    """Whether a model fits in so many GB of GPU memory that a question names without a card: each
    way to fine-tune that is meant, or its weights and cache as a service."""
    from rightfit.workload.ask import understand
    from rightfit.workload.model import Workload

    if not is_question(sentence) or not _FITS.search(sentence) or _HOST.search(sentence):
        return None
    if (enough := _ENOUGH.fullmatch(sentence.strip())) is not None:  # said as a statement, which cards and jobs are judged by
        judged = claim_lookup(f"{enough['what']} is enough {enough['job']}?", catalog)
        return None if judged is None else dataclasses.replace(judged, query=sentence)
    if (found := _MEMORY.search(sentence)) is None:
        return None
    rest = f"{sentence[: found.start()]} {sentence[found.end() :]}"
    try:
        wishes = understand(rest).wishes
    except RightfitError:
        return None
    if "model" not in wishes or "gpu" in wishes:
        return None
    job = {name: value for name, value in wishes.items() if name in ("model", "task", "method", "quantization", "seq_len", "num_gpus")}
    had = float(found["amount"]) * GIB
    if job.get("task") == "serve" or (not {"task", "method"} & set(wishes)):
        return _served(sentence, job, had)
    told: dict[Lang, list[str]] = {lang: [] for lang in LANGS}
    fits: list[bool] = []
    for one in _jobs(job):
        try:
            need = need_on_one_card(Workload(**one), catalog=catalog)
        except RightfitError:
            return None
        if math.isnan(need):
            return None
        fits.append(need <= had)
        for lang in LANGS:
            way = q.method_text(str(one["method"]), lang) if "method" in one else _text("train", lang)
            key = "fits" if fits[-1] else "fits_not"
            told[lang].append(_text(key, lang, way=way, need=q.memory_text(need), had=q.memory_text(had), model=one["model"]))
    return _result(sentence, job, told, "yes" if all(fits) else "no" if not any(fits) else "depends")


def asked_to_fit(sentence: str) -> str:
    """A question whether memory runs out, asked as whether it is enough; "" for any other."""
    for words, meant in _texts()["overflow"]:
        if (pattern := re.compile(words, re.IGNORECASE)).search(sentence):
            return str(pattern.sub(meant, sentence.strip()))
    return ""


def overflowing(sentence: str, fits: CheckResult) -> CheckResult:
    """The answer whether memory runs out, from that whether it is enough."""
    answer = {"yes": "no", "no": "yes", "helped": "yes"}.get(answer := str(fits.facts.get("answer", "")), answer)
    return dataclasses.replace(
        fits,
        query=sentence,
        claim=turned(fits.claim),
        facts={**fits.facts, **({"answer": answer} if answer else {})},
    )


def _served(sentence: str, job: dict[str, Any], had: float) -> CheckResult | None:
    """A service, by its weights, which leave a quarter of the memory to the cache where it fits."""
    told_as = format_of(job)
    if (weights := counted_weights(job)) is None:
        return None
    answer = "yes" if weights <= ROOMY * had else "depends" if weights <= had else "no"
    told = {
        lang: [
            _text(
                f"serve_{answer}",
                lang,
                model=job["model"],
                format=told_as.upper() or _text("bits", lang),
                weights=q.memory_text(weights),
                had=q.memory_text(had),
            )
        ]
        for lang in LANGS
    }
    return _result(sentence, job, told, answer)


def _result(sentence: str, job: dict[str, Any], told: Mapping[Lang, Sequence[str]], answer: str) -> CheckResult:
    from rightfit.market.verdicts import CheckResult

    claim = {"yes": "right", "no": "wrong"}.get(answer, "unknown")
    return CheckResult(sentence, "market", True, claim, {"answer": answer, "job": job}, (), "\n".join(told["en"]), "\n".join(told["zh"]))


def _jobs(job: dict[str, Any]) -> list[dict[str, Any]]:
    """The job that is meant; of fine-tuning without a method each of the three."""
    bare = {name: value for name, value in job.items() if name != "num_gpus"}
    if "method" in bare or bare.get("task") == "train":
        return [bare]
    return [{"task": "finetune", **bare, "method": method} for method in ("full", "lora", "qlora")]


def feature_question(sentence: str, catalog: Catalog) -> CheckResult | None:
    """Whether the card of a question has a feature, however many of it are told."""
    from rightfit.market.verdicts import CheckResult

    features = features_in(sentence)
    bare = re.sub(r"(?<=[\dS])s\b", "", sentence)
    cards = [found[0] for found in card_pattern().finditer(bare) if facts.match_accelerators(found[0])]
    if len(features) != 1 or len(cards) != 1 or not _HAS.fullmatch(_OWN.sub("", bare.replace(cards[0], "§"))):
        return None
    judged = feature_of(cards[0], features[0], catalog)
    if judged is None or judged[0] is None:
        return None
    has, _, reason = judged
    claim = "right" if has else "wrong"
    return CheckResult(sentence, "market", True, claim, {"card": cards[0], "feature": features[0]}, (), reason["en"], reason["zh"])


_OWN = re.compile(r"[\s?？,，。]|[A-Za-z]*(?:RTX|GeForce|NVIDIA|英伟达|Tesla)", re.IGNORECASE)
#: Nothing but a count, the card (§), a verb, and the feature.
_HAS = re.compile(
    r"(?:请问)?(?:do|does|is|are|have|has|can)?(?:\d+|[一两二三四八]|two|four|eight|an?|the)?(?:[张块个卡x]|cards?|gpus?|of)*§(?:显?卡|gpus?|cards?)?"
    r"(?:之间|间|上|到底|都|也)*(?:能|可以|会)?(?:不)?(?:支持|有没有|有|带|用|support|supports|have|has|use|run|with|connectedby|there)+"
    r"(?:不支持)?[\w+-]+?(?:吗|么|嘛|呢)?",
    re.IGNORECASE,
)
