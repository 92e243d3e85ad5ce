"""How far estimated AWS spot prices of the bundled catalog were from quotes of AWS, and
which doubt follows.

    python validation/market/spot_estimates.py

For each (server, region) the quotes of its zones are compared with the estimate; the median zone
stands for the region, because whoever rents takes what has capacity, not the cheapest zone.
Prints quantiles of quote / estimate over all, by family, and by how low the estimate is against
the on-demand price; the coefficients spot_price_* of facts/data/coefficients/planning.toml are
read off these.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rightfit.catalog import PURCHASE_CODES, open_catalog

SHARES = (0.025, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975)


def quotes() -> dict[tuple[str, str], list[float]]:
    """(server, region) -> prices of its zones."""
    lines = (Path(__file__).parent / "aws_spot_quotes.txt").read_text("utf-8").splitlines()
    rows = [line.split() for line in lines if line and not line.startswith("#")]
    return {(kind, region): [float(price) for price in prices.split(",")] for kind, region, prices in rows}


def estimates() -> dict[tuple[str, str], tuple[float, float]]:
    """(server, region) -> estimated spot price and on-demand price of the catalog."""
    table = open_catalog().all_offers(has_accelerator=True)
    found: dict[tuple[str, str], dict[int, float]] = {}
    for row in range(len(table)):
        server = table.servers
        if server.provider[table.server_index[row]] == "aws" and table.purchase_index[row] in (0, PURCHASE_CODES["spot"]):
            key = (server.instance_type[table.server_index[row]], table.regions[table.region_index[row]])
            found.setdefault(key, {})[int(table.purchase_index[row])] = float(table.price_usd_per_h[row])
    spot = PURCHASE_CODES["spot"]
    return {key: (prices[spot], prices[0]) for key, prices in found.items() if len(prices) == 2}


def main() -> None:
    """Print the table."""
    known, rows = estimates(), []
    for key, prices in quotes().items():
        if key in known:
            rows.append((key[0], float(np.median(prices)), min(prices), *known[key]))
    quoted, cheapest, estimated, whole = (np.array([row[column] for row in rows]) for column in range(1, 5))
    print(f"{len(rows)} (server, region) pairs; quantiles {SHARES}")
    print("median zone / estimate  ", np.quantile(quoted / estimated, SHARES).round(2))
    print("cheapest zone / estimate", np.quantile(cheapest / estimated, SHARES).round(2))
    print("quote / on demand       ", np.quantile(quoted / whole, SHARES).round(2))
    for low, high in ((0.0, 0.2), (0.2, 0.35), (0.35, 0.45), (0.45, 1.0)):
        inside = (estimated / whole >= low) & (estimated / whole < high)
        if inside.any():
            shown = np.quantile(quoted[inside] / estimated[inside], SHARES).round(2)
            print(
                f"estimate {low:.2f}-{high:.2f} of on demand: {inside.sum()} pairs",
                shown,
                "share",
                np.quantile(quoted[inside] / whole[inside], SHARES).round(2),
            )
    for family in sorted({row[0].split(".")[0] for row in rows}):
        inside = np.array([row[0].startswith(family + ".") for row in rows])
        print(family, inside.sum(), np.quantile(quoted[inside] / estimated[inside], SHARES).round(2))


if __name__ == "__main__":
    main()
