"""From what the user typed to one model record."""

from __future__ import annotations

from rightfit.errors import UnknownNameError
from rightfit.facts import architectures, fuzzy
from rightfit.facts.records import Model


def model(text: str) -> Model:
    """The model that `text` names."""
    entry = architectures.exact_names().get(text.strip().casefold())
    if entry is not None:
        return architectures.load(entry)
    raise UnknownNameError("model", text, nearest=fuzzy.nearest(text, architectures.exact_names()))
