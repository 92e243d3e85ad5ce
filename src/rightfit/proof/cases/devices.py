"""Devices that the cells of measured rows name, as the forward physics sees them."""

from __future__ import annotations

import functools
import re

from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.estimate.forward_devices import ForwardDevice, card_device, processor_device, unrented_device
from rightfit.facts.constants import constants
from rightfit.facts.machines import card_of_instance, processor_kind, unrented_card
from rightfit.facts.word_tables import says, shape

_MIG = re.compile(r"\(?(?:mig[ -]*)?(\d)g\.\d+gb\)?(?: mig)?", re.IGNORECASE)
_MIG_SLICES = constants("forward_work")["mig_slices"]
_CORES = r"\((\d+)\s?{core_name}|\b(\d+)[ -]?cores?\b"
_GOOGLE_SIZE = r"-{google_kind}-(\d+)"
_XLARGE = re.compile(r"\.(\d*)xlarge", re.IGNORECASE)
_VIRTUAL_PER_XLARGE = constants("forward_work")["vcpus_per_xlarge"]


@functools.cache
def forward_device(text: str, memory_gib: str = "") -> ForwardDevice | None:
    """The device that a cell names; None when nobody knows it."""
    if _says("processor", text):
        return _processor(text)
    if found := _MIG.search(text):
        whole = forward_device(_MIG.sub("", text).strip(" ()[]-_,"), memory_gib)
        return whole.share(float(found[1]) / _MIG_SLICES) if whole else None
    plain = shape("forward", "{decoration}", ignore_case=True).sub(" ", text).strip()
    for name in dict.fromkeys((f"{text} {memory_gib}GB" if memory_gib else text, text, plain)):
        try:
            record = facts.accelerator(name, typical=True)
        except RightfitError:
            continue
        return card_device(record, assumption="" if len(facts.match_accelerators(text)) == 1 else f"{text} taken as {record.name}")
    if card := unrented_card(text):
        return unrented_device(card)
    rented = card_of_instance(text)
    return forward_device(rented) if rented else _processor(text) if _says("small_processor", text) else None


def _says(chosen: str, text: str) -> bool:
    return says("forward", chosen, text, ignore_case=True)


def _processor(text: str) -> ForwardDevice:
    return processor_device(processor_kind(text), cores=_cores(text), name=text, is_client=_says("client", text))


def _cores(text: str) -> float:
    """Cores that words about a processor tell: their number, or the size of a server of AWS or Google; 0 where they tell none."""
    if stated := shape("forward", _CORES, ignore_case=True).search(text):
        return float(stated[1] or stated[2])
    if rented := shape("forward", _GOOGLE_SIZE, ignore_case=True).search(text):
        return float(rented[1]) / 2
    if size := _XLARGE.search(text):
        threads = 1.0 if "graviton" in text.lower() or re.search(r"\b\w\dg", text) else 2.0
        return float(size[1] or 1) * _VIRTUAL_PER_XLARGE / threads
    return 0.0
