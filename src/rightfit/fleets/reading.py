"""A fleet from a file (YAML, JSON or CSV) or a mapping: checked, with times in hours from its
start. Every problem is one line that names the place."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from rightfit import units
from rightfit.errors import InputError, QuantityError, UnknownNameError
from rightfit.fleets import sources
from rightfit.fleets.sources import MOST_LINES, FleetRecord, JobRecord, OwnedRecord, ServiceRecord, from_csv, from_text, text_of, too_many
from rightfit.messages import Message, did_you_mean, foreign, line_each
from rightfit.records import dataclass
from rightfit.units import HOURS_PER_MONTH, SECONDS_PER_HOUR
from rightfit.workload.amounts import to_usd
from rightfit.workload.options import OPTIONS
from rightfit.workload.traces import HOURS, SHAPES, hourly_rates
from rightfit.workload.vocabulary import nearest_words

LONGEST_HORIZON_H = 3 * 8760.0
HOURS_OF_WEEK = 168
_SHOWN_PROBLEMS = 5


@dataclass(frozen=True, slots=True)
class Job:
    """Work that begins and ends. `ready_h`, `due_h` [h from the start of the fleet]; `due_h` is
    None where nothing presses. `after`: names of jobs that must be done before."""

    name: str
    wishes: Mapping[str, Any]
    count: int
    ready_h: float
    due_h: float | None
    priority: int
    interruptible: bool
    team: str | None
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Service:
    """Work that goes on. `rates` [1/s] by hour of the day (24) or of the week (168)."""

    name: str
    wishes: Mapping[str, Any]
    rates: tuple[float, ...]
    priority: int
    interruptible: bool
    team: str | None
    share: str = "whole"


@dataclass(frozen=True, slots=True)
class Owned:
    """Servers that are paid already, or (`usd_per_h`) money an hour that a savings plan has
    committed; `since_h`, `until_h` [h from the start]."""

    kind: str
    provider: str
    instance_type: str
    gpus: tuple[str, ...]
    gpus_per_server: int
    count: int
    region: str
    usd_per_h: float
    since_h: float
    until_h: float
    text: str = ""

    @property
    def label(self) -> str:
        """How it is called in answers."""
        return f"{self.kind} {self.text or self.provider}" + (f" {self.region}" if self.region else "")


@dataclass(frozen=True, slots=True)
class Fleet:
    """A whole fleet. `budget_usd`, `team_budgets` are by month. `limits` holds options of workloads
    (clouds, regions, sellers, ways to pay).
    `steady_h`: how long it goes on beyond the horizon [h]."""

    name: str
    start: datetime.datetime
    start_given: bool
    horizon_h: float | None
    steady_h: float | None
    repeats: bool
    jobs: tuple[Job, ...]
    services: tuple[Service, ...]
    owned: tuple[Owned, ...]
    quota: tuple[str, ...]
    budget_usd: float | None
    team_budgets: Mapping[str, float]
    limits: Mapping[str, Any]
    price_age_h: float | None
    spot_share: float | None


def read_fleet(source: str | Path | Mapping[str, Any], *, today: datetime.date | None = None) -> Fleet:
    """A fleet from a file's name or a mapping. InputError with one line for each of
    the first problems."""
    if isinstance(source, Mapping):
        return _fleet(source, where="fleet", today=today)
    name = str(source)
    text = text_of(name)
    mapping = from_csv(name, text) if Path(name).suffix.casefold() == ".csv" else from_text(name, text)
    return _fleet(mapping, where=name, today=today)


def _fleet(mapping: Mapping[str, Any], *, where: str, today: datetime.date | None) -> Fleet:
    lines = sum(len(mapping[key]) for key in ("jobs", "services") if isinstance(mapping.get(key), list))
    if lines > MOST_LINES:
        raise too_many(where, lines)
    try:
        record = FleetRecord.model_validate(mapping)
    except ValidationError as error:
        raise _refused(error, where) from None
    return _Reader(where, record, today).fleet()


def _refused(error: ValidationError, where: str) -> InputError:
    problems = [_problem(item, where) for item in error.errors(include_url=False)[:_SHOWN_PROBLEMS]]
    return problems[0] if len(problems) == 1 else InputError(line_each(one.message for one in problems), problems=problems)


def _problem(item: Any, where: str) -> InputError:
    place = "".join(f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in item["loc"]).removeprefix(".")[:120]
    if item["type"] == "extra_forbidden":
        key = str(item["loc"][-1])[:80]
        known = _keys_at(item["loc"][:-1])
        near = nearest_words(key, known, count=2)
        hint = did_you_mean(near) or Message("fleet.allowed", names=", ".join(known))
        return InputError(Message("fleet.no_key", where=where, word=place, hint=hint), field=place, allowed=", ".join(known), nearest=near)
    if item["type"] == "missing":
        return InputError(Message("fleet.lacks", where=where, place=place), field=place)
    given = str(item.get("input"))[:60]
    problem = foreign(item["msg"][:1].lower() + item["msg"][1:])
    return InputError(Message("fleet.value", where=where, place=place, problem=problem, given=given), field=place, allowed=item["msg"])


def _keys_at(place: Sequence[Any]) -> list[str]:
    """The keys that a part of the file may have."""
    kinds: Mapping[str, type[BaseModel]] = {
        "jobs": sources.JobRecord, "services": sources.ServiceRecord, "owned": sources.OwnedRecord, "limits": sources.LimitRecord,
    }  # fmt: skip
    return list(kinds.get(str(place[0]) if place else "", FleetRecord).model_fields)


class _Reader:
    """Reads the friendly values of a record whose form is right."""

    def __init__(self, where: str, record: FleetRecord, today: datetime.date | None) -> None:
        self.where, self.record = where, record
        given = record.start
        first = self._date(given, "start") if given else None
        if given and first is None:
            raise QuantityError(Message("fleet.start_date", where=where, given=given), field="start")
        self.start = first or datetime.datetime.combine(today or datetime.datetime.now(tz=datetime.UTC).date(), datetime.time())

    def fleet(self) -> Fleet:
        record, limits = self.record, self.record.limits
        if not record.jobs and not record.services:
            raise InputError(Message("fleet.nothing", where=self.where), field="jobs")
        self._unique()
        self._acyclic()
        horizon = self._hours(record.horizon, "horizon")
        steady = self._hours(record.steady, "steady")
        budgets = {team: self._monthly(text, f"limits.teams.{team}") for team, text in limits.teams.items()}
        self._known_teams([*budgets], self.record.teams, "limits.teams")
        jobs = tuple(self._job(number, job, horizon) for number, job in enumerate(record.jobs, start=1))
        services = tuple(self._service(number, service) for number, service in enumerate(record.services, start=1))
        wanted = {"cloud": limits.clouds, "region": limits.regions, "sellers": limits.sellers, "purchase": limits.purchase}
        return Fleet(
            name=record.name,
            start=self.start,
            start_given=record.start is not None,
            horizon_h=horizon,
            steady_h=steady,
            repeats=record.repeats,
            jobs=jobs,
            services=services,
            owned=tuple(self._owned(number, item) for number, item in enumerate(record.owned, start=1)),
            quota=tuple(limits.quota),
            budget_usd=self._monthly(limits.budget, "limits.budget") if limits.budget else None,
            team_budgets=budgets,
            limits={key: list(value) for key, value in wanted.items() if value},
            price_age_h=self._hours(limits.price_age, "limits.price_age"),
            spot_share=limits.spot_share,
        )

    def _unique(self) -> None:
        seen: set[str] = set()
        names = [*(job.name for job in self.record.jobs), *(service.name for service in self.record.services)]
        for name in names:
            if name in seen:
                raise InputError(Message("fleet.twice", where=self.where, twin=name), field="name")
            seen.add(name)

    def _acyclic(self) -> None:
        """Every job that another one waits for is there, and no two wait for each other."""
        waits = {job.name: list(job.after) for job in self.record.jobs}
        services = {service.name for service in self.record.services}
        for number, job in enumerate(self.record.jobs, start=1):
            place = f"jobs[{number}] ({job.name}).after"
            for name in job.after:
                if name in services:
                    raise InputError(
                        Message("fleet.after_service", where=self.where, place=place, name=name),
                        field="after",
                        allowed="names of jobs",
                    )
                if name not in waits:
                    near = nearest_words(name, list(waits), count=2)
                    hint = did_you_mean(near)
                    problem = Message("fleet.after_nothing", where=self.where, place=place, job=name[:80], hint=hint)
                    raise InputError(problem, field="after", nearest=near)
        if found := round_of(waits):
            raise InputError(Message("fleet.after_round", where=self.where, round=" after ".join(found)), field="after")

    def _known_teams(self, names: Iterable[str], known: Sequence[str], place: str) -> None:
        for name in names:
            if known and name not in known:
                raise UnknownNameError(
                    "team",
                    name,
                    nearest=nearest_words(name, known),
                    allowed=Message("names.team", where=place, names=", ".join(known)),
                    field="team",
                )

    def _team(self, name: str | None, place: str) -> str | None:
        if name is not None:
            self._known_teams([name], self.record.teams or list(self.record.limits.teams), place)
        return name

    def _job(self, number: int, job: JobRecord, horizon: float | None) -> Job:
        place = f"jobs[{number}] ({job.name})"
        ready = self._moment(job.earliest, f"{place}.earliest") or 0.0
        due = self._moment(job.deadline, f"{place}.deadline") if job.deadline else None
        if due is not None and due <= ready:
            raise InputError(
                Message(
                    "fleet.deadline_before",
                    where=self.where,
                    place=place,
                    deadline=job.deadline,
                    earliest=job.earliest or Message("fleet.start"),
                ),
                field="deadline",
            )
        if horizon is not None and ready >= horizon:
            raise InputError(Message("fleet.after_horizon", where=self.where, place=place, horizon=self.record.horizon), field="earliest")
        wishes = self._wishes(job.workload, place)
        if self.record.data_location and wishes.get("task") != "batch":  # whose questions are few bytes
            wishes = {"data_location": self.record.data_location, **wishes}
        team, after = self._team(job.team, place), tuple(dict.fromkeys(job.after))
        return Job(job.name, wishes, job.count, ready, due, job.priority, job.interruptible, team, after)

    def _service(self, number: int, service: ServiceRecord) -> Service:
        place = f"services[{number}] ({service.name})"
        wishes = dict(self._wishes({"task": "serve", **service.workload}, place))
        if "data_location" not in service.workload:
            wishes.pop("data_location", None)  # a default for the jobs: a service has its model alone
        rates = self._rates(service, wishes, place)
        for used in ("rate", "profile"):
            wishes.pop(used, None)
        if service.share != "whole" and wishes.get("slice"):
            raise InputError(
                Message("fleet.share_and_slice", where=self.where, place=place, share=service.share, slice=wishes["slice"]), field="share"
            )
        team = self._team(service.team, place)
        return Service(service.name, wishes, rates, service.priority, service.interruptible, team, service.share)

    def _wishes(self, workload: Mapping[str, Any], place: str) -> Mapping[str, Any]:
        wishes = {key.replace("-", "_"): value for key, value in {**self.record.defaults, **workload}.items()}
        for key in wishes:
            if key not in OPTIONS:
                near = nearest_words(key, list(OPTIONS), count=2)
                hint = did_you_mean(near) or Message("fleet.options")
                problem = Message("fleet.no_option", where=self.where, place=place, word=key[:80], hint=hint)
                raise InputError(problem, field=key[:80], nearest=near)
            if key in _ELSEWHERE:
                raise InputError(Message("fleet.elsewhere", where=self.where, place=place, word=key, elsewhere=_ELSEWHERE[key]), field=key)
        return wishes

    def _rates(self, service: ServiceRecord, wishes: Mapping[str, Any], place: str) -> tuple[float, ...]:
        demand = (
            service.demand if service.demand is not None else " ".join(str(wishes[key]) for key in ("rate", "profile") if wishes.get(key))
        )
        try:
            if isinstance(demand, str):
                rate, _, shape = demand.strip().partition(" ")
                if not rate:
                    raise QuantityError(Message("fleet.demand_missing"))
                if "," in demand:
                    demand = [float(part) for part in demand.split(",")]
                else:
                    return tuple(hourly_rates(shape or "flat", peak_per_s=units.parse_rate(rate)).tolist())
        except InputError as error:
            raise QuantityError(
                Message("fleet.demand", where=self.where, place=place, error=error.message), field="demand", nearest=error.nearest
            ) from None
        except ValueError:
            raise QuantityError(
                Message("fleet.demand_numbers", where=self.where, place=place, given=str(demand)[:60], shapes=", ".join(SHAPES)),
                field="demand",
            ) from None
        if len(demand) not in (HOURS, HOURS_OF_WEEK) or not all(0 <= rate < math.inf for rate in demand) or max(demand) <= 0:
            raise QuantityError(
                Message("fleet.demand_count", where=self.where, place=place, count=len(demand), day=HOURS, week=HOURS_OF_WEEK),
                field="demand",
            )
        return tuple(map(float, demand))

    def _owned(self, number: int, item: OwnedRecord) -> Owned:
        place = f"owned[{number}]"
        since = self._moment(item.since, f"{place}.since") or 0.0
        end = self._moment(item.until, f"{place}.until") if item.until else None
        until = math.inf if end is None else end
        if until <= since:
            raise InputError(
                Message(
                    "fleet.until_before",
                    where=self.where,
                    place=place,
                    until=item.until,
                    since=item.since or Message("fleet.the_start"),
                ),
                field="until",
            )
        if item.kind == "savings-plan":
            if not item.cloud or item.usd_per_h is None:
                raise InputError(Message("fleet.savings_plan", where=self.where, place=place), field="usd_per_h")
            return Owned("savings-plan", _provider(item.cloud), "", (), 0, 1, item.region or "", item.usd_per_h, since, until)
        if (item.server is None) == (item.gpu is None):
            raise InputError(Message("fleet.server_or_gpu", where=self.where, place=place), field="server")
        provider, instance, gpus, per_server = _server(item.server) if item.server else ("", "", *_cards(item.gpu or ""))
        return Owned(
            item.kind, provider, instance, gpus, per_server, item.count, item.region or "", 0.0, since, until, item.server or item.gpu or ""
        )

    def _monthly(self, text: str, place: str) -> float:
        try:
            money = units.parse_money(text)
        except InputError as error:
            raise QuantityError(Message("fleet.amount", where=self.where, place=place, error=error.message), field="budget") from None
        if money.amount <= 0:
            raise QuantityError(Message("fleet.not_positive", where=self.where, place=place, text=text), field="budget")
        return to_usd(money)

    def _moment(self, text: str | None, place: str) -> float | None:
        """Hours from the start, of a date or a duration."""
        if text is None:
            return None
        date = self._date(text, place)
        hours = (date - self.start).total_seconds() / SECONDS_PER_HOUR if date else self._hours(text, place)
        if hours is None or not 0 <= hours <= LONGEST_HORIZON_H:
            raise QuantityError(
                Message("fleet.too_far", where=self.where, place=place, text=text, start=f"{self.start:%Y-%m-%d}"),
                field=place.rpartition(".")[2],
            )
        return hours

    def _date(self, text: str | None, place: str) -> datetime.datetime | None:
        if not text or not text[:4].isdigit() or text[4:5] != "-":
            return None
        try:
            moment = datetime.datetime.fromisoformat(text)
        except ValueError:
            raise QuantityError(
                Message("fleet.no_date", where=self.where, place=place, text=text),
                field=place.rpartition(".")[2],
            ) from None
        return moment.astimezone(datetime.UTC).replace(tzinfo=None) if moment.tzinfo else moment

    def _hours(self, text: str | None, place: str) -> float | None:
        if text is None:
            return None
        months = text.strip().casefold().removesuffix("s").removesuffix("onth").removesuffix("o")
        try:
            if months.endswith("m") and months != text.strip().casefold():
                hours = units.parse_count(months[:-1].strip()) * HOURS_PER_MONTH
            else:
                hours = units.parse_duration(text) / SECONDS_PER_HOUR
        except InputError as error:
            raise QuantityError(
                Message("fleet.amount", where=self.where, place=place, error=error.message), field=place.rpartition(".")[2]
            ) from None
        if not 0 < hours <= LONGEST_HORIZON_H:
            raise QuantityError(Message("fleet.too_long", where=self.where, place=place, text=text), field=place.rpartition(".")[2])
        return hours


def round_of(waits: Mapping[str, Sequence[str]]) -> list[str]:
    """Names that wait for each other, the first one again at the end; empty where nobody does. A
    search in depth without recursion."""
    done: set[str] = set()
    for first in waits:
        path: list[str] = []
        stack: list[tuple[str, int]] = [(first, 0)]
        while stack:
            name, at = stack.pop()
            if at == 0:
                if name in done:
                    continue
                path.append(name)
            if at < len(waits[name]):
                stack.append((name, at + 1))
                if (other := waits[name][at]) in path:
                    return [*path[path.index(other) :], other]
                stack.append((other, 0))
            else:
                done.add(path.pop())
    return []


_ELSEWHERE = {
    "deadline": Message("fleet.beside"),
    "budget": Message("fleet.limits"),
    "quota": Message("fleet.limits"),
    "office_hours": Message("fleet.in_demand"),
}


def _provider(name: str) -> str:
    from rightfit.market import names

    return names.resolve_provider(name)


def _server(text: str) -> tuple[str, str, tuple[str, ...], int]:
    provider, slash, instance = text.partition("/")
    if not slash or not instance:
        raise QuantityError(Message("fleet.owned_server", text=text[:60]), field="server")
    return _provider(provider), instance, (), 0


def _cards(text: str) -> tuple[tuple[str, ...], int]:
    from rightfit import facts

    head, cross, name = text.replace("×", "x").partition("x")
    if not cross or not head.strip().isdigit() or int(head) < 1:
        head, name = "1", text
    found = facts.match_accelerators(name.strip())
    if not found:
        raise UnknownNameError("accelerator", name.strip(), nearest=nearest_words(name.strip(), list(facts.accelerators())), field="gpu")
    return tuple(found), int(head)
