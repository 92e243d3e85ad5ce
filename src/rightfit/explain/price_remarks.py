"""What a server or a price of a list must be read with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rightfit.explain.labels import label
from rightfit.explain.messages import Lang

_FLAGS = ("is_estimate", "is_stale", "is_pseudo_region")


def price_remark(record: Mapping[str, Any], lang: Lang) -> str:
    """The remarks on one row of a `PriceList`, one after the other; empty where it is a plain price of today."""
    newer = record.get("superseded_by")
    found = [label("remark", "superseded_by", lang, name=newer)] if newer else []
    return ", ".join([*found, *(label("remark", flag, lang) for flag in _FLAGS if record.get(flag))])


def server_status(record: Mapping[str, Any], lang: Lang) -> str:
    """The status of one row of a `ServerList`; of a former name the name under which its seller lists it now."""
    from rightfit.catalog.offers import SUPERSEDED_BY  # lists of a command line that starts load no catalog

    reason = str(record["not_recommended"])
    if not reason.startswith(SUPERSEDED_BY):
        return str(record["status"])
    return label("remark", "superseded_by", lang, name=reason.removeprefix(SUPERSEDED_BY))
