"""Crusoe publishes its prices on a page only; gpuhunt (dstack) keeps that table and asks Crusoe
where each type can be had.

https://github.com/dstackai/gpuhunt. The price is that of gpuhunt's installed version, so it is as
old as that package.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rightfit.market.providers.base import Client, Known, Need, PriceRow, Row, endpoint, one_line, refused

_FORMS = (
    ("a100", "40gb", "A100-PCIe-40GB"),
    ("a100", "sxm", "A100-SXM-80GB"),
    ("a100", "", "A100-PCIe-80GB"),
    ("h100", "", "H100-SXM-80GB"),
)
_ALSO = (("h200", "", "H200-SXM-141GB"), ("b200", "", "B200-SXM-180GB"), ("l40s", "", "L40S"), ("a40", "", "A40"), ("mi300x", "", "MI300X"))


class _Crusoe:
    name = "crusoe"
    covers = ("crusoe",)
    source = "gpuhunt: Crusoe API and price page"
    needs = Need(
        extra="prices-crusoe",
        packages=("httpx", "tenacity", "gpuhunt"),
        credentials="CRUSOE_ACCESS_KEY, CRUSOE_SECRET_KEY and CRUSOE_PROJECT_ID (console, Security, API access)",
        variables=(("CRUSOE_ACCESS_KEY", "CRUSOE_SECRET_KEY", "CRUSOE_PROJECT_ID"),),
    )

    def parts(self, inventory: Known) -> Sequence[str]:
        return ["types"]

    def fetch(self, client: Client, part: str, *, inventory: Known) -> Iterator[Row]:
        import requests
        from gpuhunt.providers import crusoe

        crusoe.API_URL = endpoint("crusoe", crusoe.API_URL)
        try:
            offers = crusoe.CrusoeProvider.from_env().get()
        except requests.HTTPError as error:
            if error.response is not None and error.response.status_code in (401, 403):
                raise refused("crusoe", self.needs.credentials) from None
            raise one_line("crusoe", error) from None
        except (requests.RequestException, KeyError, ValueError) as error:
            raise one_line("crusoe", error) from None
        servers, places = inventory.servers["crusoe"], frozenset(inventory.regions["crusoe"])
        for offer in offers:
            purchase = "spot" if offer.spot else "on-demand"
            price = float(offer.price)
            if offer.instance_name in servers and offer.location in places:
                yield PriceRow("crusoe", offer.instance_name, offer.location, purchase, price)
            if (plain := plain_name(offer.instance_name, int(offer.gpu_count))) in servers:
                yield PriceRow("crusoe", plain, "any", purchase, price)


def plain_name(product: str, count: int) -> str:
    """ "a100-80gb-sxm-ib.8x" is what lists of prices call 8x_A100-SXM-80GB."""
    found = (name for start, word, name in _FORMS + _ALSO if product.startswith(start) and word in product)
    return f"{count}x_{next(found, '')}"


PROVIDER = _Crusoe()
