"""Parts of a card: slices that the vendor's placement table allows (MIG), and fractions that programs share in turn."""

from __future__ import annotations

import dataclasses
import functools
import re

from rightfit import facts
from rightfit.errors import InputError
from rightfit.facts.records import Accelerator
from rightfit.facts.tables import table
from rightfit.messages import Message, at_place
from rightfit.records import dataclass
from rightfit.units import parse_count

_RATES = ("memory_bandwidth", "fp32_flops", "tf32_flops", "fp16_flops", "bf16_flops", "fp8_flops", "int8_ops", "int4_ops", "fp4_flops")
_SPEEDS = tuple(name for name in _RATES if name != "memory_bandwidth")
_PROFILE = re.compile(r"([1-7])g(?:\.\d+gb)?")


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of a card: `name` of the profile or fraction; its shares of memory (and of its bandwidth) and of arithmetic; how many a card
    has. `isolated`: whether neighbours cannot slow it down."""

    name: str
    memory_share: float
    compute_share: float
    per_card: int
    isolated: bool
    source: str


def read_slice(text: str) -> str:
    """A profile ("3g.40gb", or "3g" for the one of each card) or a fraction ("1/4", "25%", "0.25") as it is kept; InputError else."""
    word = text.strip().casefold().removeprefix("mig-").removeprefix("mig ")
    if _PROFILE.fullmatch(word):
        known = sorted({row["profile"] for row in table("card_slices")})
        if "." in word and word not in known:
            of_size = [name for name in known if name.startswith(word.partition(".")[0])]
            raise InputError(
                at_place("slice", Message("facts.no_slice", text=text, size=word.partition(".")[0], profiles=", ".join(of_size))),
                field="slice",
            )
        return word
    share = _fraction(word)
    if share is None or not 0.0 < share <= 0.5:
        raise InputError(
            at_place("slice", Message("facts.slice_unread", text=text)),
            field="slice",
        )
    return f"{share:.6g}"


def _fraction(word: str) -> float | None:
    above, _, below = word.partition("/")
    try:
        whole = parse_count(above.removesuffix("%"), example="1/4") / (100.0 if word.endswith("%") else 1.0)
        return whole / parse_count(below, example="1/4") if below else whole
    except (InputError, ZeroDivisionError):
        return None


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a slice may begin on a card (`starts`), how many of its `places` it takes: of MIG parts of memory by the vendor's table, of fractions
    shares that are all alike."""

    starts: tuple[int, ...]
    size: int
    places: int


@functools.cache
def placement_of(card: str, text: str) -> Placement | None:
    """Where a slice may stand on a card; None where its vendor makes none such, or its placements are not known."""
    part = slice_of(card, text)
    if part is None:
        return None
    if not part.isolated:
        places = round(1.0 / part.memory_share)
        return Placement(tuple(range(places)), 1, places) if abs(places * part.memory_share - 1.0) < 1e-6 else None
    for row in table("slice_placements"):
        if (
            row["instances"] == part.name.partition(".")[0]
            and re.fullmatch(row["cards"], card)
            and float(row["memory_share"]) == part.memory_share
        ):
            return Placement(tuple(map(int, row["starts"].split())), int(row["size"]), int(row["places"]))
    return None


@functools.cache
def slice_of(card: str, text: str) -> Slice | None:
    """The slice of an accelerator by name; None where its vendor makes none such."""
    if _PROFILE.fullmatch(text):
        rows = (row for row in table("card_slices") if re.fullmatch(row["cards"], card))
        row = next((row for row in rows if row["profile"] == text or row["profile"].partition(".")[0] == text), None)
        if row is None:
            return None
        return Slice(row["profile"], float(row["memory_share"]), float(row["compute_share"]), int(row["per_card"]), True, row["source"])
    share, usual = float(text), facts.coefficients("serving_planning")
    kept = share * (1.0 - usual["shared_card_loss"])
    return Slice(f"1/{1.0 / share:.3g}", share, kept, int(1.0 / share + 1e-9), False, "time slicing or MPS; serving_planning.toml")


def cut(card: Accelerator, part: Slice) -> Accelerator:
    """The slice as a card of its own: memory and its bandwidth by the share of memory, arithmetic by that of multiprocessors; no link to
    other slices."""
    usual = facts.coefficients("serving_planning")
    rates = {name: getattr(card, name) * part.compute_share for name in _SPEEDS}
    bandwidth = part.memory_share if part.isolated else part.compute_share
    return dataclasses.replace(
        card,
        name=f"{card.name}/{part.name}",
        memory_bytes=card.memory_bytes * part.memory_share * (usual["slice_memory"] if part.isolated else 1.0),
        memory_bandwidth=card.memory_bandwidth * bandwidth,
        num_sms=max(1, int(card.num_sms * part.compute_share)),
        l2_bytes=card.l2_bytes * part.memory_share,
        tdp_w=card.tdp_w * part.compute_share,
        nvlink_bandwidth=0.0,
        **rates,
    )
