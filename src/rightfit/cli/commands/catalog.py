"""The catalog: what is in it, and whether it is sound."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

from rightfit.cli.labels import label
from rightfit.cli.market import open_market
from rightfit.cli.output import Answer, View, emit, note
from rightfit.cli.tables import Column, Table


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
