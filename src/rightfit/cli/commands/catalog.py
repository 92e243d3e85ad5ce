"""The catalog: what is in it, and whether it is sound."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import click

from rightfit import units
from rightfit.cli.declared import argument, option
from rightfit.cli.market import open_market
from rightfit.cli.output import Answer, View, emit, note
from rightfit.explain.labels import label
from rightfit.explain.tables import Column, Table

if TYPE_CHECKING:
    from rightfit.catalog.history import PricePoint
    from rightfit.catalog.refresh import RefreshOutcome

Providers = Annotated[
    list[str] | None, argument(help="Sources of prices; nothing asks all that can be asked.", metavar="PROVIDER", show_default=False)
]
EveryType = Annotated[bool, option("--every-type", help="Also types without accelerator where each costs a request (Alibaba).")]


def _integer(value: Any) -> str:
    return f"{value:,}"


_STATUS_COLUMNS = (
    Column("provider"),
    Column("servers", _integer, right=True),
    Column("accelerated_servers", _integer, right=True),
    Column("recommendable_servers", _integer, right=True, drop=2),
    Column("prices", _integer, right=True),
    Column("regions", _integer, right=True, drop=3),
    Column("oldest"),
    Column("newest"),
    Column("stale_prices", _integer, right=True),
    Column("estimated_prices", _integer, right=True, drop=1),
)
_CHECK_COLUMNS = (Column("check"), Column("severity"), Column("count", _integer, right=True), Column("example", flexible=True))
_FINDING_COLUMNS = (
    Column("check"),
    Column("severity", drop=3),
    Column("server", flexible=True),
    Column("region", drop=2),
    Column("purchase", drop=1),
    Column("had", flexible=True),
    Column("limit", flexible=True),
)
_REFRESH_COLUMNS = (
    Column("provider"),
    Column("status"),
    Column("prices", _integer, right=True),
    Column("changed", _integer, right=True),
    Column("new_servers", _integer, right=True, drop=2),
    Column("quarantined", _integer, right=True, drop=1),
    Column("message", flexible=True),
)
_HISTORY_COLUMNS = (
    Column("provider"),
    Column("instance_type", flexible=True),
    Column("region", flexible=True),
    Column("purchase"),
    Column("as_of"),
    Column("price_usd_per_h", units.format_usd, right=True),
    Column("change", lambda value: "" if value != value else f"{value:+.1%}", right=True),
    Column("source", flexible=True, drop=1),
)


def status(*, view: View) -> None:
    """What the catalog holds: servers and prices per provider, and the dates of the prices.

    Example: rightfit catalog status
    """
    found = open_market(view).status()
    records = [dataclasses.asdict(entry) for entry in found.providers]
    size_mb = f"{found.size_bytes / 1e6:.1f}"
    summary = label(
        "catalog",
        "summary",
        view.lang,
        servers=_integer(found.servers),
        prices=_integer(found.prices),
        newest=found.newest,
        age_days=found.age_days,
        quarantined=_integer(found.quarantined_prices),
        not_recommended=_integer(found.not_recommended_servers),
    )
    place = label("catalog", "place", view.lang, location=found.location, size_mb=size_mb, fingerprint=found.fingerprint[:16])
    emit(Answer(found.to_dict(), records, [summary, Table(_STATUS_COLUMNS, records), place]), view)


def verify(*, view: View) -> None:
    """Run the integrity checks over every price and server, and list what is quarantined.

    Example: rightfit catalog verify --verbose
    """
    findings = [dataclasses.asdict(finding) for finding in open_market(view).verify()]
    tables = [Table(_CHECK_COLUMNS, _by_check(findings))] if findings else []
    limit = view.limit(default=20)
    if view.verbose and findings:
        shown = [{**finding, "server": _server(finding)} for finding in findings[:limit]]
        tables.append(Table(_FINDING_COLUMNS, shown))
    errors = sum(finding["severity"] == "error" for finding in findings)
    head = label("catalog", "verified", view.lang, errors=_integer(errors), warnings=_integer(len(findings) - errors))
    emit(Answer(findings, findings, [head, *tables]), view)
    if findings and not view.verbose and not view.is_machine:
        note(label("catalog", "verbose_lists", view.lang), view)


def _by_check(findings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    counts = Counter((finding["check"], finding["severity"]) for finding in findings)
    first = {
        finding["check"]: f"{_server(finding)} {finding['region']}: {finding['had']} ({finding['limit']})" for finding in reversed(findings)
    }
    return [{"check": check, "severity": severity, "count": count, "example": first[check]} for (check, severity), count in counts.items()]


def _server(finding: dict[str, Any]) -> str:
    return "/".join(part for part in (finding["provider"], finding["instance_type"]) if part)


def refresh(providers: Providers = None, every_type: EveryType = False, *, view: View) -> None:
    """Fetch current prices from the providers; what fails leaves the old prices as they are.

    Example: rightfit catalog refresh azure nebius
    """
    from rightfit.catalog import refresh as market_refresh

    with _progress(view) as progress:
        outcomes = market_refresh.refresh(tuple(providers or ()), every_type=every_type, progress=progress)
    records = [dataclasses.asdict(outcome) for outcome in outcomes]
    shown = [{**record, "status": label("refresh", record["status"], view.lang)} for record in records]
    emit(Answer(records, records, [Table(_REFRESH_COLUMNS, shown)]), view)
    _explain(outcomes, view)
    if not any(outcome.status == "refreshed" for outcome in outcomes) or any(
        outcome.status in ("failed", "refused") for outcome in outcomes
    ):
        raise click.exceptions.Exit(3)


def _explain(outcomes: Sequence[RefreshOutcome], view: View) -> None:
    """What went wrong, whole, and the rows that refused a list; a table may have cut it short."""
    for outcome in outcomes:
        if outcome.status in ("failed", "refused"):
            sys.stderr.write(f"error: {outcome.message}\n")
            for line in outcome.findings[: None if view.verbose else 10]:
                sys.stderr.write(f"  {line}\n")
    if all(outcome.status == "skipped" for outcome in outcomes):
        sys.stderr.write("error: " + label("refresh", "nothing_asked", view.lang) + "\n")


@contextlib.contextmanager
def _progress(view: View) -> Iterator[Callable[[str, int, int], None]]:
    """A bar for each provider on standard error, where that is a terminal."""
    if view.quiet or not sys.stderr.isatty():
        yield lambda name, done, total: None
        return
    from rich.console import Console
    from rich.progress import Progress, TaskID

    with Progress(console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, TaskID] = {}

        def step(name: str, done: int, total: int) -> None:
            if name not in tasks:
                tasks[name] = bar.add_task(name, total=total)
            bar.update(tasks[name], completed=done)

        yield step


def listing_of_history(points: Sequence[PricePoint], view: View) -> None:
    """The answer to `rightfit prices --history`."""
    records = [dataclasses.asdict(point) for point in points]
    limit = view.limit(default=40)
    emit(Answer(records[:limit], records[:limit], [Table(_HISTORY_COLUMNS, records[:limit])] if records else []), view)
    if not records:
        note(label("status", "nothing_found", view.lang), view)
    elif limit is not None and len(records) > limit:
        note(label("status", "more", view.lang, shown=limit, total=f"{len(records):,}"), view)
