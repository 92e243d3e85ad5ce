"""What a fleet file says, checked for form: pydantic records with friendly values. `reading` turns them into hours and base units.

Every key that a file may have stands here, with its meaning; the JSON Schema and the messages about wrong keys follow from it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

Text = Annotated[str, Field(min_length=1, max_length=500)]
Name = Annotated[str, Field(min_length=1, max_length=120)]
Time = Annotated[str, Field(min_length=1, max_length=40)]


def _listed(value: Any) -> Any:
    """ "a, b" is a list as well."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


Names = Annotated[list[Text], BeforeValidator(_listed)]


class Record(BaseModel):
    """A part of a fleet file; a key that it does not know is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class JobRecord(Record):
    """Work that begins and ends."""

    name: Name = Field(description="name of the job, once in a file")
    workload: dict[str, Any] = Field(description="options of `rightfit plan`: model, task, method, data ...")
    count: int = Field(default=1, ge=1, le=100_000, description="how many equal ones there are")
    earliest: Time | None = Field(default=None, description="not before: a date, or a duration from the start (36h, 2d)")
    deadline: Time | None = Field(default=None, description="done by: a date, or a duration from the start")
    after: Names = Field(default=[], description="names of jobs that must all be done before one of these starts")
    priority: int = Field(default=5, ge=1, le=9, description="who goes first where not all can be placed; 9 is the most important")
    interruptible: bool = Field(default=True, description="whether it may run on spot servers")
    team: Name | None = Field(default=None, description="whose budget pays for it")


class ServiceRecord(Record):
    """Work that goes on: requests to answer, by hour."""

    name: Name = Field(description="name of the service, once in a file")
    workload: dict[str, Any] = Field(description="options of `rightfit plan`; task serve is meant")
    demand: str | list[float] | None = Field(
        default=None,
        description="requests by hour: a rate (10/s), a rate and the shape of its day (10/s office), or 24 or 168 numbers in requests/s from midnight (of Monday)",
    )
    priority: int = Field(default=5, ge=1, le=9, description="who goes first where not all can be placed; 9 is the most important")
    interruptible: bool = Field(default=False, description="whether what serves above the least load of the day may be on spot servers")
    team: Name | None = Field(default=None, description="whose budget pays for it")
    share: Literal["whole", "mig", "turns"] = Field(
        default="whole",
        description="whether it may stand on a part of a card beside other services: mig (a slice of its own), turns (also a half or a quarter, in turn)",
    )


class OwnedRecord(Record):
    """What is paid already: servers of one's own, reservations, capacity blocks, savings plans."""

    server: Text | None = Field(default=None, description="PROVIDER/INSTANCE, where it is a cloud's")
    gpu: Text | None = Field(default=None, description="cards of a server of one's own: 8xH100")
    count: int = Field(default=1, ge=1, le=100_000, description="how many servers")
    region: Text | None = Field(default=None, description="where; left out: in every region")
    kind: Literal["own", "reservation", "block", "savings-plan"] = Field(default="own", description="how it is owned")
    usd_per_h: float | None = Field(default=None, gt=0, le=1e7, description="of a savings plan: what is committed an hour")
    cloud: Text | None = Field(default=None, description="of a savings plan: the cloud")
    since: Time | None = Field(default=None, description="from when: a date, or a duration from the start")
    until: Time | None = Field(default=None, description="until when")


class LimitRecord(Record):
    """What may be bought."""

    quota: Names = Field(
        default=[], description="limits of the accounts in words: 8 H100 in us-east-1; 192 vcpus on aws; 4 p4d.24xlarge spot"
    )
    budget: Text | None = Field(default=None, description="at most so much a month for all: 50000usd")
    teams: dict[Name, Text] = Field(default={}, description="budget of each team a month")
    clouds: Names = Field(default=[], description="clouds that may be used")
    regions: Names = Field(default=[], description="regions that may be used")
    sellers: Names = Field(default=[], description="tiers of sellers or sellers: major, established, all")
    purchase: Names = Field(default=[], description="ways to pay that may be used: on-demand, spot, reserved")
    price_age: Time | None = Field(default=None, description="the greatest age of a price: 90d")
    spot_share: float | None = Field(default=None, ge=0, le=1, description="greatest share of rented server-hours on spot, 0 to 1")


class FleetRecord(Record):
    """A fleet file."""

    schema_version: Literal[1] = 1
    name: Name = Field(default="fleet", description="what it is called in answers")
    start: Time | None = Field(default=None, description="when the plan begins: a date; left out: today")
    horizon: Time | None = Field(
        default=None, description="how long the plan looks ahead: 2w; left out: to the last deadline, a week at least"
    )
    steady: Time | None = Field(
        default=None, description="how long services, or all that repeats, go on: 12mo; decides whether commitments pay"
    )
    repeats: bool = Field(default=False, description="whether the jobs come again in every horizon, for as long as `steady` says")
    teams: list[Name] = Field(default=[], description="names of the teams; where given, a job of another one is refused")
    defaults: dict[str, Any] = Field(default={}, description="options of workloads for all jobs and services")
    jobs: list[JobRecord] = Field(default=[], description="work that begins and ends")
    services: list[ServiceRecord] = Field(default=[], description="work that goes on")
    owned: list[OwnedRecord] = Field(default=[], description="what is paid already; it is used first")
    limits: LimitRecord = Field(default=LimitRecord(), description="what may be bought")
