"""Tencent Cloud's public price calculator of CVM: the answer of DescribeZoneInstanceConfigInfos as
the pages behind it fetch it, in yuan and without an account.

The address is public but not documented as an interface: when it changes its form, the refresh says
so and the old prices stay.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

from rightfit.errors import NetworkError
from rightfit.market.providers import tencent
from rightfit.market.providers.base import Client, Known, Need, Row, endpoint
from rightfit.messages import Message, at_place

_ACTION = "DescribeZoneInstanceConfigInfos"


class _TencentList:
    name = "tencent-list"
    covers = ("tencent",)
    source = "Tencent Cloud public price calculator"
    needs = Need()

    def parts(self, inventory: Known) -> Sequence[str]:
        return tencent.PROVIDER.parts(inventory)

    def fetch(self, client: Client, part: str, *, inventory: Known) -> Iterator[Row]:
        charge, _, region = part.partition(":")
        asked = {"Version": "2017-03-12", "Platform": "LINUX", "Filters": [{"Name": "instance-charge-type", "Values": [charge]}]}
        answer = client.json(
            endpoint("tencent_list", "https://workbench.cloud.tencent.com") + "/cgi/api",
            method="POST",
            params={"i": f"cvm/{_ACTION}", "region": region},
            json={"serviceType": "cvm", "action": _ACTION, "region": region, "cgiName": "api", "data": asked},
        )
        found = (answer.get("data") or {}).get("Response") or {}
        if failed := (found.get("Error") or {}).get("Code") or ("" if "InstanceTypeQuotaSet" in found else answer.get("code", "?")):
            raise NetworkError(at_place(self.name, Message("catalog.request_failed", code=str(failed)[:80])))
        items = [_item(entry) for entry in found["InstanceTypeQuotaSet"] or ()]
        yield from tencent.cheapest_rows(items, charge=charge, region=region, currency="CNY", note="cheapest zone, public price")


def _item(entry: Any) -> Any:
    """An item as the client library gives it: fields as attributes, no price as None."""
    item = json.loads(json.dumps(entry), object_hook=lambda fields: SimpleNamespace(**fields))
    item.Price = getattr(item, "Price", None)
    return item


PROVIDER = _TencentList()
