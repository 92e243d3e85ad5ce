"""Named checks over servers and prices. What fails an `error` check is quarantined: listed,
never recommended.

Every check takes a `Market` and its limits (rules.toml, each with a reason) and gives `Failures`:
which rows, what they had, what the limit was. Checks are vectorised over all rows; `run_checks`
names, orders and gathers them. Checks that compare prices look only at rows that passed those
before them, so one bad figure does not condemn its neighbours.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rightfit.market.offers import PURCHASE_CODES, PURCHASES, Flags, Floats, Indices, ServerTable
from rightfit.market.tables import PriceColumns, RegionTable, superseded
from rightfit.records import dataclass
from rightfit.units import GIB

Limits = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Finding:
    """One row that failed one check. `price_row` or `server_row` is -1 where the
    finding is not about one."""

    check: str
    severity: str  # error: quarantined; warning: shown only
    provider: str
    region: str
    instance_type: str
    purchase: str
    had: str
    limit: str
    explanation: str
    price_row: int = -1
    server_row: int = -1


@dataclass(frozen=True, slots=True)
class CheckedMarket:
    """What the checks look at. `accelerator_memory_bytes` by name; `market_levels` are USD per
    accelerator-hour seen elsewhere, by (name, mode)."""

    servers: ServerTable
    prices: PriceColumns
    regions: RegionTable
    accelerator_memory_bytes: Mapping[str, float]
    market_levels: Mapping[tuple[str, str], Sequence[float]] = dataclasses.field(default_factory=dict)

    def of_server(self, column: Floats) -> Floats:
        """A server column spread over the prices; NaN where the server is unknown."""
        spread = column[np.maximum(self.prices.server_index, 0)].astype(np.float64)
        spread[self.prices.server_index < 0] = np.nan
        return spread


@dataclass(frozen=True, slots=True)
class CheckFailures:
    """The rows that failed one check, with what each had and the limit it broke, in words."""

    rows: Indices
    had: Sequence[str]
    limit: Sequence[str]


Check = Callable[[CheckedMarket, Limits, Flags], CheckFailures]


def failures(rows: Flags, *, had: Callable[[int], str], limit: Callable[[int], str]) -> CheckFailures:
    """Words are made for the failed rows only."""
    picks = np.flatnonzero(rows)
    return CheckFailures(picks, [had(i) for i in picks.tolist()], [limit(i) for i in picks.tolist()])


def group_medians(keys: NDArray[Any], values: Floats) -> tuple[Floats, Indices]:
    """The median of each row's group, and the group's size, for every row."""
    order = np.lexsort((values, keys))
    starts = np.flatnonzero(np.r_[True, np.diff(keys[order]) != 0]) if len(keys) else np.zeros(0, dtype=np.intp)
    sizes = np.diff(np.r_[starts, len(keys)])
    ordered = values[order]
    medians = 0.5 * (ordered[starts + (sizes - 1) // 2] + ordered[starts + sizes // 2])
    group = np.empty(len(keys), dtype=np.intp)
    group[order] = np.repeat(np.arange(len(starts)), sizes)
    return medians[group], sizes[group]


def _usd(value: float) -> str:
    return f"{value:.6g} USD/h"


# ---- servers -------------------------------------------------------------------------------------


def check_unknown_accelerator(market: CheckedMarket, limits: Limits, sound: Flags) -> CheckFailures:
    """A server's accelerator must be a known one, otherwise nothing can be computed for it."""
    names, counts = market.servers.accelerator_name, market.servers.num_accelerators
    known = np.array([name in market.accelerator_memory_bytes if name else True for name in names], dtype=np.bool_)
    agrees = np.array([bool(name) for name in names]) == (counts > 0)
    return failures(
        ~known | ~agrees, had=lambda i: f"{counts[i]:g} x {names[i] or '(none)'}", limit=lambda i: "a known accelerator, count above 0"
    )


def check_accelerator_memory_matches(market: CheckedMarket, limits: Limits, sound: Flags) -> CheckFailures:
    """Memory of one accelerator (or slice) as the provider states it, against the
    accelerator's own."""
    servers = market.servers
    own = np.array([market.accelerator_memory_bytes.get(name, np.nan) for name in servers.accelerator_name])
    own = np.where(own > 0, own, np.nan)  # a hidden chip of undisclosed memory cannot be compared
    expected = own * np.minimum(servers.num_accelerators, 1.0)
    ratio = servers.accelerator_memory_bytes / expected
    bad = (ratio < limits["lowest_share"]) | (ratio > limits["highest_share"])
    return failures(bad, had=lambda i: f"{servers.accelerator_memory_bytes[i] / GIB:g} GiB", limit=lambda i: f"{expected[i] / GIB:g} GiB")


def check_server_shape(market: CheckedMarket, limits: Limits, sound: Flags) -> CheckFailures:
    """Cores, memory and accelerators of a server within what is built."""
    servers = market.servers
    bad = (servers.vcpus <= 0) | (servers.vcpus > limits["highest_vcpus"])
    bad |= (servers.memory_bytes <= 0) | (servers.memory_bytes > limits["highest_memory_gib"] * GIB)
    bad |= (servers.num_accelerators < 0) | (servers.num_accelerators > limits["highest_accelerators"])
    bad |= (servers.network_bytes_per_s < 0) | (servers.local_nvme_bytes < 0)
    shape = f"at most {limits['highest_vcpus']} vCPU, {limits['highest_memory_gib']} GiB, {limits['highest_accelerators']} accelerators"
    return failures(
        bad,
        had=lambda i: f"{servers.vcpus[i]:g} vCPU, {servers.memory_bytes[i] / GIB:g} GiB, {servers.num_accelerators[i]:g} accelerators",
        limit=lambda i: shape,
    )


# ---- one price -----------------------------------------------------------------------------------


def check_price_positive(market: CheckedMarket, limits: Limits, sound: Flags) -> CheckFailures:
    """A price is a finite number above zero."""
    price = market.prices.price_usd_per_h
    return failures(~(np.isfinite(price) & (price > 0)), had=lambda i: _usd(price[i]), limit=lambda i: "above 0")


def check_orphan_price(market: CheckedMarket, limits: Limits, sound: Flags) -> CheckFailures:
    """A price belongs to a known server, region and purchase mode."""
    prices = market.prices
    missing = {"server": prices.server_index < 0, "region": prices.region_index < 0, "purchase mode": prices.purchase_index < 0}
    bad = missing["server"] | missing["region"] | missing["purchase mode"]
    return failures(
        bad, had=lambda i: "unknown " + ", ".join(word for word, rows in missing.items() if rows[i]), limit=lambda i: "all known"
    )


def check_duplicate_offer(market: CheckedMarket, limits: Limits, sound: Flags) -> CheckFailures:
    """One price for a server in a region and mode; of several the newest stays."""
    prices = market.prices
    dates = np.argsort(np.argsort(np.array(prices.as_of_dates)))[prices.as_of_index]
    order = np.lexsort((-dates, prices.purchase_index, prices.region_index, prices.server_index))
    columns = (prices.server_index, prices.region_index, prices.purchase_index)
    same = np.all([column[order][1:] == column[order][:-1] for column in columns], axis=0)
    bad = np.zeros(len(prices), dtype=np.bool_)
    bad[order[1:][same]] = True
    return failures(
        bad & sound,
        had=lambda i: f"{_usd(prices.price_usd_per_h[i])} of {prices.as_of_dates[prices.as_of_index[i]]}",
        limit=lambda i: "one price",
    )


def check_price_conversion(market: CheckedMarket, limits: Limits, sound: Flags) -> CheckFailures:
    """The price in dollars an hour must follow from the original price, its
    currency and its term."""
    prices = market.prices
    per_usd = np.array([limits["units_per_usd"].get(name, np.nan) for name in prices.currencies])[prices.currency_index]
    hours = np.array([limits["hours_in_term"].get(name, 1.0) for name in PURCHASES])[np.maximum(prices.purchase_index, 0)]
    ratio = prices.price_original / (prices.price_usd_per_h * per_usd)
    fits_term = np.abs(ratio / hours - 1) <= limits["tolerance"]
    fits_hour = np.abs(ratio - 1) <= limits["tolerance"]  # some sources state a term's price by the hour
    bad = sound & np.isfinite(prices.price_original) & ~(fits_term | fits_hour)
    return failures(
        bad,
        had=lambda i: f"{prices.price_original[i]:g} {prices.currencies[prices.currency_index[i]]} as {_usd(prices.price_usd_per_h[i])}",
        limit=lambda i: f"{per_usd[i]:g} per USD over {hours[i]:g} h",
    )


def check_price_superseded(market: CheckedMarket, limits: Limits, sound: Flags) -> CheckFailures:
    """A price of a server that its seller lists under another name at a newer price."""
    prices, servers = market.prices, market.servers
    newer = superseded(servers, prices, market.regions, sound=sound, rule=limits)

    def quoted(row: int) -> str:
        return f"{_usd(prices.price_usd_per_h[row])} of {prices.as_of_dates[prices.as_of_index[row]]}"

    bad = np.zeros(len(prices), dtype=np.bool_)
    bad[list(newer)] = True
    return failures(bad, had=quoted, limit=lambda i: f"{servers.instance_type[prices.server_index[newer[i]]]} at {quoted(newer[i])}")


# ---- one price against others of its kind --------------------------------------------------------


def reference_levels(market: CheckedMarket, sound: Flags) -> Floats:
    """USD per accelerator-hour that is usual for each row's accelerator and purchase kind.

    The median over providers of each provider's median, so that a cloud with sixty regions counts
    once; levels seen on marketplaces count as further providers. NaN without an accelerator, or
    with fewer than three providers.
    """
    servers, prices = market.servers, market.prices
    per_accelerator = prices.price_usd_per_h / market.of_server(servers.num_accelerators)
    rows = np.flatnonzero(sound & (market.of_server(servers.num_accelerators) > 0))
    kinds = _purchase_kinds()
    own: dict[tuple[str, str], dict[str, list[float]]] = {}
    for row, server, purchase in zip(rows.tolist(), prices.server_index[rows].tolist(), prices.purchase_index[rows].tolist(), strict=True):
        key = (servers.accelerator_name[server], kinds[purchase])
        own.setdefault(key, {}).setdefault(servers.provider[server], []).append(float(per_accelerator[row]))
    levels = {}
    for key, by_provider in own.items():
        medians = [float(np.median(values)) for values in by_provider.values()] + list(market.market_levels.get(key, ()))
        if len(medians) >= 3:
            levels[key] = float(np.median(medians))
    result = np.full(len(prices), np.nan)
    for row, server, purchase in zip(rows.tolist(), prices.server_index[rows].tolist(), prices.purchase_index[rows].tolist(), strict=True):
        result[row] = levels.get((servers.accelerator_name[server], kinds[purchase]), np.nan)
    return result


def _purchase_kinds() -> list[str]:
    return ["on-demand" if name.startswith(("on-demand", "capacity")) else "spot" if name == "spot" else "committed" for name in PURCHASES]


def check_price_outlier_per_gpu(market: CheckedMarket, limits: Limits, sound: Flags) -> CheckFailures:
    """Price per accelerator far from what providers usually take for it, after
    room for a large host."""
    price, count = market.prices.price_usd_per_h, market.of_server(market.servers.num_accelerators)
    level = reference_levels(market, sound) * count
    host = np.nan_to_num(market.of_server(market.servers.vcpus)) * limits["host_usd_per_vcpu_h"]
    low, high = level / limits["factor_below"], level * limits["factor_above"] + host
    bad = sound & ((price < low) | (price > high)) & ~_reviewed(market, limits)
    return failures(bad, had=lambda i: _usd(price[i]), limit=lambda i: f"{low[i]:.3g} to {high[i]:.3g} USD/h")


def _reviewed(market: CheckedMarket, limits: Limits) -> Flags:
    """Rows a person looked at and found real; each entry in the rules carries its reason."""
    servers = market.servers
    keys = [(entry["provider"], entry["instance_type"]) for entry in limits.get("reviewed", ())]

    def is_reviewed(provider: str, name: str) -> bool:
        return any(
            provider == wanted and (name == prefix or (prefix.endswith("*") and name.startswith(prefix[:-1]))) for wanted, prefix in keys
        )

    reviewed = np.array([is_reviewed(*key) for key in zip(servers.provider, servers.instance_type, strict=True)], dtype=np.bool_)
    return reviewed[np.maximum(market.prices.server_index, 0)]


def check_price_outlier_per_vcpu(market: CheckedMarket, limits: Limits, sound: Flags) -> CheckFailures:
    """Price of a server without accelerator far from what the same provider takes for
    its cores and memory."""
    servers, prices = market.servers, market.prices
    usual = servers.vcpus * limits["usd_per_vcpu_h"] + servers.memory_bytes / GIB * limits["usd_per_gib_h"]
    judged = (
        (servers.num_accelerators == 0)
        & np.isfinite(usual)
        & np.array([name not in limits["skipped_categories"] for name in servers.category])
    )
    rows = np.flatnonzero(sound & judged[np.maximum(prices.server_index, 0)])
    ratio = np.full(len(prices), np.nan)
    ratio[rows] = prices.price_usd_per_h[rows] / usual[prices.server_index[rows]]
    provider = np.unique(np.array(servers.provider), return_inverse=True)[1].reshape(-1)
    level = np.full(len(prices), np.nan)
    level[rows], _ = group_medians(provider[prices.server_index[rows]] * len(PURCHASES) + prices.purchase_index[rows], ratio[rows])
    bad = (ratio < level / limits["factor"]) | (ratio > level * limits["factor"])
    usual_price = level * usual[np.maximum(prices.server_index, 0)]
    return failures(
        bad, had=lambda i: _usd(prices.price_usd_per_h[i]), limit=lambda i: f"within {limits['factor']:g}x of {usual_price[i]:.3g} USD/h"
    )


def check_price_jump(market: CheckedMarket, limits: Limits, sound: Flags) -> CheckFailures:
    """Price in one region many times above or below the same server's usual price in the others."""
    prices = market.prices
    rows = np.flatnonzero(sound & ~prices.is_pseudo_region)
    key = prices.server_index[rows] * len(PURCHASES) + prices.purchase_index[rows]
    price = prices.price_usd_per_h[rows]
    median, size = group_medians(key, price)
    # Of two prices neither is the usual one: compare with the other (twice the mean less the own).
    usual = np.where(size == 2, np.maximum(2 * median - price, 1e-12), median)
    bad = np.zeros(len(prices), dtype=np.bool_)
    bad[rows] = (size >= 2) & ((price > usual * limits["factor"]) | (price < usual / limits["factor"]))
    level = np.full(len(prices), np.nan)
    level[rows] = usual
    return failures(
        bad,
        had=lambda i: _usd(prices.price_usd_per_h[i]),
        limit=lambda i: f"within {limits['factor']:g}x of {level[i]:.3g} USD/h elsewhere",
    )


def on_demand_beside(market: CheckedMarket, sound: Flags) -> tuple[Floats, Indices]:
    """For every row the sound on-demand price of the same server in the same region (NaN
    without), and its row."""
    prices = market.prices
    key = prices.server_index * (len(market.regions.region) + 1) + prices.region_index
    rows = np.flatnonzero(sound & (prices.purchase_index == PURCHASE_CODES["on-demand"]))
    rows = rows[np.argsort(key[rows], kind="stable")]
    place = np.minimum(np.searchsorted(key[rows], key), max(len(rows) - 1, 0))
    if not len(rows):
        return np.full(len(prices), np.nan), np.full(len(prices), -1, dtype=np.intp)
    found = key[rows[place]] == key
    return np.where(found, prices.price_usd_per_h[rows[place]], np.nan), np.where(found, rows[place], -1)


def check_price_jump_between_purchases(market: CheckedMarket, limits: Limits, sound: Flags) -> CheckFailures:
    """A spot or committed price many times off the on-demand price beside it: one of the two is
    wrong, so both are held back."""
    prices = market.prices
    beside, beside_row = on_demand_beside(market, sound)
    off = sound & ((prices.price_usd_per_h < beside / limits["factor"]) | (prices.price_usd_per_h > beside * limits["factor_above"]))
    partners = np.full(len(prices), -1, dtype=np.intp)
    partners[off] = beside_row[off]
    partners[beside_row[off]] = np.flatnonzero(off)
    bad = partners >= 0
    other = prices.price_usd_per_h[np.maximum(partners, 0)]
    return failures(
        bad,
        had=lambda i: _usd(prices.price_usd_per_h[i]),
        limit=lambda i: f"{_usd(other[i])} beside it, at most {limits['factor']:g}x apart",
    )


def check_spot_below_on_demand(market: CheckedMarket, limits: Limits, sound: Flags) -> CheckFailures:
    """Spot capacity is never dearer than on demand in the same region."""
    spot = market.prices.purchase_index == PURCHASE_CODES["spot"]
    return _above_on_demand(market, sound=sound, rows=spot, tolerance=limits["tolerance"])


def check_commitment_below_on_demand(market: CheckedMarket, limits: Limits, sound: Flags) -> CheckFailures:
    """A commitment dearer than on demand buys nothing; it is shown, not quarantined."""
    kinds = _purchase_kinds()
    committed = np.array([kind == "committed" for kind in kinds])[np.maximum(market.prices.purchase_index, 0)]
    return _above_on_demand(market, sound=sound, rows=committed, tolerance=limits["tolerance"])


def _above_on_demand(market: CheckedMarket, *, sound: Flags, rows: Flags, tolerance: float) -> CheckFailures:
    price = market.prices.price_usd_per_h
    beside, _ = on_demand_beside(market, sound)
    return failures(
        sound & rows & (price > beside * (1 + tolerance)), had=lambda i: _usd(price[i]), limit=lambda i: f"at most {_usd(beside[i])}"
    )


# Order matters: a check that compares sees only the rows that passed those above it.
SERVER_CHECKS: tuple[Check, ...] = (check_unknown_accelerator, check_accelerator_memory_matches, check_server_shape)
PRICE_CHECKS: tuple[Check, ...] = (
    check_orphan_price,
    check_price_positive,
    check_duplicate_offer,
    check_price_conversion,
    check_price_jump,
    check_price_outlier_per_gpu,
    check_price_outlier_per_vcpu,
    check_price_jump_between_purchases,
    check_spot_below_on_demand,
    check_commitment_below_on_demand,
    check_price_superseded,
)


def run_checks(market: CheckedMarket, *, rule: Mapping[str, Any]) -> list[Finding]:
    """Every check over every row, in order. `rule` is the rules file: `checks` holds limits,
    severity and texts by name."""
    checks = rule["checks"]
    found: list[Finding] = []
    sound = np.ones(len(market.prices), dtype=np.bool_)
    with np.errstate(invalid="ignore", divide="ignore"):
        for check in SERVER_CHECKS:
            found += _server_findings(
                market, check.__name__, result=check(market, checks[check.__name__], sound), rule=checks[check.__name__]
            )
        for check in PRICE_CHECKS:
            limits = checks[check.__name__]
            result = check(market, limits, sound)
            found += _price_findings(market, check.__name__, result=result, rule=limits)
            if limits["severity"] == "error":
                sound[result.rows] = False
    return found + stale_findings(market, rule=checks["check_price_stale"], max_age_days=rule["stale"]["max_age_days"])


def _server_findings(market: CheckedMarket, check: str, *, result: CheckFailures, rule: Limits) -> list[Finding]:
    servers = market.servers
    return [
        Finding(
            check, rule["severity"], servers.provider[i], "", servers.instance_type[i], "", had, limit, rule["explanation"], server_row=i
        )
        for i, had, limit in zip(result.rows.tolist(), result.had, result.limit, strict=True)
    ]


def _price_findings(market: CheckedMarket, check: str, *, result: CheckFailures, rule: Limits) -> list[Finding]:
    prices, found = market.prices, []
    for i, had, limit in zip(result.rows.tolist(), result.had, result.limit, strict=True):
        provider, region, name, purchase = price_identity(market.servers, market.regions, prices, i)
        found.append(Finding(check, rule["severity"], provider, region, name, purchase, had, limit, rule["explanation"], price_row=i))
    return found


def price_identity(servers: ServerTable, regions: RegionTable, prices: PriceColumns, row: int) -> tuple[str, str, str, str]:
    """Provider, region, server and purchase mode of a price, from the source's own words where
    the row is an orphan."""
    if row in prices.orphans:
        return prices.orphans[row]
    server, region, purchase = int(prices.server_index[row]), int(prices.region_index[row]), int(prices.purchase_index[row])
    return servers.provider[server], regions.region[region], servers.instance_type[server], PURCHASES[purchase]


def stale_findings(market: CheckedMarket, *, rule: Limits, max_age_days: float) -> list[Finding]:
    """One line for each provider and date of old prices (they are flagged in every
    answer, not quarantined)."""
    prices = market.prices
    rows = np.flatnonzero(prices.is_stale & (prices.server_index >= 0))
    keys: dict[tuple[str, str], int] = {}
    for server, date in zip(prices.server_index[rows].tolist(), prices.as_of_index[rows].tolist(), strict=True):
        key = (market.servers.provider[server], prices.as_of_dates[date])
        keys[key] = keys.get(key, 0) + 1
    limit = f"{max_age_days:g} days before the newest price"
    return [
        Finding("check_price_stale", rule["severity"], provider, "*", f"{count} prices", "", date, limit, rule["explanation"])
        for (provider, date), count in sorted(keys.items())
    ]


def quarantined_rows(findings: Iterable[Finding], *, num_servers: int, num_prices: int) -> tuple[Flags, Flags]:
    """Masks of the servers and prices that may not be recommended."""
    bad_servers, bad_prices = np.zeros(num_servers, dtype=np.bool_), np.zeros(num_prices, dtype=np.bool_)
    for finding in findings:
        if finding.severity != "error":
            continue
        if finding.price_row >= 0:
            bad_prices[finding.price_row] = True
        elif finding.server_row >= 0:
            bad_servers[finding.server_row] = True
    return bad_servers, bad_prices
