"""The sources of current prices, one module a cloud; imported only when asked for."""

from __future__ import annotations

import importlib
from typing import cast

from rightfit.errors import UnknownNameError
from rightfit.market.providers.base import Provider
from rightfit.messages import Message

# In the order in which they are asked: a provider's own interface comes after collections of
# others, so that its word is the last.
NAMES: tuple[str, ...] = (
    *("skypilot", "aws-list", "aws-spot", "aws", "azure", "gcp-list", "gcp"),
    *("alicloud-list", "alicloud", "tencent-list", "tencent"),
    *("lambda", "runpod", "vast", "nebius", "oci", "verda", "crusoe"),
)


def provider(name: str) -> Provider:
    """A source of prices, by its name or another name of that cloud: the PROVIDER of the module of
    that cloud, or one of its PUBLIC lists, which need no account (`aws-spot`, `alicloud-list`)."""
    from rightfit.facts import tables
    from rightfit.market.names import find_provider

    wanted = name.strip().casefold()
    found = wanted if wanted in NAMES else {"vast.ai": "vast", "vastai": "vast"}.get(wanted) or find_provider(name) or ""
    if found not in NAMES:
        near = tables.nearest(wanted, NAMES, count=3)
        raise UnknownNameError(
            "source of prices", name, nearest=near, allowed=Message("names.known_words", names=", ".join(NAMES)), field="provider"
        )
    cloud = found.partition("-")[0]
    module = importlib.import_module(f"rightfit.market.providers.{'lambda_cloud' if cloud == 'lambda' else cloud}")
    sources = cast("tuple[Provider, ...]", (module.PROVIDER, *getattr(module, "PUBLIC", ())))
    return next(source for source in sources if source.name == found)
