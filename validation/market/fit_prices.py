"""Fit what a listed price means to somebody who comes later, and test it on prices read later.

    python validation/market/fit_prices.py [--gcp CLONE] [--write]

The model (docs/decisions/expected-prices.md), in logarithms of the share of the on-demand price
beside a quote: a quote is drawn towards the centre of its server type over all regions by
`trust`, the centre towards that of its cloud by how few regions there are, and moved by `drift`;
low and high are quantiles of what is left over. All of it by age of the quote, for each kind of
seller and way to pay.

What is read: aws_spot_dates.csv, price_age_summary.csv, later_prices.csv here, and the git history
of Cyclenerd/google-cloud-pricing-cost-calculator (weekly lists) where a clone is given; without it
the rows of Google and Azure stay as they are in the table.
Nothing of later_prices.csv is fitted: it is the test. `--write` writes the table of the product.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).parent
TABLE = HERE.parents[1] / "src" / "rightfit" / "market" / "data" / "price_model.csv"
COLUMNS = ("group", "age_days", "trust", "drift", "low80", "high80", "low95", "high95", "pairs", "source")
SHARES = (0.1, 0.9, 0.025, 0.975)
LEAST_REGIONS = 4
CARDS = ("a2-", "a3-", "a4-", "g2-", "g4-")
Floats = NDArray[np.float64]
History = Mapping[tuple[str, str], Mapping[datetime.date, tuple[float, float]]]


class Row(NamedTuple):
    """One line of the table; the factors are on the expected price."""

    group: str
    age_days: int
    trust: float
    drift: float
    low80: float
    high80: float
    low95: float
    high95: float
    pairs: int
    source: str


def read(name: str) -> list[dict[str, str]]:
    """Rows of a file beside this one."""
    lines = (HERE / name).read_text("utf-8").splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


# ---- Pairs: the same server and region now and later, as deviations from the centre of its type.


class Pairs(NamedTuple):
    """Logarithms of shares of on demand: a quote, the centre of its type that day (drawn towards
    its cloud), the price found later; `types`: of which type each is."""

    now: Floats
    centre: Floats
    later: Floats
    types: NDArray[np.str_]

    def of(self, mask: NDArray[np.bool_]) -> Pairs:
        """Some of them."""
        return Pairs(*(column[mask] for column in self))


def pairs_of(found: Iterable[tuple[str, float, float]], *, prior: float, least: int = LEAST_REGIONS) -> Pairs:
    """(type, log share now, log share later) -> pairs, of types with enough regions."""
    by_type: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for kind, now, later in found:
        by_type[kind].append((now, later))
    medians = {kind: float(np.median([now for now, _ in rows])) for kind, rows in by_type.items()}
    cloud = float(np.median(list(medians.values()))) if medians else 0.0
    rows = []
    for kind, values in by_type.items():
        if len(values) >= least:
            centre = (len(values) * medians[kind] + prior * cloud) / (len(values) + prior)
            rows += [(now, centre, later, kind) for now, later in values]
    columns = list(zip(*rows, strict=True)) if rows else [(), (), (), ()]
    return Pairs(*(np.array(column, dtype=np.float64) for column in columns[:3]), np.array(columns[3], dtype=np.str_))


def spread_of(pairs: Pairs) -> tuple[float, float]:
    """Standard deviations between regions of a type, and between types."""
    kinds = np.unique(pairs.types)
    within = [pairs.now[pairs.types == kind].var(ddof=1) for kind in kinds]
    between = [np.median(pairs.now[pairs.types == kind]) for kind in kinds]
    return float(np.sqrt(np.mean(within))), float(np.std(between))


def fitted(pairs: Pairs, *, group: str, age_days: int, source: str) -> Row:
    """Trust by least squares through the centre, drift as the median of what is left, and the
    quantiles of the rest, the outer ones never inside the inner."""
    off = pairs.now - pairs.centre
    trust = float(np.clip((off @ (pairs.later - pairs.centre)) / (off @ off), 0.0, 1.0)) if off.any() else 1.0
    left = pairs.later - pairs.centre - trust * off
    drift = float(np.median(left))
    low80, high80, low95, high95 = np.exp(np.quantile(left - drift, SHARES)).tolist()
    return Row(group, age_days, trust, drift, low80, high80, min(low95, low80), max(high95, high80), len(off), source)


def predicted(pairs: Pairs, row: Row) -> Floats:
    """Logarithms of the expected share, never over on demand."""
    return np.minimum(pairs.centre + row.trust * (pairs.now - pairs.centre) + row.drift, 0.0)


def scores(pairs: Pairs, row: Row) -> dict[str, float]:
    """How far the quote and the expected price were from the later one, in factors, over all, and
    over the tenth that was cheapest against its type; and what the intervals held."""
    expected = predicted(pairs, row)
    cheap = pairs.now - pairs.centre <= np.quantile(pairs.now - pairs.centre, 0.1)
    bounds = np.minimum(expected[:, None] + np.log([row.low80, row.high80, row.low95, row.high95]), 0.0) + np.array(
        [-1e-3, 1e-3, -1e-3, 1e-3]
    )
    held80 = (pairs.later >= bounds[:, 0]) & (pairs.later <= bounds[:, 1])
    held95 = (pairs.later >= bounds[:, 2]) & (pairs.later <= bounds[:, 3])
    return {
        "pairs": len(pairs.now),
        "types": len(np.unique(pairs.types)),
        "quote_error": float(np.exp(np.abs(pairs.later - pairs.now).mean())),
        "expected_error": float(np.exp(np.abs(pairs.later - expected).mean())),
        "cheap_quote_bias": float(np.exp((pairs.later - pairs.now)[cheap].mean())),
        "cheap_expected_bias": float(np.exp((pairs.later - expected)[cheap].mean())),
        "held80": float(held80.mean()),
        "held80_error": share_error(held80, pairs.types),
        "held95": float(held95.mean()),
    }


def share_error(held: NDArray[np.bool_], types: NDArray[np.str_]) -> float:
    """Standard error of a share of pairs: prices of one type move together, so that types are
    drawn, not pairs (bootstrap by type)."""
    kind = np.unique(types, return_inverse=True)[1]
    count, good = np.bincount(kind), np.bincount(kind, weights=held)
    drawn = np.random.default_rng(0).integers(len(count), size=(2000, len(count)))
    return float((good[drawn].sum(axis=1) / count[drawn].sum(axis=1)).std())


def told(label: str, found: Mapping[str, float]) -> None:
    """One line of the table of errors."""
    print(f"{label:58s}", "  ".join(f"{name} {value:.3g}" for name, value in found.items()))


# ---- AWS: three dates.


def aws_pairs(now: str, later: str, *, prior: float) -> Pairs:
    """Pairs of two columns of aws_spot_dates.csv."""
    rows = [row for row in read("aws_spot_dates.csv") if row[now] and row[later]]
    share = [(row["instance_type"], *(float(np.log(float(row[name]) / float(row["on_demand"]))) for name in (now, later))) for row in rows]
    return pairs_of(((kind, first, second) for kind, first, second in share), prior=prior)


def fit_aws() -> list[Row]:
    """AWS spot: how little a region's quote says of itself months later."""
    whole = aws_pairs("advisor", "feed", prior=0.0)
    within, between = spread_of(whole)
    prior = (within / between) ** 2
    print(f"aws: sd between regions {within:.2f}, between types {between:.2f}: a type's centre weighs n, its cloud's {prior:.2f}")
    steps = ("advisor", "zones"), ("zones", "feed")
    for fit, test in (steps, steps[::-1]):
        told(f"aws test: fitted {' -> '.join(fit)}, held out {' -> '.join(test)}", _across(fit, test, prior))
    long, mid = aws_pairs("advisor", "feed", prior=prior), aws_pairs("zones", "feed", prior=prior)
    _told_by_family(long)
    both = Pairs(*(np.concatenate(columns) for columns in zip(long, mid, strict=True)))
    source = "aws_spot_dates.csv: the advisor of 2025-06-28 (408 days) and the quotes by zone (day unknown) against the feed of 2026-08-10"
    fitted_long = fitted(both, group="aws-spot", age_days=408, source=source)
    # What is lasting of a region's place, and what passes: a quote of today is taken at its word.
    # No dated pair under half a year is known, so the way between is that of a month's memory.
    rows = []
    for age in (0, 7, 30, 60, 90):
        passing = float(np.exp(-age / 30.0))
        size = np.sqrt(1.0 - passing**2) if age else 0.0
        factors = [float(np.exp(np.log(value) * max(size, 0.25))) for value in fitted_long[4:8]]
        trust = fitted_long.trust + (1.0 - fitted_long.trust) * passing
        source = "between a quote of today (zones of a region differ by a quarter of the spread) and the row of 408 days: a memory of 30 days (judgement)"
        rows.append(Row("aws-spot", age, trust, fitted_long.drift * size, *factors, 0, source))
    return [*rows, fitted_long]


def _across(fit: tuple[str, str], test: tuple[str, str], prior: float) -> dict[str, float]:
    row = fitted(aws_pairs(*fit, prior=prior), group="", age_days=0, source="")
    return scores(aws_pairs(*test, prior=prior), row)


def _told_by_family(pairs: Pairs) -> None:
    """Each family left out of the fit of the others."""
    family = np.array([kind.split(".")[0] for kind in pairs.types])
    parts = []
    for name in np.unique(family):
        row = fitted(pairs.of(family != name), group="", age_days=0, source="")
        parts.append(scores(pairs.of(family == name), row))
    weights = [part["pairs"] for part in parts]
    mean = {
        name: float(np.average([part[name] for part in parts], weights=weights))
        for name in parts[0]
        if name not in ("pairs", "types", "held80_error")
    }
    told("aws test: advisor -> feed, each family left out", {"pairs": sum(weights), **mean})


# ---- Google: a history in git; Azure.


def git(clone: str, *words: str) -> str:
    """What git says."""
    return subprocess.run(["git", "-C", clone, *words], capture_output=True, text=True, check=False).stdout


def gcp_history(clone: str, since: str = "2025-01-01") -> History:
    """(type, region) -> day -> (on demand, spot) of the weekly lists."""
    found: dict[tuple[str, str], dict[datetime.date, tuple[float, float]]] = defaultdict(dict)
    for line in git(clone, "log", "--format=%h %ad", "--date=short", "--", "pricing.yml").splitlines():
        commit, day = line.split()
        text = git(clone, "show", f"{commit}:pricing.yml") if day >= since else ""
        for kind, region, prices in _gcp_rows(text):
            found[kind, region][datetime.date.fromisoformat(day)] = prices
    return found


def _gcp_rows(text: str) -> Iterable[tuple[str, str, tuple[float, float]]]:
    place, kind, region, prices = "", "", "", {}
    for line in text.splitlines():
        indent, word = len(line) - len(line.lstrip()), line.strip()
        if indent <= 8 and region and {"hour", "hour_spot"} <= prices.keys() and prices["hour_spot"] > 0:
            yield kind, region, (prices["hour"], prices["hour_spot"])
        if indent <= 8:
            region, prices = "", {}
        if indent in (0, 2):
            place = word if indent == 0 else f"{place.partition(' ')[0]} {word}"
        elif indent == 4:
            kind = word.rstrip(":") if place == "compute: instance:" else ""
        elif indent == 8 and kind:
            region = word.rstrip(":")
        elif indent == 10 and region and word.startswith("hour"):
            name, _, value = word.partition(":")
            prices[name] = float(value)


def moves(history: History, lag: int, *, first: str, last: str, slack: int = 4, least: int = LEAST_REGIONS) -> Pairs:
    """Pairs `lag` days apart, both days within the two."""
    days = sorted({day for series in history.values() for day in series if first <= day.isoformat() <= last})
    rows = []
    for number, now in enumerate(days):
        later = min(days, key=lambda day: abs((day - now).days - lag))
        if abs((later - now).days - lag) <= slack and later > now:
            for (kind, _), series in history.items():
                if now in series and later in series:
                    shares = (float(np.log(series[day][1] / series[day][0])) for day in (now, later))
                    rows.append((f"{number}/{kind}", *shares))
    return pairs_of(rows, prior=0.0, least=least)


def fit_gcp(clone: str) -> list[Row]:
    """Google spot: a list that is set anew every month. Its moves go on in their direction, so the
    interval grows with the age; how wide it is follows from the last 150 days, widened by what
    earlier windows of 150 days missed of the months after them."""
    offered = spot_offers("gcp")
    cards = {key: series for key, series in gcp_history(clone).items() if key[0].startswith(CARDS)}
    history = {key: series for key, series in cards.items() if key in offered}
    factor, half = widening(cards, last="2026-01-31"), half_width(history, last="2026-01-31")
    print(f"gcp: {len(history)} series; windows of 150 days are too narrow by {factor:.2f}; half width at 28 days {half:.3f}")
    for lag in (28, 63, 91, 119):
        year = fitted(moves(history, lag, first="2025-02-01", last="2026-01-31"), group="", age_days=lag, source="")
        test = moves(history, lag, first="2026-01-31", last="2026-07-30")
        told(f"gcp test: a year to 2026-01-31, {lag} days, to 2026-07-30", scores(test, grown(year, half * factor)))
    source = "weekly lists of Cyclenerd/google-cloud-pricing-cost-calculator, 2025-07-31 to 2026-07-30 (Apache-2.0), cards; interval: last 150 days at 28 days, widened by {:.2f}, times age"
    factor, half = widening(cards, last="2026-07-30"), half_width(history, last="2026-07-30")
    rows = [Row("gcp-spot", 0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0, "a list: what stands in it today holds today")]
    for lag in (28, 63, 91, 182):
        year = fitted(
            moves(history, lag, first="2025-07-31", last="2026-07-30"), group="gcp-spot", age_days=lag, source=source.format(factor)
        )
        rows.append(grown(year, half * factor))
    print("gcp on demand, longest:", _list_moves(clone))
    return rows


def spot_offers(provider: str) -> set[tuple[str, str]]:
    """(type, region) with cards of which the catalog has a spot quote: elsewhere a list has a
    price and nobody has a card."""
    from rightfit.market import PURCHASE_CODES, open_catalog

    table = open_catalog().all_offers(has_accelerator=True)
    rows = np.flatnonzero((table.purchase_index == PURCHASE_CODES["spot"]) & ~table.is_quarantined).tolist()
    servers = table.servers
    found = ((int(table.server_index[row]), table.regions[table.region_index[row]]) for row in rows)
    return {(servers.instance_type[server], region) for server, region in found if servers.provider[server] == provider}


def half_width(history: History, *, last: str) -> float:
    """Half of the 80 % width of the moves within 28 days, logarithm, of the 150 days before a day;
    3 % at least."""
    start = (datetime.date.fromisoformat(last) - datetime.timedelta(days=150)).isoformat()
    row = fitted(moves(history, 28, first=start, last=last), group="", age_days=28, source="")
    return float(max(-np.log(row.low80), 0.03) + max(np.log(row.high80), 0.03)) / 2.0


def widening(history: History, *, last: str) -> float:
    """The factor on the half width of 150 days which would have held four in five of the moves in
    the weeks after them: monthly windows since lists began to move, 2025-07, of all series, those
    of regions without a card too: few months are known, and they differ."""
    end, missed = datetime.date.fromisoformat(last), []
    now = datetime.date(2025, 7, 28)
    while (later := now + datetime.timedelta(days=59)) <= end:
        pairs = moves(history, 28, first=now.isoformat(), last=later.isoformat())
        gone = np.abs(pairs.later - pairs.now) / half_width(history, last=now.isoformat())
        missed.append(np.quantile(gone, np.linspace(0.0, 1.0, 401)))  # every month weighs the same
        now += datetime.timedelta(days=30)
    return float(max(np.quantile(np.concatenate(missed), 0.8), 1.0))


def grown(row: Row, half: float) -> Row:
    """A row with an interval of so wide a half (logarithm, at 28 days) that grows with the age."""
    ends = half * row.age_days / 28.0 * np.array([-1.0, 1.0, -2.2, 2.2])
    low80, high80, low95, high95 = np.exp(ends).tolist()
    return row._replace(low80=low80, high80=high80, low95=low95, high95=high95)


def _list_moves(clone: str) -> str:
    """Quantiles of an on-demand price over itself years later."""
    lines = [line.split() for line in git(clone, "log", "--format=%h %ad", "--date=short", "--", "pricing.yml").splitlines()]
    held = [(commit, day) for commit, day in lines if git(clone, "cat-file", "-t", f"{commit}:pricing.yml").strip() == "blob"]
    old: dict[tuple[str, str], float] = {}
    while not old:  # the oldest lists have another form
        commit, first = held.pop()
        old = {(kind, region): prices[0] for kind, region, prices in _gcp_rows(git(clone, "show", f"{commit}:pricing.yml"))}
    new = {(kind, region): prices[0] for kind, region, prices in _gcp_rows(git(clone, "show", f"{held[0][0]}:pricing.yml"))}
    ratio = np.array([new[key] / old[key] for key in old if key in new])
    return f"{first} to {held[0][1]}: {len(ratio)} pairs, quantiles {np.quantile(ratio, (0.025, 0.1, 0.5, 0.9, 0.975)).round(3).tolist()}"


def as_azure(rows: Iterable[Row]) -> list[Row]:
    """Azure spot, the other spot list: its own history (price_age_summary.csv: 156 series over 26
    days, nine in ten within 1.13 of where they were) is as wide as Google's and too short for
    more."""
    source = "as Google's spot list of that age, but for its drift: 1.13 at 30 days in price_age_summary.csv (azure, spot, 156 series), no longer history is known"
    return [row._replace(group="azure-spot", drift=0.0, source=source if row.age_days else row.source) for row in rows]


# ---- Lists: prices of price_age_summary.csv, by feed.

LISTS = {"gpu-cloud-list": "GPU cloud list", "gpu-cloud-spot": "RunPod spot", "marketplace": "marketplace (Vast)"}


def fit_lists() -> list[Row]:
    """Kinds whose pairs are known by quantiles only: the 10th, 50th and 90th percentile of the
    logarithm; the 95 % ends follow from them as a normal law's would. A list seldom falls and often
    stands still, so that an end may be 1."""
    summary, rows = read("price_age_summary.csv"), []
    for group, name in LISTS.items():
        rows.append(Row(group, 0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0, "what stands there today holds today"))
        for row in summary:
            if row["group"] == name:
                low, mid, high = (float(row[f"{part}_signed_log"]) for part in ("p10", "median", "p90"))
                ends = np.array([low - mid, high - mid])
                if group == "marketplace" and int(row["lag_days"]) == 7:
                    rows[-1] = rows[-1]._replace(
                        low80=float(np.exp(ends[0] / 2)),
                        high80=float(np.exp(ends[1] / 2)),
                        low95=float(np.exp(ends[0] / 1.3)),
                        high95=float(np.exp(ends[1] / 1.3)),
                        source="offers come and go within hours: half of the spread of a week (judgement)",
                    )
                source = f"price_age_summary.csv, {name}: {row['series']} series"
                rows.append(
                    Row(
                        group,
                        int(row["lag_days"]),
                        1.0,
                        mid,
                        *np.exp(ends).tolist(),
                        *np.exp(ends * 1.53).tolist(),
                        int(row["pairs"]),
                        source,
                    )
                )
    return rows


STEADY = (
    Row("hyperscaler-list", 0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0, "a list"),
    Row(
        "hyperscaler-list",
        180,
        1.0,
        0.0,
        1.0,
        1.0,
        1.0,
        1.0,
        10215,
        "price_age_summary.csv, hyperscaler list (aws, gcp): 0 to 1.1 % moved in 180 days",
    ),
    Row(
        "hyperscaler-list",
        837,
        1.0,
        0.0,
        0.95,
        1.05,
        0.56,
        1.34,
        1295,
        "AWS on demand of 2024-04 against 2026-07 (1,295 types): every percentile from 2.5 to 97.5 is 1.00; P4 and P5 were cut by 33 to 44 % in 2025-06; a twentieth is allowed for clouds that cannot be compared",
    ),
    Row("china-list", 0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0, "a list"),
    Row(
        "china-list",
        365,
        1.0,
        0.1,
        0.90,
        1.21,
        0.85,
        1.35,
        12,
        "a quote of Alibaba (2026-09-24) against its list of 2024-12: T4 and A10 unchanged; a broker note: AI compute up by 5 to 34 % in 2026; two monthly prices of Tencent (2026-06) against 2022-05: equal, and 6 % lower",
    ),
)


def test_later(rows: list[Row]) -> None:
    """Prices read later than the catalog's: what the quote and the expected price were off by."""
    from rightfit.market.expected import group_of

    found: dict[str, list[tuple[str, float, float, int]]] = defaultdict(list)
    for row in read("later_prices.csv"):
        group = group_of(row["provider"], row["purchase"])
        age = (datetime.date.fromisoformat(row["later_as_of"]) - datetime.date.fromisoformat(row["as_of"])).days
        is_known = age <= max(one.age_days for one in rows if one.group == group)
        prices = (float(np.log(float(row[name]))) for name in ("usd_per_h", "later_usd_per_h"))
        found[group if is_known else f"{group}, older than the evidence"].append((f"{age}/{row['instance_type']}", *prices, age))
    for label, values in found.items():
        known = sorted((one for one in rows if one.group == label.partition(",")[0]), key=lambda one: one.age_days)
        parts = []
        for age in sorted({value[3] for value in values}):
            pairs = pairs_of((value[:3] for value in values if value[3] == age), prior=0.0, least=1)
            ages = [one.age_days for one in known]
            at = {name: float(np.interp(age, ages, [getattr(one, name) for one in known])) for name in COLUMNS[2:4]}
            at |= {name: float(np.exp(np.interp(age, ages, [np.log(getattr(one, name)) for one in known]))) for name in COLUMNS[4:8]}
            parts.append(_shifted_scores(pairs, Row("", age, **at, pairs=0, source="")))
        quote, expected, held = (np.concatenate(column) for column in zip(*parts, strict=True))
        names = {"pairs": len(held), "quote_error": np.exp(np.abs(quote).mean()), "expected_error": np.exp(np.abs(expected).mean())}
        told(
            f"later_prices.csv: {label}",
            {**names, "quote_bias": np.exp(quote.mean()), "expected_bias": np.exp(expected.mean()), "held80": held.mean()},
        )


def _shifted_scores(pairs: Pairs, row: Row) -> tuple[Floats, Floats, Floats]:
    """Errors of quote and expected price as logarithms, and whether the 80 % interval held; half a
    percent is rounding."""
    expected = pairs.centre + row.trust * (pairs.now - pairs.centre) + row.drift
    off = pairs.later - expected
    return pairs.later - pairs.now, off, ((off >= np.log(row.low80) - 5e-3) & (off <= np.log(row.high80) + 5e-3)).astype(np.float64)


def main() -> None:
    """Fit, test, print; write the table where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--gcp")
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    before = [
        Row(row["group"], int(row["age_days"]), *(float(row[name]) for name in COLUMNS[2:8]), int(row["pairs"]), row["source"])
        for row in _table()
    ]
    gcp = fit_gcp(asked.gcp) if asked.gcp else [row for row in before if row.group == "gcp-spot"]
    rows = [*fit_aws(), *as_azure(gcp), *gcp, *fit_lists(), *STEADY]
    for row in rows:
        print(*(f"{value:.3f}" if isinstance(value, float) else value for value in row[:9]))
    test_later(rows)
    if asked.write:
        with TABLE.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(COLUMNS)
            writer.writerows([*row[:2], *(f"{value:.4g}" for value in row[2:8]), *row[8:]] for row in rows)


def _table() -> list[dict[str, str]]:
    return list(csv.DictReader(TABLE.read_text("utf-8").splitlines())) if TABLE.exists() else []


if __name__ == "__main__":
    main()
