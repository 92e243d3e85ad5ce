"""Nebius: its prices are served by a gRPC calculator only; the list that gpuhunt (dstack) collects
from it every day is public.

https://github.com/dstackai/gpuhunt: <base>/nebius/version, then <base>/nebius/<version>/catalog.zip
holding nebius.csv.
"""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterator, Sequence

from rightfit.errors import NetworkError
from rightfit.market.providers.base import Client, Known, Need, PriceRow, Row, ServerRow, endpoint, match_accelerator
from rightfit.messages import Message


class _Nebius:
    name = "nebius"
    covers = ("nebius",)
    source = "gpuhunt catalog of Nebius"
    needs = Need()

    def parts(self, inventory: Known) -> Sequence[str]:
        return ["catalog"]

    def fetch(self, client: Client, part: str, *, inventory: Known) -> Iterator[Row]:
        base = endpoint("gpuhunt", "https://dstack-gpu-pricing.s3.eu-west-1.amazonaws.com/v3")
        version = client.text(f"{base}/nebius/version").strip()
        try:
            archive = zipfile.ZipFile(io.BytesIO(client.content(f"{base}/nebius/{version}/catalog.zip")))
            lines = list(csv.DictReader(io.StringIO(archive.read("nebius.csv").decode())))
        except (zipfile.BadZipFile, KeyError, UnicodeDecodeError):
            raise NetworkError(Message("catalog.list_damaged")) from None
        for line in lines:
            name = line["instance_name"].replace(" ", "_")
            count, each = int(float(line["gpu_count"] or 0)), float(line["gpu_memory"] or 0)
            gpu = match_accelerator(f"{line['gpu_name']} SXM" if "sxm" in name else line["gpu_name"], memory_gib=each) if count else ""
            if gpu or not count:
                shape = float(line["cpu"]), float(line["memory"])
                yield ServerRow("nebius", name, "gpu" if count else "cpu", "gpu" if count else "general", *shape, gpu, float(count), each)
            purchase = "spot" if line["spot"].strip().casefold() == "true" else "on-demand"
            yield PriceRow("nebius", name, line["location"], purchase, float(line["price"]))


PROVIDER = _Nebius()
