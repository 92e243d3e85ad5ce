"""Whether a model fits on what a sentence or a row of a table names ("one A100 80GB holds 70B with
QLoRA", "24 GB is enough for a 7B model", "Llama-3-8B | 1x A100 or 2x RTX 3090 | full / LoRA"):
every hardware that is named with every method that is named."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.explain import quantities as q
from rightfit.explain.claim_words import Judged, any_of, both, card_pattern, cards_of, job_text, named, table, text_of, verb
from rightfit.explain.statement_parts import word
from rightfit.explain.trials import (
    UNHURRIED,
    SetupOutcome,
    best_for,
    best_of,
    cost_text,
    need_on_one_card,
    outcome_of,
    outcome_text,
    where_text,
)
from rightfit.explain.yes_or_no import is_question
from rightfit.facts.expressions import expression
from rightfit.market.offers import OfferFilter
from rightfit.messages import LANGS, Lang
from rightfit.records import dataclass

if TYPE_CHECKING:
    from rightfit.facts.records import Accelerator
    from rightfit.market import Catalog

#: Options that say how much a service has to do.
LOAD = frozenset({"rate", "users", "concurrency"})
#: Share of the memory that weights may take where the rest is enough for some requests at once.
ROOMY = 0.75
#: Share of a card that weights may take where a few short requests are to run beside them.
_TIGHT = 0.85
#: Share of a card's memory that a job can take.
_USABLE = 0.95
#: A job that takes less than this share of what it is said to need does not need it.
_FAR = 0.6
_AMOUNT = re.compile(r"\d+(?:\.\d+)?[KMGT]i?B?", re.IGNORECASE)
_COUNT = re.compile(r"(\d+)\s*(?:x|块|张|卡|\*)?\s*(?:以上)?\s*(?:的)?\s*$", re.IGNORECASE)
_OWN_MEMORY = re.compile(r"(?<![A-Za-z0-9_.])\d{1,3}\s*G(?:i?B)?\s*(?:显存|vram)?\s*(?:的)?\s*$", re.IGNORECASE)
_NO_ADAPTERS = re.compile(r"(?:非|不用|不使用|不做|不是|without|non-?|not)\s*q?-?lora", re.IGNORECASE)
_BRAND = re.compile(r"(?:NVIDIA|GeForce|RTX|Tesla|Quadro|英伟达|\s)+$", re.IGNORECASE)
#: Memory with no name of a card: "a 24 GB GPU", "24GB 显存".
_MEMORY = re.compile(
    r"(?<![A-Za-z0-9_.])(?P<size>\d+(?:\.\d+)?)\s*(?:GB|GiB|G)(?![A-Za-z/])\s*(?:的|of)?\s*(?P<noun>显存|显卡|GPU|VRAM|卡|cards?|(?:gpu|video) memory)?",
    re.IGNORECASE,
)
#: Memory of a card of one's own.
_OWNED = re.compile(
    r"(?:我(?:只|就)?有|我的|手[头里]|只有|\bi(?: only)? have|\bi.ve got|\bmy)\s*(?:一?[张块]|an?\b)?\s*(?P<size>\d+(?:\.\d+)?)\s*G(?:i?B)?\s*(?:的)?(?:显存|显卡|卡|gpu|card|vram)",
    re.IGNORECASE,
)
#: What stands before an amount of GPU memory ("显存必须 ≥40GB").
_OF_MEMORY = re.compile(
    r"(?:显存|\bvram|\b(?:gpu|video) memory)\s*(?:必须|至少|需要|最少|不低于|不少于|大于|达到|要|得|must be|should be|of|is|at least|\s|[≥>=])*$",
    re.IGNORECASE,
)
#: Weights in 16 bits are said of a model that is to be loaded.
_SIXTEEN = re.compile(r"(?<![a-z0-9])(?:fp16|bf16|float16|16[ -]?bits?)(?![a-z0-9])|16\s*位|半精度", re.IGNORECASE)
#: Sizes of a card in brackets ("A100 (40/80GB)").
_SIZES = re.compile(r"\s*\(\s*((?:\d+\s*(?:GB?|GiB)?\s*/\s*)*\d+\s*(?:GB?|GiB))\s*\)", re.IGNORECASE)
#: Letters of a model's name that is written in capitals alone (SDXL, BERT).
_SHORTEST_NAME = 4
#: Asked of the cards that are named: how long, for how much, whether it is worth it, for how many.
_OTHER_AMOUNT = expression(
    r"多久|多长时间|多大|多少显存|几天|几个?小时|多少钱|费用|花多少|多少个?(?:人|用户|并发|路|请求)|几个人|怎么样|划算|值得|值不值|性价比"
    r"|\d+\s*G(?:bps|b/s|bit/?s?)(?![A-Za-z])|(?<![A-Za-z])(?:nvlink|infiniband|rdma)(?![A-Za-z])"
    r"|\bhow (?:long|many (?:users|requests|people))\b|\bhow much (?:does|will|would|is) it\b|\bcosts?\b|\bworth\b"
)
#: A size alone.
_BARE = re.compile(r"\d+(?:\.\d+)?[bB]")
_OTHER_JOB = expression(r"以上|\bup\b")


@dataclass(frozen=True, slots=True)
class Hardware:
    """Cards that a sentence names, or memory alone (`memory_bytes`, no names)."""

    spoken: str
    names: tuple[str, ...]
    count: int
    memory_bytes: float = 0.0


def fits(said: str, catalog: Catalog) -> Judged | None:
    """The verdict on a sentence that names a model and what it is to fit on; None on any other."""
    said = said.replace("（", "(").replace("）", ")").replace("×", "x")
    is_row = " | " in said
    model = model_in(card_pattern().sub(lambda one: " " if facts.match_accelerators(one[0]) else one[0], said))
    on_data = job_on_data(said) if not model else {}
    is_needed = bool(is_question(said) and verb("needs").search(said) and cards_of(said))
    if not model and not on_data and is_question(said) and (is_needed or verb("fits").search(said)) and cards_of(said):
        model = _model_of_words(said)
    model = model or str(on_data.get("model", ""))
    if model and is_question(said) and _BARE.fullmatch(model) and (whole := _model_of_words(said)):
        model = whole  # "Flux dev 12B": the size is of the name before it
    if not model or not (is_row or is_needed or verb("fits").search(said)):
        return None
    hardware = _hardware(said)
    if is_question(said) and hardware and hardware[0].names and _OTHER_AMOUNT.search(said):  # of these cards, which a plan says
        return None
    if is_question(said) and _is_load(said):  # so many users or requests: a plan says whether they are served
        return None
    if not hardware:
        return None if is_row else _on_cpu(said, model, catalog)
    jobs = [on_data] if on_data else list(_jobs(said.rsplit(" | ", 1)[-1] if is_row else said, model))
    beside: list[dict[str, Any]] = []
    if not is_row and is_question(said) and len(jobs) > 1 and jobs[0]["task"] == "serve":  # it asks whether it runs; tuning is told beside
        jobs, beside = jobs[:1], jobs[1:]
    if is_question(said) and (own := _OWNED.search(said)) is not None:  # what others say is needed is beside the point
        hardware = [Hardware(f"{own['size']} GB", (), 1, float(own["size"]) * 2**30)]
    elif not is_row and is_question(said) and hardware[0].names and hardware[0].count == 1 and _is_need(said):
        return _needed(hardware, jobs, model, catalog)
    if not is_row and _is_need(said) and hardware[0].count > 1:
        return _fewer_do(hardware[0], jobs, model, catalog) if len(hardware) == 1 else None
    if not hardware[0].names and (len(hardware) > 1 or not verb("enough").search(said)):
        return None
    tried = [trial for one in hardware if (trial := _tried(one, jobs, catalog)) is not None]
    if not tried and any(one.names and server_with(catalog, one.names, one.count) is not None for one in hardware):
        return None  # servers are there, and nothing could be evaluated on them: a plan says more
    if not tried:
        spoken = " / ".join(f"{one.count} x {one.spoken}" for one in hardware)
        return Judged("rule", "unknown", both("fit_no_server", cards=spoken), {"model": model})
    answers = {answer for answer, _, _ in tried}
    answer = answers.pop() if len(answers) == 1 else "some" if is_row or len(tried) > 1 else "depends"
    if answer == "depends" and is_row:
        answer = "some"
    told: dict[Lang, str] = {lang: ("；" if lang == "zh" else "; ").join(text[lang] for _, text, _ in tried) for lang in LANGS}
    if tuned := {str(job["method"]): need for job in beside if math.isfinite(need := least_bytes(job, catalog))}:
        for lang in LANGS:
            needs = ("、" if lang == "zh" else ", ").join(
                f"{q.method_text(way, lang)} {q.memory_text(need)}" for way, need in tuned.items()
            )
            told[lang] += ("；" if lang == "zh" else "; ") + text_of("tuned_beside", lang, needs=needs)
    known = {"model": model, "answer": "depends" if answer == "some" else answer, **tried[0][2]}
    claim = {"yes": "right", "no": "wrong", "helped": "wrong", "some": "wrong"}.get(answer, "unknown")
    return Judged("rule", claim, _qualified(answer, told=told), known)


def need_claim(said: str, catalog: Catalog) -> Judged | None:
    """The verdict on so much GPU memory that a job of a named model and method is said to need:
    less than it needs at least is wrong, and so is far more."""
    said = said.replace("（", "(").replace("）", ")")
    model, amounts = model_in(said), [one for one in _MEMORY.finditer(said) if one["noun"] or _OF_MEMORY.search(said[: one.start()])]
    is_most = bool(word("most").search(said))
    if not model or len(amounts) != 1 or cards_of(said) or not (is_most or verb("needs").search(said)):
        return None
    had = float(amounts[0]["size"]) * 2**30
    needs: list[float] = []
    lines: list[dict[Lang, str]] = []
    for job in _tuned_too(list(_jobs(said, model))):
        need = least_bytes(job, catalog)
        if math.isfinite(need):
            needs.append(need)
            fields = {"job": job_text(job), "need": q.memory_text(need), "memory": f"{amounts[0]['size']} GB"}
            is_far = not is_most and need < _FAR * had
            lines.append(both("need_less" if is_far else "need_fits" if need <= had else "need_fits_not", **fields))
    if not needs:
        return None
    holds = {(is_most or _FAR * had <= need) and need <= had for need in needs}
    claim = "unknown" if len(holds) > 1 else "right" if holds.pop() else "wrong"
    return Judged("rule", claim, _joined(lines), {"model": model, "needs": needs})


def _tuned_too(jobs: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Who says no more than that a language model is trained may mean each way to do it."""
    if len(jobs) != 1 or jobs[0]["task"] != "train" or not _amount(jobs[0]["model"]).endswith("tok"):
        return jobs
    model = jobs[0]["model"]
    return [{"model": model, "task": "finetune", "method": method, "data": _amount(model)} for method in ("full", "lora", "qlora")]


def _on_cpu(said: str, model: str, catalog: Catalog) -> Judged | None:
    """Whether a server without a GPU serves a model to one user, and how fast; None where nothing
    says that there is no GPU, or of training."""
    jobs = [job for job in _jobs(said, model) if job["task"] == "serve"]
    if not jobs or cards_of(said) or not any_of(table()["no_gpu"]["words"]).search(said):
        return None
    told = str(jobs[0].get("quantization", ""))
    weights = facts.tables.senses("choices", "cpu_weights").get(told, told)
    wish = {
        **jobs[0],
        **UNHURRIED,
        "ttft": "1min",
        "tpot": "1s",
        "gpu": "none",
        "purchase": ("on-demand",),
        **({"quantization": weights} if weights else {}),
    }
    best = best_for(wish, catalog)
    if best is None or "tpot_s" not in best.estimate:
        return None
    speed = {"slow": 1.0 / best.estimate["tpot_s"].high80, "fast": 1.0 / best.estimate["tpot_s"].low80}
    reason = both(
        "fit_cpu",
        model=model,
        format=weights or "bf16",
        where=f"{best.provider}/{best.instance_type}",
        vcpus=q.plain(best.vcpus),
        memory=q.memory_text(best.memory_bytes),
        cost=f"${best.cost.total_usd:,.0f}",
        **{name: f"{rate:.2g}" for name, rate in speed.items()},
    )
    return Judged("rule", "right", reason, {"model": model, "answer": "yes", "server": f"{best.provider}/{best.instance_type}"})


def _hardware(said: str) -> list[Hardware]:
    """What a sentence names to run on: its first cards with those that stand beside them as other
    choices, else memory alone."""
    found: list[Hardware] = []
    end = 0
    for spoken, names in cards_of(said):
        start = said.index(spoken, end)
        if found and not re.search(r"或|\bor\b|[/、,，|]\s*(?:RTX\s*|NVIDIA\s*|\d+\s*x\s*)*$|[/、]", said[end:start]):
            break
        if (count := _count(said[:start])) is None:
            return []
        end = start + len(spoken)
        sizes = _SIZES.match(said, end)
        for size in re.findall(r"\d+", sizes[1]) if sizes else ("",):
            sized = f"{spoken} {size}GB" if size else spoken
            found.append(Hardware(sized, facts.match_accelerators(sized) or names, count))
    if found:
        return found
    amounts = [one for one in _MEMORY.finditer(said) if one["noun"] or verb("enough").search(said)]
    memory = re.search(r"内存|\bram\b|数据|data|磁盘|disk|硬盘", said, re.IGNORECASE)
    if len(amounts) != 1 or (memory and not amounts[0]["noun"]):
        return []
    size = float(amounts[0]["size"])
    return [Hardware(f"{size:g} GB", (), 1, size * 2**30)] if _count(said[: amounts[0].start()]) == 1 else []


def _is_need(said: str) -> bool:
    """Whether a sentence says that fewer cards do not do it."""
    return bool(re.search(r"才(?:能|够|行|可以)", said)) or (bool(verb("needs").search(said)) and not verb("enough").search(said))


def _fewer_do(one: Hardware, jobs: Sequence[Mapping[str, Any]], model: str, catalog: Catalog) -> Judged | None:
    """A need of several cards is wrong where fewer hold one of the jobs that are meant."""
    lightest = [job for job in jobs if job["task"] != "serve" or len(jobs) == 1]
    for count in (1, 2, 4, 8):
        if count > one.count:
            break
        for job in lightest[::-1]:
            trial = _tried(Hardware(one.spoken, one.names, count), [job], catalog)
            if trial and trial[0] == "yes":
                answer, claim = ("yes", "right") if count == one.count else ("fewer", "wrong")
                return Judged(
                    "rule",
                    claim,
                    _qualified(answer, told=trial[1]),
                    {"model": model, "count": count, "answer": "yes" if claim == "right" else "no"},
                )
    return _fit_of_all(one, lightest, model, catalog)


def _needed(hardware: Sequence[Hardware], jobs: Sequence[Mapping[str, Any]], model: str, catalog: Catalog) -> Judged | None:
    """Whether a job needs a card: not where it costs less on another one."""
    names = {name for one in hardware for name in one.names}
    lines: list[dict[Lang, str]] = []
    found: list[bool] = []
    for job in jobs:
        if (best := best_for(job, catalog)) is not None:
            found.append(best.accelerator.name in names)
            card = f"{best.num_accelerators} x {best.accelerator.name}" if best.num_accelerators else "CPU"
            lines.append(both("need_cheapest", job=job_text(job), where=where_text(best), card=card, cost=cost_text(best)))
    if not found:
        return None
    answer = "yes" if all(found) else "no" if not any(found) else "depends"
    claim = {"yes": "right", "no": "wrong"}.get(answer, "unknown")
    return Judged("rule", claim, _joined(lines), {"model": model, "answer": answer, "cards": sorted(names)})


def _fit_of_all(one: Hardware, jobs: Sequence[Mapping[str, Any]], model: str, catalog: Catalog) -> Judged | None:
    trial = _tried(one, jobs, catalog)
    if trial is None:
        return None
    answer, told, known = trial
    claim = {"yes": "right", "no": "wrong", "helped": "wrong"}.get(answer, "unknown")
    return Judged("rule", claim, _qualified(answer, told=told), {"model": model, "answer": answer, **known})


_Trial = tuple[str, Mapping[Lang, str], dict[str, Any]]


def _tried(one: Hardware, jobs: Sequence[Mapping[str, Any]], catalog: Catalog) -> _Trial | None:
    """yes, no, helped or depends over the jobs on some hardware, with the reason and figures; None
    where it cannot be told."""
    if not one.names:
        return _in_memory(one, jobs, catalog)
    row = server_with(catalog, one.names, one.count)
    if row is None:
        return _on_own(one, jobs, catalog)
    servers = catalog.servers()
    server, memory = f"{servers.provider[row]}/{servers.instance_type[row]}", one.count * float(servers.accelerator_memory_bytes[row])
    tried = [(job, outcome_of(job, server, catalog=catalog)) for job in jobs]
    tried = [each for each in tried if each[1].fits is not None]  # a network of images has no LoRA
    if not tried:
        return None
    in_fewer = [_in_fewer_bits(job, outcome, server, memory, catalog) for job, outcome in tried]
    is_slow = any(in_fewer) or any(_is_slow(job, outcome, memory) for job, outcome in tried)
    answer = "depends" if is_slow else _answer_of([outcome for _, outcome in tried])
    lines = [both("fit", job=job_text(job), outcome=_outcome(job, outcome, memory)) for job, outcome in tried]
    lines = [_joined([line, helped]) if helped else line for line, helped in zip(lines, in_fewer, strict=True)]
    if answer == "yes" and len(tried) > 1 and all(job["task"] == "finetune" for job, _ in tried):  # one line: the largest
        most = max((outcome for _, outcome in tried), key=lambda outcome: outcome.peak_bytes)
        names: dict[Lang, str] = {lang: ("、" if lang == "zh" else ", ").join(job_text(job)[lang] for job, _ in tried) for lang in LANGS}
        lines = [both("fit", job=names, outcome={lang: outcome_text(most, lang) for lang in LANGS})]
    return answer, _joined(lines), {"server": server, "count": one.count, "fits": [outcome.fits for _, outcome in tried]}


def _joined(lines: Sequence[Mapping[Lang, str]]) -> dict[Lang, str]:
    return {lang: ("；" if lang == "zh" else "; ").join(line[lang] for line in lines) for lang in LANGS}


def _in_memory(one: Hardware, jobs: Sequence[Mapping[str, Any]], catalog: Catalog) -> _Trial | None:
    """Jobs against the memory of one card, by what they need at least: one sequence at a time,
    gradient checkpointing, nothing in the host's memory. A service: its weights."""
    from rightfit.facts.engines import engine_class

    done: list[str] = []
    lines: list[dict[Lang, str]] = []
    for job in jobs:
        need = least_bytes(job, catalog, share=1.0)
        if not math.isfinite(need):
            continue
        room = _USABLE * one.memory_bytes
        if need > room and job["task"] != "serve" and "seq_len" not in job and (short := _short_need(job, catalog)) <= room:
            amounts = {"need": q.memory_text(need), "short": q.memory_text(short), "tokens": str(_SHORT), "memory": one.spoken}
            lines.append(both("need_short", job=job_text(job), **amounts))
            done.append("depends")
            continue
        is_tight = job["task"] == "serve" and ROOMY * one.memory_bytes < need <= room  # nothing is left for the cache
        is_in_engine = need <= engine_class("vllm").memory_fraction * one.memory_bytes or job["task"] != "serve"
        done.append("no" if need > room or not is_in_engine else "depends" if is_tight else "yes")
        key = ("need_weights" if job["task"] == "serve" else "need") + ("_tight" if is_tight else "_fits" if need <= room else "_fits_not")
        lines.append(both(key, job=job_text(job), need=q.memory_text(need), memory=one.spoken))
        if job["task"] == "batch" and done[-1] == "no" and (told := _denoiser(job["model"], one.memory_bytes)) is not None:
            lines[-1], done[-1] = _joined([lines[-1], told]), "depends"
        if job["task"] == "serve" and done[-1] == "no" and not _is_told(job):
            small = {**job, "quantization": _FEWER_BITS[-1]}
            in_few = weights_bytes(small)
            if in_few <= _TIGHT * one.memory_bytes:
                lines[-1], done[-1] = _joined([lines[-1], _fewer(small)]), "depends"
            elif math.isfinite(in_few):
                shown = both("serve_in_fewer_not", format=both(f"format_{_FEWER_BITS[-1]}"), weights=q.memory_text(in_few))
                lines[-1] = _joined([lines[-1], shown])
    if not done:
        return None
    answer = done[0] if len(set(done)) == 1 else "depends"
    return answer, _joined(lines), {"memory_bytes": one.memory_bytes, "fits": [word == "yes" for word in done]}


#: Forms of weights that lose little, the closest first.
_FEWER_BITS = ("fp8", "awq")
#: A short sequence [tokens], with which a job may fit that does not at the usual length.
_SHORT = 512


def _short_need(job: Mapping[str, Any], catalog: Catalog) -> float:
    """Memory that a language model's job takes at least with short sequences [bytes]; infinite of
    any other."""
    if not str(job.get("data", "")).endswith("tok"):
        return math.inf
    return least_bytes({**job, "seq_len": str(_SHORT)}, catalog)


def _by_peak(card: Accelerator, jobs: Sequence[Mapping[str, Any]], catalog: Catalog) -> _Trial | None:
    """One card by what the jobs take where they are rented: their middle and the interval."""
    from rightfit.workload import Workload

    answers, told = list[str](), list[dict[Lang, str]]()
    for job in jobs:
        try:
            best = best_of(Workload(**{**job, **(UNHURRIED if job["task"] == "serve" else {})}), catalog)
        except RightfitError:
            continue
        if best is None or best.nodes > 1 or best.num_accelerators != 1 or "peak_memory_bytes" not in best.estimate:
            return None
        peak, room = best.estimate["peak_memory_bytes"], _USABLE * card.memory_bytes
        answers.append("yes" if peak.high80 <= room else "depends" if peak.mid <= room else "no")
        amounts = {name: q.memory_text(getattr(peak, key)) for name, key in (("need", "mid"), ("low", "low80"), ("high", "high80"))}
        told.append(both("own_peak", job=job_text(job), had=q.memory_text(card.memory_bytes), **amounts))
    if not answers:
        return None
    answer = answers[0] if len(set(answers)) == 1 else "depends"
    return answer, _joined(told), {"cards": [card.name], "count": 1, "fits": [one == "yes" for one in answers]}


def _on_own(one: Hardware, jobs: Sequence[Mapping[str, Any]], catalog: Catalog) -> _Trial | None:
    """Cards that nobody rents in this number, as a machine of one's own: one card by its memory."""
    from rightfit.planner.cards import plan_on_own
    from rightfit.planner.plan import plan
    from rightfit.workload import Workload

    cards = f"{one.count} x {one.spoken}"
    if one.count == 1:
        card = facts.accelerators()[one.names[0]]
        own = Hardware(f"{card.name} {q.memory_text(card.memory_bytes)}", (), 1, card.memory_bytes)
        each = [trial for job in jobs if (trial := _in_memory(own, [job], catalog) or _by_peak(card, [job], catalog)) is not None]
        if not each:
            return None
        words = {trial[0] for trial in each}
        known = {"cards": [card.name], "count": 1, "fits": [trial[0] == "yes" for trial in each]}
        return (
            words.pop() if len(words) == 1 else "depends",
            both("fit_own", cards=cards, told=_joined([trial[1] for trial in each])),
            known,
        )
    done: list[bool] = []
    told: list[dict[Lang, str]] = []
    for job in jobs:
        try:
            found_plan = plan_on_own(Workload(**job), f"{one.count}x{one.names[0]}", plan, catalog, top=1)
        except RightfitError:
            return None
        done.append(found_plan.best is not None and found_plan.best.purchase == "owned")
        told.append(both("own_fits" if done[-1] else "own_fits_not", job=job_text(job)))
    answer = "yes" if all(done) else "no" if not any(done) else "depends"
    return answer, both("fit_own", cards=cards, told=_joined(told)), {"cards": [one.names[0]], "count": one.count, "fits": done}


def _qualified(answer: str, told: Mapping[Lang, str]) -> Mapping[Lang, str]:
    """What is told below the verdict; yes and no are the verdict itself."""
    return told if answer in ("yes", "no") else both(f"answer_{answer}", told=told)


def _answer_of(outcomes: Sequence[SetupOutcome]) -> str:
    """yes, no, helped (only with what the host lends) or depends, over the jobs that are meant."""
    words = {"no" if not outcome.fits else "helped" if outcome.helps else "yes" for outcome in outcomes if outcome.fits is not None}
    return words.pop() if len(words) == 1 else "depends"


def _outcome(job: Mapping[str, Any], outcome: SetupOutcome, memory_bytes: float) -> dict[Lang, str]:
    """Whether a job fits. A service fills its cards with cache whatever the model: what tells is
    the weights."""
    if job["task"] != "serve" or outcome.fits is None:
        return {lang: outcome_text(outcome, lang) for lang in LANGS}
    memory, weights = q.memory_text(memory_bytes), q.memory_text(weights_bytes(job))
    key = "fits" if outcome.fits else "slow" if _is_slow(job, outcome, memory_bytes) else "fits_not"
    if key == "fits_not" and weights_bytes(job) >= memory_bytes:
        key = "too_large"
    is_told = (told := format_of(job)) and told != "fp16"
    shown = both("format_told", format=told.upper()) if is_told else both("format_16")
    return both(f"serve_{key}", where=outcome.server, weights=weights, memory=memory, format=shown)


def _in_fewer_bits(
    job: Mapping[str, Any], outcome: SetupOutcome, server: str, memory_bytes: float, catalog: Catalog
) -> Mapping[Lang, str] | None:
    """What fits in 8 or 4 bits where a service does not in 16, and nobody said in how many."""
    if job["task"] != "serve" or _is_told(job) or outcome.fits is not False or _is_slow(job, outcome, memory_bytes):
        return None
    for small in ({**job, "quantization": name} for name in _FEWER_BITS):
        tried = outcome_of(small, server, catalog=catalog)
        if tried.fits or (tried.fits is False and weights_bytes(small) <= _TIGHT * memory_bytes):
            return _fewer(small)
    return None


def _denoiser(model: str, memory_bytes: float) -> dict[Lang, str] | None:
    """What the denoiser of images alone takes in 16, 8 and 4 bits, its text encoders in host
    memory; None where it fits in none of them."""
    record = facts.model(model, network=False)
    sizes = [bits / 8.0 * float(getattr(record, "denoiser_params", 0)) for bits in (16.0, 8.0, 4.5)]
    if not 0.0 < sizes[-1] <= _TIGHT * memory_bytes:
        return None
    named_sizes = dict(zip(("sixteen", "eight", "four"), map(q.memory_text, sizes), strict=True))
    return both("denoiser", texts=q.memory_text(2.0 * float(getattr(record, "text_encoder_params", 0))), **named_sizes)


def _is_told(job: Mapping[str, Any]) -> bool:
    """Whether somebody said in how many bits the weights are."""
    return bool(job.get("quantization") or job.get("precision"))


def _fewer(small: Mapping[str, Any]) -> Mapping[Lang, str]:
    return both("serve_in_fewer", format=both(f"format_{small['quantization']}"), weights=q.memory_text(weights_bytes(small)))


def least_bytes(job: Mapping[str, Any], catalog: Catalog, *, share: float = ROOMY) -> float:
    """Memory of one GPU that a job takes at least [bytes]; of a service its weights, which may take
    this share of it. Infinite where nothing is known of the model or the job cannot be read."""
    from rightfit.workload.model import Workload

    try:
        if job["task"] == "batch" and isinstance(facts.model(job["model"], network=False), facts.DiffusionModel):
            best = best_for({**job, "data": "1 samples"}, catalog)  # an image at a time
            need = math.inf if best is None else float(best.estimate["peak_memory_bytes"].mid)
        else:
            need = weights_bytes(job) / share if job["task"] == "serve" else need_on_one_card(Workload(**job), catalog=catalog)
    except RightfitError:
        return math.inf
    return need if math.isfinite(need) else math.inf


def weights_bytes(job: Mapping[str, Any], *, network: bool = True) -> float:
    """Weights of a service in the format that is told, else in that of the checkpoint; NaN of a
    model that nobody has counted."""
    from rightfit.estimation.serving_extras import weights_in
    from rightfit.facts.engines import weight_format

    model, known = facts.model(job["model"], network=network), weight_format(format_of(job))
    if known is not None and isinstance(model, facts.TransformerArchitecture):
        return weights_in(model, known)
    return float(getattr(model, "params_total", math.nan)) * (known.linear_bytes if known else 2.0)


def format_of(job: Mapping[str, Any]) -> str:
    """The format of a service's weights: the one that is told, else the checkpoint's own where that
    is none of 16 bits; empty for 16 bits."""
    from rightfit.facts.engines import published_format

    if told := str(job.get("quantization") or job.get("precision") or ""):
        return told
    try:
        return published_format(str(facts.model(job["model"], network=False).name))
    except RightfitError:
        return ""


def counted_weights(job: Mapping[str, Any]) -> float | None:
    """Weights of a service [bytes] without asking the network; None of a model that nobody has
    counted."""
    try:
        weights = weights_bytes(job, network=False)
    except RightfitError:
        return None
    return None if math.isnan(weights) else weights


def _is_slow(job: Mapping[str, Any], outcome: SetupOutcome, memory_bytes: float) -> bool:
    """A service whose weights leave a quarter of the memory or more for the cache, and that is
    refused still: it runs, slower than the usual limits."""
    return job["task"] == "serve" and outcome.fits is False and weights_bytes(job) <= ROOMY * memory_bytes


def _count(before: str) -> int | None:
    """How many of the card that follows; None where it is "several"."""
    before = _BRAND.sub("", _OWN_MEMORY.sub("", _BRAND.sub("", before)))
    if verb("several").search(before[-12:]):
        return None
    if found := _COUNT.search(before):
        return int(found[1])
    spoken = table()["spoken"]
    words = re.search(rf"({'|'.join(sorted(spoken, key=len, reverse=True))})\s*(?:块|张|卡|cards?|gpus?)?\s*$", before, re.IGNORECASE)
    return int(spoken[words[1].casefold()]) if words else 1


def model_in(said: str) -> str:
    """The first model that a sentence names, or ""."""
    return next(models_in(said), "")


def models_in(said: str) -> Iterator[str]:
    """The models that a sentence names in one word each."""
    for found in re.finditer(r"[A-Za-z0-9][\w./-]*(?::\d+(?:\.\d+)?[bB](?![A-Za-z0-9]))?(?<=[A-Za-z0-9])", said, re.ASCII):
        is_name = re.search(r"\d|-", found[0]) or (found[0].isupper() and len(found[0]) >= _SHORTEST_NAME)
        if not re.search(r"[A-Za-z]", found[0]) or not is_name or _AMOUNT.fullmatch(found[0]):
            continue
        if _usual_model(found[0]):
            continue  # a data set, though networks that were trained on it have its name too
        try:
            facts.model(found[0], network=False)
        except RightfitError:
            continue
        yield found[0]


def _is_load(said: str) -> bool:
    """Whether a sentence says how many a service is for."""
    from rightfit.workload.ask import understand

    try:
        return bool(LOAD & set(understand(said).wishes))
    except RightfitError:
        return False


def _model_of_words(said: str) -> str:
    """The model that a sentence names in several words ("Stable Diffusion"), or ""."""
    from rightfit.workload.ask import understand

    try:
        name = str(understand(said).wishes.get("model", ""))
        return name if name and facts.model(name, network=False) else ""
    except RightfitError:
        return ""


@functools.cache
def _usual_model(name: str) -> str:
    """The usual model for a data set of this name; "" for any other name."""
    from rightfit.planner.typical import typical_rows

    meant = facts.bundled.exact_dataset(name)
    kind = facts.tables.senses("names", "domain").get(meant.domain, "") if meant else ""
    return next((str(row["model"]) for row in typical_rows(kind, kind)), "") if kind else ""


def job_on_data(said: str) -> dict[str, Any]:
    """Training the usual model on the data set that a sentence names; {} where it names none."""
    words = (found[0] for found in re.finditer(r"[A-Za-z0-9][\w./-]*[A-Za-z0-9]", said, re.ASCII))
    return next(({"model": usual, "task": "train", "data": word} for word in words if (usual := _usual_model(word))), {})


def server_with(catalog: Catalog, names: Sequence[str], count: int) -> int | None:
    """Row of the cheapest server on demand with so many of these cards."""
    offers = catalog.offers(OfferFilter(gpus=tuple(names), purchases=("on-demand",)))
    fitting = np.flatnonzero(offers.servers.num_accelerators[offers.server_index] == count)
    if not len(fitting):
        return None
    # A host with little RAM would be judged instead of the cards.
    memory = offers.servers.memory_bytes[offers.server_index[fitting]]
    roomy = fitting[memory >= np.nanmedian(memory)] if np.isfinite(memory).any() else fitting
    name = offers.servers, int(offers.server_index[int(roomy[np.argmin(offers.price_usd_per_h[roomy])])])
    return catalog.server_rows[name[0].provider[name[1]], name[0].instance_type[name[1]]]


def _jobs(said: str, model: str) -> Iterator[dict[str, Any]]:
    """The jobs that a sentence may mean: those that it names, else serving and each way to
    fine-tune."""
    rest = said
    methods = [name for name in ("qlora", "lora", "ptuning", "full") if any_of(table()["methods"][name]).search(rest)]
    if _NO_ADAPTERS.search(rest):
        methods = ["full"]
    if "qlora" in methods and "lora" in methods and not re.search(r"(?<!q)lora", rest, re.IGNORECASE):
        methods.remove("lora")
    way = named("methods", said)
    told = named("quantizations", said)
    if not methods and (told or way == "serve"):  # weights in so many bits are served; QLoRA has its own word
        yield {"model": model, "task": "serve", "rate": "1/s", **({"quantization": told} if told else {})}
        return
    if not methods and way == "train":  # training is never judged by serving
        yield {"model": model, "task": "train"}
        return
    if not methods and not way and _SIXTEEN.search(said):
        yield {"model": model, "task": "serve", "rate": "1/s", "precision": "fp16"}
        return
    if not methods and way in ("", "serve") and isinstance(facts.model(model, network=False), facts.DiffusionModel):
        yield {"model": model, "task": "batch", "data": _amount(model)}  # who asks whether it runs wants pictures of it
        return
    if not methods and not way:
        yield {"model": model, "task": "serve", "rate": "1/s"}
    for method in methods or ("full", "lora", "qlora"):
        yield {"model": model, "task": "finetune", "method": method, "data": _amount(model)}


def _amount(model: str) -> str:
    """Some data of a model's kind: what fits depends on no amount of it."""
    is_language = isinstance(facts.model(model, network=False), facts.TransformerArchitecture)
    return "10Mtok" if is_language else "10k samples"
