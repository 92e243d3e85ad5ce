"""Every answer to every wish of tests/data/wishes.toml, in every family of work, holds together:
none ends in an error that is not ours, a near miss tells all that it misses, and no sentence
contradicts another or has a hole."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from answers import NAMED, asked, on_server, planned, wishes

import rightfit
from rightfit.errors import RightfitError
from rightfit.explain.plan_words import telling
from rightfit.explain.quantities import Table
from rightfit.explain.sheets import Breakdown, Choice, Lines, estimate_sheet, plan_sheet, verdict_sheet
from rightfit.explain.voices import voice_of
from rightfit.market import Catalog
from rightfit.messages import LANGS, Lang
from rightfit.search.answer import Option, Reason, Rejection
from rightfit.search.option_reasons import COMPARING
from rightfit.search.refusals import UNPROMISING
from rightfit.search.servers import Verdict

#: Servers of which little can be said: no price, no card and no price, another software stack, a
#: slice of a card, full speed for a while only.
ODD = ("alicloud/ecs.gn8ia.8xlarge", "alicloud/ecs.c7h.xlarge", "gcp/ct5lp-hightpu-1t", "alicloud/ecs.sgn6i-vws-m2.xlarge", "aws/t3.large")

Answers = dict[str, Any]


@functools.lru_cache(maxsize=1)
def answers_to(name: str) -> Answers:
    """By verb: the plan, the estimate and the verdict of the server that leads, those of the named
    servers, and of some odd ones in turn."""
    wish, answers = wishes()[name], {}
    answers["plan"] = asked(lambda: planned(name))
    best = getattr(answers["plan"], "best", None)
    leading = (f"{best.provider}/{best.instance_type}",) if best else ()
    place = sorted(wishes()).index(name)
    odd = (ODD[place % len(ODD)], ODD[(place + 2) % len(ODD)])
    nodes = {leading[0]: best.nodes} if best else {}
    for server in (*(leading or NAMED[:1]), NAMED[-1], *odd):
        answers[f"estimate {server}"] = asked(lambda server=server: on_server(name, server, nodes.get(server, 1)))
    for server in (*leading, *NAMED, *odd):
        answers[f"why {server}"] = asked(lambda server=server: rightfit.why(server, **wish))
    return answers


def every(name: str) -> Iterator[tuple[str, Any]]:
    """The answers that were not refused."""
    yield from ((verb, answer) for verb, answer in answers_to(name).items() if not isinstance(answer, RightfitError))


@pytest.mark.parametrize("name", sorted(wishes()))
def test_every_answer_holds_together(name: str, catalog: Catalog) -> None:
    """One test a wish, so that its answers are worked out once."""
    refused = [str(answer) for answer in answers_to(name).values() if isinstance(answer, RightfitError)]
    assert all(line and "\n" not in line for line in refused)
    assert list(every(name)), "a wish that every verb refuses tests nothing"
    faults = [f"{verb}: {fault}" for verb, answer in every(name) for fault in faults_of(answer)]
    faults += [f"{verb}: {fault}" for verb, answer in every(name) for fault in card_faults(answer, catalog)]
    faults += choice_faults(answers_to(name))
    assert not faults, "\n".join(faults)


def faults_of(answer: Any) -> Iterator[str]:
    """What is wrong with an answer, in all respects."""
    yield from near_miss_faults(answer)
    yield from verdict_faults(answer)
    for option in options_of(answer):
        yield from option_faults(option, answer)
    for lang in LANGS:
        yield from (f"{fault}: {line}" for line in sentences_of(answer, lang) for fault in sentence_faults(line, answer, lang))


# ---- near misses


def rejections_of(answer: Any) -> Sequence[Rejection]:
    """Of a plan its refusals, of a verdict the criteria that the server fails."""
    return answer.failed if isinstance(answer, Verdict) else answer.rejected


def is_of_one_server(answer: Any) -> bool:
    """Whether the refusals are those of one row of one server."""
    return isinstance(answer, Verdict) or bool(answer.given)


def near_miss_faults(answer: Any) -> Iterator[str]:
    """A near miss names all that it fails, and what is not known of it; where it fails more, no
    single change is promised."""
    failed = {rejection.criterion for rejection in rejections_of(answer)}
    for rejection in rejections_of(answer):
        miss = rejection.nearest
        assert miss is not None
        if is_of_one_server(answer) and not failed <= {rejection.criterion, *miss.also}:
            yield f"the near miss of {rejection.criterion} hides {failed - {rejection.criterion, *miss.also}}"
        if rejection.criterion == "gpu_memory" and not asked_limits(answer) <= {*miss.also, *miss.unknown}:
            yield f"what does not fit is held against {asked_limits(answer) - {*miss.also, *miss.unknown}}"
        told = voice_of(answer).rejection_lines(rejection, "en")[-1]
        if miss.also and ("would make it feasible" in told or "It also fails" not in told) and rejection.criterion not in UNTOLD:
            yield f"{rejection.criterion}: {told}"
        if rejection.criterion == "software" and miss.change.key != "change_software":
            yield f"software: {miss.change}"


#: Criteria whose near miss is not told: nothing comes near.
UNTOLD = ("status", "capability", "throughput")


def asked_limits(answer: Any) -> set[str]:
    """The limits that a row must be held against: those of the workload, and the latencies that
    were assumed for it."""
    workload, assumed = answer.workload, {assumption.field for assumption in answer.assumptions}
    named = {"deadline": workload.deadline_s, "budget": workload.budget_usd}
    return {name for name, value in named.items() if value is not None} | ({"ttft", "tpot", "latency"} & assumed)


# ---- what the parts of an answer say of each other


def choice_faults(answers: Answers) -> list[str]:
    """The plan's choice is the choice when it is asked about, at the same cost in the same
    place."""
    best = getattr(answers["plan"], "best", None)
    if best is None:
        return []
    server = f"{best.provider}/{best.instance_type}"
    estimated, verdict = answers[f"estimate {server}"], answers[f"why {server}"]
    if isinstance(estimated, RightfitError) or isinstance(verdict, RightfitError):
        return []
    choices = [option for option in (best, estimated.best, verdict.option) if option]
    costs, places = [option.cost.total_usd for option in choices], {option.region for option in choices}
    keys = [reason.key for reason in verdict.standing]
    same = len(choices) == 3 and costs == pytest.approx([costs[0]] * 3) and len(places) == 1 and keys == ["why_best"]
    return [] if same else [f"the choice costs {costs} in {places} and is {keys}"]


def card_faults(answer: Any, catalog: Catalog) -> Iterator[str]:
    """Memory of cards is lacking only where there are cards; a given server is refused for more
    than the filters that it was given in spite of."""
    servers = catalog.servers()
    for rejection in rejections_of(answer):
        miss = rejection.nearest
        assert miss is not None
        if rejection.criterion == "gpu_memory" and not servers.num_accelerators[catalog.server_rows[miss.provider, miss.instance_type]] > 0:
            yield f"{miss.instance_type} has no card and lacks memory of cards"
    if not isinstance(answer, Verdict) and answer.given and answer.best is None and telling(answer.rejected).criterion in FILTERS:
        yield f"it does nothing for want of {[rejection.criterion for rejection in answer.rejected]}"


FILTERS = ("cloud", "region", "country", "gpu", "software", "purchase")


def options_of(answer: Any) -> tuple[Option, ...]:
    """Every option that an answer shows."""
    if isinstance(answer, Verdict):
        return (answer.option,) if answer.option else ()
    return (*answer.options, *([answer.unfit] if answer.unfit else []))


def does_it(option: Option, answer: Any) -> bool:
    """Whether an option does the job at all."""
    return answer.fits if isinstance(answer, Verdict) else option is not answer.unfit


def verdict_faults(answer: Any) -> Iterator[str]:
    """A verdict's headline, what it fails and what would help it agree."""
    if not isinstance(answer, Verdict):
        return
    failed = [rejection.criterion for rejection in answer.failed]
    told = {reason.params["criterion"] for reason in answer.standing if reason.key == "why_refused"}
    keys = {reason.key for reason in answer.standing}
    if told != set(failed):
        yield f"the standing tells {told} where {failed} failed"
    lacking = [rejection.criterion for rejection in answer.failed if rejection.needed != "burstable"]  # such are left out, not unable
    if answer.fits and {"layout", "capability", "gpu_memory", "host_memory"} & set(lacking):
        yield f"it runs the job and fails on {failed}"
    if not answer.fits and not failed and "why_unlisted" not in keys:
        yield "it does not run the job and nothing is said to be wrong"
    promised = [reason for reason in answer.standing if reason.key.startswith("change_") and reason.key not in UNPROMISING]
    if len(failed) > 1 and any(reason.key != "change_together" for reason in promised):
        yield f"{promised} promised alone, where {failed} failed"
    if keys & {"why_best", "why_ranked"} and (not answer.fits or failed):
        yield f"{keys} of a server that fails on {failed}"


def option_faults(option: Option, answer: Any) -> Iterator[str]:
    """What is said of an option is true of it."""
    workload, keys = answer.workload, {reason.key for reason in (*option.why, *option.warnings)}
    said = {reason.key: reason.params for reason in option.why}
    if is_of_one_server(answer) and keys & COMPARING:
        yield f"one server is said to be {keys & COMPARING}"
    if not does_it(option, answer) and keys & {"fits", "host_fits", "memory_tight", "deadline_met", "budget_met", "serve_deadline"}:
        yield f"it does not do the job and is said to {keys & {'fits', 'host_fits', 'memory_tight', 'deadline_met', 'budget_met', 'serve_deadline'}}"
    for key, value, limit in KEPT:
        if key in said and said[key][value] > said[key][limit]:
            yield f"{key} with {value} {said[key][value]} beyond {said[key][limit]}"
    if workload.task not in ("train", "finetune") and keys & CHECKPOINTS:
        yield f"checkpoints of a job that has none: {keys & CHECKPOINTS}"
    if "serve_single" in keys and option.nodes != 1:
        yield f"one server carries the load of {option.nodes}"
    if "serve_one_replica" in keys and (option.nodes == 1 or option.layout.data != 1):
        yield f"one replica over several servers, of {option.layout.data} on {option.nodes}"


KEPT = (
    ("deadline_met", "total_time_s", "deadline_s"),
    ("serve_deadline", "total_time_s", "deadline_s"),
    ("budget_met", "total_usd", "budget_usd"),
    ("serve_limit", "value_s", "limit_s"),
    ("fits", "peak_bytes", "limit_bytes"),
    ("host_fits", "needed_bytes", "limit_bytes"),
)
CHECKPOINTS = {"save_every", "no_checkpoints", "no_checkpoints_never"}


# ---- sentences


def sentences_of(answer: Any, lang: Lang) -> Iterator[str]:
    """Every sentence of an answer: its sheet, and every statement in it as the document of
    a program tells it."""
    sheet = verdict_sheet(answer, lang, everything=True) if isinstance(answer, Verdict) else plan_or_estimate(answer, lang)
    yield from lines_of(sheet)
    render = voice_of(answer).renderer(lang, currency=answer.workload.currency)
    yield from (render(reason) for reason in statements_in(answer))


def plan_or_estimate(answer: Any, lang: Lang) -> Any:
    """The sheet of a plan, or of a given server."""
    return (estimate_sheet if answer.given else plan_sheet)(answer, lang, everything=True)


def lines_of(part: Any) -> Iterator[str]:
    """The text of a sheet; cells of tables stand for themselves and may be empty."""
    if isinstance(part, Table):
        return
    if isinstance(part, Breakdown):
        yield from (part.heading, *(f"{term.label}: {part.show(term.value)}" for term in part.terms))
    elif isinstance(part, Choice):
        yield from (line for line in (part.heading, part.headline, *part.lines) if line)
    elif isinstance(part, Lines):
        yield from (part.heading, *part.lines)
    elif isinstance(part, str):
        yield part
    else:
        yield from (line for one in part for line in lines_of(one))


def statements_in(value: Any) -> Iterator[Reason]:
    """Every reason of an answer, wherever it stands."""
    if isinstance(value, Reason):
        yield value
    elif dataclasses.is_dataclass(value):
        yield from (one for field in dataclasses.fields(value) for one in statements_in(getattr(value, field.name)))
    elif isinstance(value, (list, tuple)):
        yield from (one for item in value for one in statements_in(item))


HOLES = {
    "a double blank": r"\S  +\S",
    "a blank before a sign": r"\S [,.;:)](?:\s|$)",
    "an empty bracket": r"\(\s*[:)]|（\s*[：）]",
    "two signs": r": :|, ,|，，|：：|、、|、，|: ,|，。|：。|[为是]。|[为是]，|[为是]）",
    "a word of a program": r"\b(None|nan|inf|True|False)\b",
    "an unfilled field": r"\{\w+\}",
    "a value that is missing": r"(?:^|[ (:：])-(?:[ ).,;；，。）]|$)",
    "a negative number": r"(?:^|[ (：，])-\d",
    "a code": r"\b[a-z]+(?:_[a-z]+)+\b",
    "one of many": r"(?<![\d.,])(?<!of )\b1 (?:workers|servers|replicas|nodes|cards|offers|cores|times|processes)\b",
}
#: What a line may name in code: the fields of assumptions, values that go into a command, and names
#: of models, files and sources.
NAMED_IN_CODE = r"\(source: .*|（来源.*|Price of .*|价格日期.*|\S+ = \S+|--\S+|\S*[/.@=(]\S*|two_round"


def sentence_faults(line: str, answer: Any, lang: Lang) -> Iterator[str]:
    """Holes in a sentence, and what it says that its answer does not bear."""
    plain = line.strip()
    for name, pattern in HOLES.items():
        looked = (
            re.sub(NAMED_IN_CODE, "", plain.replace(answer.workload.model, "")) if name in ("a code", "a value that is missing") else plain
        )
        if re.search(pattern, looked):
            yield name
    if answer.workload.task not in ("train", "finetune") and re.search("checkpoint|检查点", plain):
        yield "checkpoints of a job that has none"
    if "decode step" in plain and not generates(answer):
        yield "a decode step of a model that has none"


def generates(answer: Any) -> bool:
    """Whether an answer is about a model that makes tokens one by one."""
    return any(assumption.field == "output_tokens" for assumption in answer.assumptions) or answer.workload.output_tokens is not None


def test_a_deadline_missed_is_not_blamed_on_numbers_of_servers_that_do_not_divide() -> None:
    verdict = rightfit.why("aws/g5.12xlarge", model="meta-llama/Meta-Llama-3-8B", method="full", data="200Mtok", deadline="3h")
    assert [rejection.criterion for rejection in verdict.failed] == ["deadline"]
    assert verdict.fits
    headline = next(iter(verdict_sheet(verdict, "en"))).heading
    assert headline == "aws/g5.12xlarge can run this job (meta-llama/Meta-Llama-3-8B) but does not meet your limits: deadline."
