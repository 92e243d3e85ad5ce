"""The catalogs that SkyPilot crawls and publishes:
https://github.com/skypilot-org/skypilot-catalog, one CSV file a cloud; no account.

The way to clouds without a public price interface. The files do not say when a price was read; the
day of fetching stands as its date.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence

from rightfit.errors import NetworkError
from rightfit.market.providers.base import Client, Known, Need, PriceRow, Row, endpoint
from rightfit.messages import Message, at_place

# Their folder -> our provider, where their instance types are called as in our catalog.
_FOLDERS: Mapping[str, str] = {
    "cudo": "cudo",
    "do": "digitalocean",
    "jarvislabs": "jarvislabs",
    "lambda": "lambda",
    "mithril": "mithril",
    "nebius": "nebius",
    "oci": "oci",
    "paperspace": "paperspace",
    "verda": "verda",
}
_VERSION = {"paperspace": "v5", "do": "v6"}  # clouds that left newer versions
_COLUMNS = {"InstanceType", "Price", "SpotPrice", "Region"}
_ONE_PRICE = {"oci": "global"}  # the same list price in all its regions


def folder_rows(client: Client, folder: str, *, inventory: Known) -> Iterator[Row]:
    """Prices of one cloud's file. A price with dearer zones or regions of one name
    keeps the cheapest."""
    base = endpoint("skypilot", "https://raw.githubusercontent.com/skypilot-org/skypilot-catalog/master")
    text = client.text(f"{base}/catalogs/{_VERSION.get(folder, 'v8')}/{folder}/vms.csv")
    reader = csv.DictReader(io.StringIO(text))
    if not _COLUMNS.issubset(reader.fieldnames or ()):
        raise NetworkError(at_place(client.provider, Message("catalog.file_lacks", folder=folder, columns=", ".join(sorted(_COLUMNS)))))
    provider = _FOLDERS[folder]
    cheapest: dict[tuple[str, str, str], float] = {}
    for line in reader:
        if None in line.values() or None in line:
            raise NetworkError(at_place(client.provider, Message("catalog.file_cut", folder=folder, row=reader.line_num)))
        name = _our_name(line["InstanceType"], inventory.servers[provider])
        for purchase, cell in (("on-demand", line["Price"]), ("spot", line["SpotPrice"])):
            if cell.strip():
                key = (name, _ONE_PRICE.get(provider, line["Region"]), purchase)
                cheapest[key] = min(float(cell), cheapest.get(key, float("inf")))
    for (name, region, purchase), price in cheapest.items():
        yield PriceRow(provider, name, region, purchase, price)


def _our_name(name: str, servers: Mapping[str, object]) -> str:
    return name if name in servers or name.replace(" ", "_") not in servers else name.replace(" ", "_")


class _SkyPilot:
    name = "skypilot"
    covers = tuple(sorted(_FOLDERS.values()))
    source = "skypilot-org/skypilot-catalog"
    needs = Need()

    def parts(self, inventory: Known) -> Sequence[str]:
        return list(_FOLDERS)

    def fetch(self, client: Client, part: str, *, inventory: Known) -> Iterator[Row]:
        yield from folder_rows(client, part, inventory=inventory)


PROVIDER = _SkyPilot()
