"""The place that a word means."""

from __future__ import annotations

from rightfit.errors import InputError
from rightfit.messages import Message
from rightfit.spread.cluster import OnRay
from rightfit.spread.places import Here, Place, Processes
from rightfit.workload.vocabulary import nearest_words

WORDS = ("here", "processes", "ray")


def place_of(text: str, *, workers: int | None = None) -> Place:
    """The place that a word means: here, processes, ray (a cluster that is known here, else one that is started), ray:HOST:PORT or ray://HOST:PORT."""
    word, _, address = text.strip().partition(":")
    if workers is not None and workers < 1:
        raise InputError(Message("spread.no_workers", value=workers), field="at_once", allowed="1 or more")
    if word.casefold() == "ray":
        return OnRay(text.strip() if address.startswith("//") else address, workers=workers)
    if address or word.casefold() not in WORDS:
        near = nearest_words(word, WORDS, count=1)
        raise InputError(
            Message("spread.no_place_near", word=text[:60], near=near[0]) if near else Message("spread.no_place", word=text[:60]),
            field="on",
            allowed="here, processes, ray, ray:HOST:PORT, ray://HOST:PORT",
            nearest=near,
        )
    return Processes(workers) if word.casefold() == "processes" else Here()
