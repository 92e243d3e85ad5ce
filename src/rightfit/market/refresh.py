"""Current prices from the providers themselves: fetched part by part, judged, laid over the bundled
ones, published all at once.

A provider's prices come in whole or not at all. The new store is built beside the old one and
passes the integrity checks before it counts; whatever stops a refresh (a fault, a kill, a refusal)
leaves the old catalog as it was, and parts that were fetched are kept so that the next refresh goes
on from there.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import re
import shutil
import sqlite3
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rightfit.errors import CatalogError, MissingComponentError, NetworkError, RightfitError
from rightfit.market import build, packed_tables, providers, refresh_rows, store, tables
from rightfit.market.packed_tables import PackedTable, data_bytes, rules
from rightfit.market.providers.base import ROW_TYPES, Client, Known, KnownServer, Pace, Provider, Row
from rightfit.market.refresh_rows import Conversion, Gathered, PriceMove, gather, leave_older, level_problem, sort_out
from rightfit.messages import Message, cause, system_problem
from rightfit.records import dataclass

Progress = Callable[[str, int, int], None]  # (provider, parts done, parts in all)
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class RefreshOutcome:
    """What became of one source of prices."""

    provider: str
    status: str  # refreshed, failed, refused, skipped
    prices: int = 0
    new: int = 0  # offers that had no price
    gone: int = 0  # that this source brought before and lists no more
    dearer: int = 0
    cheaper: int = 0
    new_servers: int = 0
    quarantined: int = 0
    message: str = ""
    findings: tuple[str, ...] = ()  # what refused it, row by row
    largest_moves: tuple[PriceMove, ...] = ()


@dataclass(frozen=True, slots=True)
class _Job:
    """What is the same for every provider of one refresh."""

    known: Known
    base: Mapping[str, PackedTable]  # as bundled
    before: PackedTable  # prices as they count now
    rule: Mapping[str, Any]
    limits: Mapping[str, Any]
    today: str
    pace: Pace | None
    progress: Progress


def refresh(
    names: Sequence[str] = (), *, every_type: bool = False, pace: Pace | None = None, progress: Progress = lambda *_: None
) -> list[RefreshOutcome]:
    """Fetch the prices of the named sources (all that can be asked without names) and let those
    that pass count from now on.

    Raises UnknownNameError for a name that is none, CatalogError when another refresh runs or the
    clock is wrong. What happens to one source is in its Outcome and does not touch the others.
    """
    wanted = [providers.provider(name) for name in (names or providers.NAMES)]
    with _only_refresh():
        job = _job(every_type=every_type, pace=pace, progress=progress)
        outcomes: dict[str, RefreshOutcome] = {}
        gathered: dict[str, Gathered] = {}
        for provider in dict.fromkeys(wanted):
            if problem := _unready(provider):
                outcomes[provider.name] = RefreshOutcome(provider.name, "failed" if names else "skipped", message=problem)
                continue
            try:
                gathered[provider.name] = _judged(provider, job)
            except _RefusedError as error:
                outcomes[provider.name] = RefreshOutcome(provider.name, "refused", message=str(error), findings=error.findings)
            except RightfitError as error:
                outcomes[provider.name] = RefreshOutcome(provider.name, "failed", message=_with_name(provider.name, str(error)))
        outcomes |= _publish(gathered, job)
        for name, outcome in outcomes.items():
            if outcome.status in ("refreshed", "refused"):  # a refused list is fetched anew next time
                shutil.rmtree(_work(name), ignore_errors=True)
    return [outcomes[provider.name] for provider in dict.fromkeys(wanted)]


class _RefusedError(NetworkError):
    def __init__(self, message: Message, findings: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.findings = tuple(findings)


def refresh_rules() -> dict[str, Any]:
    """Limits of a refresh, each with its reason."""
    return tomllib.loads(data_bytes("refresh.toml").decode())


def _with_name(name: str, message: str) -> str:
    return message if message.startswith(name) else f"{name}: {message}"


# ---- before --------------------------------------------------------------------------------------


@contextlib.contextmanager
def _only_refresh() -> Iterator[None]:
    """One refresh at a time; the lock dies with its process."""
    path = packed_tables.folder() / "refresh.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        stream = path.open("a+b")
    except OSError as error:
        raise CatalogError(Message("catalog.refresh_folder", folder=path.parent, error=system_problem(error))) from None
    with stream:
        if not store.try_lock(stream.fileno()):
            stream.seek(0)
            holder = stream.read(20).decode(errors="replace").strip()
            raise CatalogError(Message("catalog.refresh_running", line=(Message("catalog.process", number=holder) if holder else "")))
        stream.truncate(0)
        stream.write(f"{os.getpid()}\n".encode())
        stream.flush()
        yield


def _job(*, every_type: bool, pace: Pace | None, progress: Progress) -> _Job:
    rule, limits = rules(), refresh_rules()
    base = {
        name: build.numeric(tables.load_packed(name)) if name == "prices" else tables.load_packed(name) for name in (*build.KEYS, "regions")
    }
    fetched = _current_tables()
    before = build.merged("prices", base["prices"], fetched)
    today = _today()
    newest = tables.newest_date(before["as_of"].labels)
    if (newest - today).days > limits["clock"]["oldest_behind_newest_bundled_days"]:
        raise CatalogError(Message("catalog.clock_behind_prices", today=today, newest=newest))
    known = _known(base["regions"], build.merged("servers", base["servers"], fetched), every_type=every_type)
    return _Job(known, base, before, rule, limits, today.isoformat(), pace, progress)


def _today() -> datetime.date:
    return datetime.datetime.now(tz=datetime.UTC).date()


def _current_tables() -> dict[str, PackedTable]:
    """The generation that counts; a damaged one is left behind, so that a refresh repairs it."""
    try:
        generation = packed_tables.current()
        return build.load(generation) if generation else {}
    except CatalogError:
        return {}


def _known(regions: PackedTable, servers: PackedTable, *, every_type: bool) -> Known:
    places: dict[str, list[str]] = {name: [] for name in providers.NAMES}
    for provider, region, country in zip(*(regions[name].texts() for name in ("provider", "region", "country")), strict=True):
        if country:
            places.setdefault(provider, []).append(region)
    types: dict[str, dict[str, KnownServer]] = {name: {} for name in places}
    columns = [servers[name].texts() for name in ("provider", "instance_type", "gpu_name")]
    numbers = [servers[name].numbers(empty=0.0).tolist() for name in ("vcpus", "memory_gib", "gpu_count")]
    for provider, name, gpu, vcpus, memory, count in zip(*columns, *numbers, strict=True):
        types.setdefault(provider, {})[name] = KnownServer(name, vcpus, memory, gpu, count)
    return Known({name: tuple(found) for name, found in places.items()}, types, every_type)


def _unready(provider: Provider) -> str:
    """Why a source cannot be asked here; empty when it can."""
    missing = provider.needs.missing_packages()
    if missing:
        return f"{provider.name}: needs {', '.join(missing)}; pip install 'rightfit[{provider.needs.extra}]'"
    if not provider.needs.has_credentials():
        return f"{provider.name}: no credentials found; give {provider.needs.credentials}"
    return ""


# ---- one provider --------------------------------------------------------------------------------


def _judged(provider: Provider, job: _Job) -> Gathered:
    """All rows of a provider, or the reason why they are not taken."""
    check = job.rule["checks"]["check_price_conversion"]
    conversion = Conversion(check["units_per_usd"], check["hours_in_term"])
    base = {name: job.base[name] for name in build.KEYS}
    found = gather(_rows(provider, job), base=base, source=provider.source, today=job.today, conversion=conversion)
    num_rejected = sum(found.rejected.values())
    if num_rejected > job.limits["rejected"]["highest_share"] * max(found.num_read, 1):
        worst, count = found.rejected.most_common(1)[0]
        raise _RefusedError(Message("catalog.refresh_rows_refused", name=provider.name, count=count, total=found.num_read, problem=worst))
    sort_out(found, base=job.base, accelerators=_accelerators())
    leave_older(found, job.before)
    if not found.num_prices:
        left_out = Message("catalog.left_out", count=sum(found.left_out.values()), why=next(iter(found.left_out), ""))
        hint = left_out if found.left_out else ""
        raise NetworkError(Message("catalog.no_usable_price", provider=provider.name, hint=hint))
    problem = level_problem(job.before, found.tables["prices"], limits=job.limits["level"], rule=job.rule)
    if problem:
        raise _RefusedError(Message("catalog.refresh_refused", name=provider.name, problem=problem))
    return found


def _accelerators() -> Sequence[str]:
    from rightfit import facts

    return tuple(facts.accelerators())


def _rows(provider: Provider, job: _Job) -> Iterator[Row]:
    parts = provider.parts(job.known)
    with Client(provider.name, credentials=provider.needs.credentials, pace=job.pace) as client:
        for done, part in enumerate(parts):
            job.progress(provider.name, done, len(parts))
            yield from _part_rows(provider, part, client=client, job=job)
    job.progress(provider.name, len(parts), len(parts))


def _part_rows(provider: Provider, part: str, *, client: Client, job: _Job) -> Iterator[Row]:
    """The rows of a part: from the disk when an earlier refresh got them a short while ago, else
    fetched and put there."""
    path = _work(provider.name) / (re.sub(r"[^A-Za-z0-9.-]+", "_", part) + ".jsonl")
    if not _is_fresh(path, max_age_h=job.limits["resume"]["max_age_h"]):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        with temporary.open("w", encoding="utf-8") as stream:
            for row in _fetched(provider, part, client=client, inventory=job.known):
                stream.write(json.dumps([type(row).__name__, *row]) + "\n")
        os.replace(temporary, path)  # noqa: PTH105
    with path.open(encoding="utf-8") as stream:
        for line in stream:
            kind, *values = json.loads(line)
            yield ROW_TYPES[kind](*values)


def _fetched(provider: Provider, part: str, *, client: Client, inventory: Known) -> Iterator[Row]:
    """Rows from the provider, whatever goes wrong in one line."""
    try:
        yield from provider.fetch(client, part, inventory=inventory)
    except RightfitError:
        raise
    except ImportError as error:
        raise MissingComponentError(
            Message("catalog.needs_package", provider=provider.name, package=error.name, extra=provider.needs.extra)
        ) from None
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        what = Message("catalog.lacks_key", word=error.args[0]) if isinstance(error, KeyError) and error.args else type(error).__name__
        raise NetworkError(Message("catalog.answer_form", provider=provider.name, part=part, why=what)) from None


def _is_fresh(path: Path, *, max_age_h: float) -> bool:
    try:
        return 0 <= time.time() - path.stat().st_mtime < max_age_h * 3600
    except OSError:
        return False


def _work(name: str) -> Path:
    """Where the parts of an unfinished refresh lie."""
    return packed_tables.folder() / "work" / name


# ---- all at once ---------------------------------------------------------------------------------


def _publish(gathered: dict[str, Gathered], job: _Job) -> dict[str, RefreshOutcome]:
    """Build the new store beside the old one; what fails its checks is refused and the rest built
    again; then the new one counts."""
    outcomes: dict[str, RefreshOutcome] = {}
    while gathered:
        generation, path = _built(gathered, job)
        findings = _error_findings(path)
        refused = {name: _refusal(name, found, findings, job) for name, found in gathered.items()}
        refused = {name: outcome for name, outcome in refused.items() if outcome}
        if not refused:
            build.publish(generation)
            _clear_up(generation)
            for name, found in gathered.items():
                outcomes[name] = _refreshed(name, found, findings, job)
            return outcomes
        if generation != packed_tables.current():
            path.unlink(missing_ok=True)
            build.remove(generation)
        outcomes |= {name: outcome for name, outcome in refused.items() if outcome}
        gathered = {name: found for name, found in gathered.items() if name not in refused}
    return outcomes


def _built(gathered: Mapping[str, Gathered], job: _Job) -> tuple[str, Path]:
    """A new generation from the current one and the gathered rows, and its store."""
    try:
        generation = _new_generation(gathered, job)  # its tables are let go before the store is built
        path = store.store_path(generation=generation)
        store.build_store(path, generation=generation)
    except (OSError, sqlite3.Error) as error:
        raise CatalogError(Message("catalog.refresh_unwritten", error=cause(error))) from None
    return generation, path


def _new_generation(gathered: Mapping[str, Gathered], job: _Job) -> str:
    fetched = _current_tables()
    new = {name: _joined(name, fetched, [found.tables[name] for found in gathered.values()], job) for name in build.KEYS}
    latest = _last([found.tables["prices"] for found in gathered.values()], build.KEYS["prices"])
    moved = refresh_rows.changes(job.before, latest)
    new[build.HISTORY] = refresh_rows.extended(fetched.get(build.HISTORY), moved)
    return build.write_generation(new, sources=_sources(gathered, job))


def _joined(name: str, fetched: Mapping[str, PackedTable], tables: Sequence[PackedTable], job: _Job) -> PackedTable:
    """What was fetched before, with what is fetched now over it."""
    return _last([fetched.get(name, build.empty_like(job.base[name])), *tables], build.KEYS[name])


def _last(layers: Sequence[PackedTable], key: Sequence[str]) -> PackedTable:
    layers = [layer for layer in layers if build.num_rows(layer)] or list(layers[:1])
    joined = build.stack(layers) if len(layers) > 1 else layers[0]
    last = build.last_of_each(build.row_keys([joined], key)[0])
    return joined if len(last) == build.num_rows(joined) else build.take(joined, last)


def _sources(gathered: Mapping[str, Gathered], job: _Job) -> dict[str, dict[str, Any]]:
    known = build.facts(packed_tables.current()).get("sources", {}) if packed_tables.current() else {}
    return {
        **known,
        **{
            name: {
                "as_of": job.today,
                "prices": found.num_prices,
                "left_out": {str(reason): count for reason, count in found.left_out.items()},
            }
            for name, found in gathered.items()
        },
    }


def _error_findings(path: Path) -> list[tuple[str, str, str, str, str, str, str]]:
    """Errors that the store's own checks found when it was built."""
    query = 'SELECT provider, instance_type, region, purchase, "check", had, "limit" FROM finding WHERE severity = \'error\''
    with contextlib.closing(store.connect(path)) as connection:
        return connection.execute(query).fetchall()


def _own_findings(gathered: Gathered, findings: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Findings about rows of this refresh."""
    prices = gathered.tables["prices"]
    names = ("provider", "instance_type", "region", "purchase")
    suspects = frozenset(finding[0] for finding in findings)
    mine = frozenset(label for label in prices["provider"].labels if label in suspects)
    if not mine:
        return []
    keys = set(zip(*(prices[name].texts() for name in names), strict=True))
    return [finding for finding in findings if finding[0] in mine and (*finding[:3], finding[3].replace("-", "_")) in keys]


def _refusal(name: str, gathered: Gathered, findings: Sequence[tuple[str, ...]], job: _Job) -> RefreshOutcome | None:
    own = _own_findings(gathered, findings)
    if len(own) <= job.limits["quarantined"]["highest_share"] * max(gathered.num_prices, 1):
        return None
    (check, count) = Counter(finding[4] for finding in own).most_common(1)[0]
    lines = tuple(
        f"{finding[4]}: {finding[0]}/{finding[1]} {finding[2]} {finding[3]}: {finding[5]} (limit: {finding[6]})" for finding in own
    )
    message = f"{name}: refused, {len(own):,} of {gathered.num_prices:,} prices fail the integrity checks (most often {check}, {count:,}); the old prices stay"
    return RefreshOutcome(name, "refused", message=message, findings=lines)


def _refreshed(name: str, gathered: Gathered, findings: Sequence[tuple[str, ...]], job: _Job) -> RefreshOutcome:
    known = job.known.servers
    servers = zip(gathered.tables["servers"]["provider"].texts(), gathered.tables["servers"]["instance_type"].texts(), strict=True)
    accelerated = [(provider, one.instance_type) for provider, own in known.items() for one in own.values() if one.num_accelerators]
    source = providers.provider(name).source
    moved = refresh_rows.moves(job.before, gathered.tables["prices"], source=source, accelerated=accelerated, most=_SHOWN)
    notes = [f"{count:,} left out {reason}" for reason, count in gathered.left_out.items()]
    notes += [f"{count:,} rejected: {reason}" for reason, count in gathered.rejected.items()]
    return RefreshOutcome(
        name,
        "refreshed",
        prices=gathered.num_prices,
        new=moved.new,
        gone=moved.gone,
        dearer=moved.dearer,
        cheaper=moved.cheaper,
        new_servers=sum(server not in known.get(provider, {}) for provider, server in servers),
        quarantined=len(_own_findings(gathered, findings)),
        message="; ".join(notes),
        findings=tuple(" ".join(finding) for finding in _own_findings(gathered, findings)[:_SHOWN]),
        largest_moves=moved.largest,
    )


def _clear_up(generation: str) -> None:
    """Old generations and their stores go; one before the last stays for readers that have
    just looked it up."""
    for name in build.remove_old():
        store.store_path(generation=name).unlink(missing_ok=True)
