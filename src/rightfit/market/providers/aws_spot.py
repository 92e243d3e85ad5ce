"""The feeds behind AWS's public pages on spot: prices and interruption bands of every region,
without an account.

https://aws.amazon.com/ec2/spot/pricing/ reads website.spot.ec2.aws.a2z.com/spot.json (one price a
region and type), the Spot Advisor its own file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rightfit.errors import NetworkError
from rightfit.market.providers.aws import advisor_rows
from rightfit.market.providers.base import Client, Known, Need, PriceRow, Row, endpoint
from rightfit.messages import Message, at_place

LINUX, CURRENCY = "linux", "USD"


class _AwsSpot:
    name = "aws-spot"
    covers = ("aws",)
    source = "AWS spot feed"
    needs = Need()

    def parts(self, inventory: Known) -> Sequence[str]:
        return ["prices", "advisor"]

    def fetch(self, client: Client, part: str, *, inventory: Known) -> Iterator[Row]:
        if part == "advisor":
            yield from advisor_rows(client)
            return
        feed = client.json(endpoint("aws_spot", "https://website.spot.ec2.aws.a2z.com") + "/spot.json")
        try:
            regions = feed["config"]["regions"]
        except (KeyError, TypeError):
            raise NetworkError(at_place("aws-spot", Message("catalog.feed_form"))) from None
        for region in regions:
            yield from _rows(region)


def _rows(region: Mapping[str, Any]) -> Iterator[Row]:
    """The Linux prices of one region; "N/A*" says that there is none."""
    for group in region["instanceTypes"]:
        for size in group["sizes"]:
            texts = [column["prices"].get(CURRENCY, "") for column in size["valueColumns"] if column["name"] == LINUX]
            if texts and not texts[0].startswith("N/A"):
                yield PriceRow("aws", size["size"], region["region"], "spot", float(texts[0]), CURRENCY, note="AWS spot feed")


PROVIDER = _AwsSpot()
