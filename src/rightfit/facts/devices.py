"""Accelerators by exact or loose name: "A100" covers every A100, "a100-80gb" those with 80 GB,
"4090" is the RTX 4090."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from rightfit.errors import AmbiguousNameError, InputError, RightfitError, UnknownNameError
from rightfit.facts import tables
from rightfit.facts.records import Accelerator
from rightfit.facts.tables import coefficients, constants, senses, table
from rightfit.messages import Message, at_place
from rightfit.records import dataclass
from rightfit.units import parse_count

_MEMORY = re.compile(r"(\d+)g(?:i?b)?")
_SOCKET = re.compile(r"(sxm|oam)\d?")
# "rtx4090" and "4090ti" are two words each; "a100", "v5e" and "mi300x" are one.
_GLUED = re.compile(r"\b(rtx|gtx|tpu|gaudi|quadro)(?=[a-z]?\d)|(?<=\d{4})(?=(?:ti|super|d)\b)|(?<=\b)(a\d{2,3})(?=\d{2}gb?\b)")
_MAKERS = frozenset(senses("names", "card_maker"))
_SERIES = frozenset(["rtx", "gtx", "quadro", "tpu", "ascend", "ali"])
_VARIANTS = frozenset(["pcie", "sxm", "oam", "nvl", "nvlink", "server", "ws"])
# Nominal and usable sizes differ by up to 8 % (B200: 192 GB on the box, 179 GiB in software).
_MEMORY_TOLERANCE = 0.08


class _Name(NamedTuple):
    product: frozenset[str]
    series: frozenset[str]
    variants: frozenset[str]
    memory_gb: int


@functools.cache
def accelerators() -> Mapping[str, Accelerator]:
    """Every bundled accelerator by name, in file order."""
    return tables.to_records(Accelerator, tables.read_rows(tables.read_text("accelerators.csv")))


@functools.cache
def _exact_names() -> Mapping[str, str]:
    return {name.casefold(): name for name in accelerators()}


@functools.cache
def _aliases() -> Mapping[str, tuple[str, ...]]:
    return {row["alias"]: tuple(row["accelerators"].split(";")) for row in tables.table("accelerator_aliases")}


@functools.cache
def _driver_names() -> Mapping[str, str]:
    return {row["driver_name"].casefold(): row["accelerator"] for row in tables.table("driver_names")}


def named_by_driver(name: str) -> str:
    """The accelerator of a product name as its driver gives it (nvidia-smi,
    torch.cuda.get_device_name); empty where none has that name."""
    return _driver_names().get(" ".join(name.casefold().split()), "")


@functools.cache
def _parse(text: str) -> _Name:
    spaced = _GLUED.sub(lambda match: match.group(0) + " ", text.casefold())
    words = re.findall(r"[a-z0-9.]+", re.sub(r"(\d+)\s+(gi?b)\b", r"\1\2", spaced))
    memory, variants, series, product = 0, set(), set(), set()
    for word in words:
        if size := _MEMORY.fullmatch(word):
            memory = int(size.group(1))
        elif socket := _SOCKET.fullmatch(word):
            variants.add(socket.group(1))
        elif word in _VARIANTS:
            variants.add(word)
        elif word in _SERIES:
            series.add(word)
        elif word not in _MAKERS:
            product.add(word)
    return _Name(frozenset(product), frozenset(series), frozenset(variants), memory)


def _covers(name: _Name, record: Accelerator) -> bool:
    known = _parse(record.name)
    if name.product != known.product or not name.series <= known.series:
        return False
    if not name.variants <= known.variants | {record.form}:
        return False
    if not name.memory_gb and _is_altered(record.name):
        return False
    memory_gb = record.memory_bytes / 2**30
    return not name.memory_gb or name.memory_gb == known.memory_gb or abs(name.memory_gb / memory_gb - 1) <= _MEMORY_TOLERANCE


def _is_altered(name: str) -> bool:
    """Whether a card is another with more memory than its maker gave it (RTX-4090-48GB): nobody
    means it who does not say so."""
    return re.sub(r"-\d+GB$", "", name) in accelerators() and bool(_parse(name).memory_gb)


#: A memory size alone, in the spellings of people: 24GB, 24 G, 24GiB.
_MEMORY = re.compile(r"^(\d{1,3}) ?gi?b?$")


def smallest_accelerator(names: tuple[str, ...]) -> str:
    """The accelerator that does least of several: least memory, then links, then arithmetic."""

    def rank(name: str) -> tuple[float, float, float]:
        card = accelerators()[name]
        return card.memory_bytes, card.nvlink_bandwidth, max(card.bf16_flops, card.fp16_flops)

    return min(names, key=rank)


def match_accelerators(name: str) -> tuple[str, ...]:
    """Names of all accelerators that a loose name covers: () when none. An exact name covers itself
    only. A driver's name is taken where no person would mean more by it: "NVIDIA H200" covers the
    NVL card too, although its driver calls that by another name."""
    text = name.strip()[: tables.LONGEST_NAME]
    if exact := _exact_names().get(text.casefold()):
        return (exact,)
    words = " ".join(re.findall(r"[a-z0-9.]+", text.casefold()))
    if listed := _aliases().get(_MEMORY.sub(r"\1gb", words)) or _aliases().get(text.casefold()):
        return listed
    wanted = _parse(text)
    found = [record.name for record in accelerators().values() if record.memory_bytes and wanted.product and _covers(wanted, record)]
    return tuple(found or filter(None, [named_by_driver(text)]))


def labelled_as(names: tuple[str, ...]) -> tuple[str, ...]:
    """The labels under which a cloud rents these accelerators without naming them, by the figures
    that it publishes: H20 is Alibaba's GPU H."""
    return tuple(one.name for one in accelerators().values() if one.vendor == "undisclosed" and one.equivalent_to in names)


_MEMORY_ALONE = re.compile(r"(?P<gib>\d{1,3})\s?gi?b(?P<more>\+)?")
_SAME_MEMORY = 0.07
"""How far the memory of a card may be from the round number that it is called by: 22.5 GiB are sold
as 24 GB, 131 GiB as 141."""


def accelerators_of_memory(text: str) -> tuple[str, ...]:
    """Accelerators that are called by so much memory, "24GB"; of "24GB+" those with more too."""
    size = _MEMORY_ALONE.fullmatch(text.strip().casefold())
    if size is None:
        return ()
    size_gib, is_least = float(size["gib"]), bool(size["more"])
    low, high = size_gib * 2.0**30 * (1.0 - _SAME_MEMORY), size_gib * 2.0**30 * (1.0 + _SAME_MEMORY)
    records = accelerators().values()
    return tuple(one.name for one in records if one.memory_bytes and low <= one.memory_bytes and (is_least or one.memory_bytes <= high))


def accelerators_at_least(text: str) -> tuple[str, ...]:
    """Accelerators of a maker with as much memory as the least that is named and as fast, "A100+":
    by the product of its rate and of its bandwidth, so that neither alone makes a faster one."""
    named = match_accelerators(text.strip().removesuffix("+")) if text.strip().endswith("+") else ()
    if not named:
        return ()
    known = accelerators()
    memory = min(known[one].memory_bytes for one in named) * (1.0 - _SAME_MEMORY)
    speed = min(_speed(known[one]) for one in named)
    vendors = {known[one].vendor for one in named}
    found = (one.name for one in known.values() if one.vendor in vendors and one.memory_bytes >= memory and _speed(one) >= speed)
    return tuple(dict.fromkeys((*named, *found)))


def _speed(one: Accelerator) -> float:
    return max(one.bf16_flops, one.fp16_flops, one.fp32_flops) * one.memory_bandwidth


def named_accelerators(name: str, *, field: str) -> tuple[str, ...]:
    """Names of all accelerators that a loose name covers, one at least; UnknownNameError about
    `field` otherwise, with the nearest."""
    found = accelerators_at_least(name) or match_accelerators(name) or accelerators_of_memory(name)
    if not found:
        refuse_card_without_figures(name, field=field)
        raise UnknownNameError("GPU", name, nearest=nearest_accelerators(name), field=field)
    return found


def refuse_card_without_figures(name: str, *, field: str) -> None:
    """InputError for a card that is known, but not well enough to time anything on it."""
    wanted = name.strip()[: tables.LONGEST_NAME].casefold()
    for row in table("cards_without_figures"):
        if re.fullmatch(row["pattern"], wanted):
            raise InputError(Message(f"facts.card_lacks_{row['lacks']}", card=row["name"], memory=row["memory_gib"]), field=field)


def accelerator(name: str, *, typical: bool = False) -> Accelerator:
    """The one accelerator called `name`.

    A loose name that covers several raises AmbiguousNameError, unless `typical` asks for the
    most usual of them (the form with its own links before the PCIe card and, of those, the
    largest memory).
    """
    found = match_accelerators(name)
    if len(found) == 1:
        return accelerators()[found[0]]
    if found and typical:
        return max(
            (accelerators()[one] for one in found), key=lambda record: (record.form != "pcie", record.nvlink_bandwidth, record.memory_bytes)
        )
    if found:
        raise AmbiguousNameError("accelerator", name, found)
    raise UnknownNameError("accelerator", name, nearest=nearest_accelerators(name))


def nearest_accelerators(name: str) -> tuple[str, ...]:
    """Accelerator names most like `name`, compared with whole names and with what is left of them
    without memory and form ("A100")."""
    short = {"".join(sorted(_parse(one).series | _parse(one).product)): one for one in accelerators()}
    known = {**short, **{one: one for one in accelerators()}}
    return tuple(dict.fromkeys(known[text] for text in tables.nearest(name, known, count=9, cutoff=0.3)))[:3]


def half_card(card: Accelerator, memory_gib: float) -> Accelerator:
    """One die of a two-die card (MI250) where the stated memory is half of the card's: software
    sees each die as a device."""
    if not memory_gib or memory_gib * 2.0**30 > constants("training_words")["half_card_memory"] * card.memory_bytes:
        return card
    halves = ("memory_bytes", "memory_bandwidth", "fp32_flops", "tf32_flops", "fp16_flops", "bf16_flops", "fp8_flops", "tdp_w", "l2_bytes")
    values: dict[str, Any] = {name: getattr(card, name) / 2 for name in halves}
    return dataclasses.replace(card, num_sms=card.num_sms // 2, **values)


@functools.cache
def architecture_code(vendor: str, architecture: str, compute_capability: float) -> int:
    """Coefficient family of an accelerator: the `code` of its row in facts/data/architectures.csv;
    0 where none fits."""
    for row in tables.table("architectures"):
        if row["vendor"] != vendor or architecture not in row["architectures"].split("|"):
            continue
        low, high = row["compute_capability_from"], row["compute_capability_to"]
        if not low or float(low) <= compute_capability <= float(high):
            return int(row["code"])
    return 0


@functools.cache
def architecture_names() -> tuple[str, ...]:
    """Names of the coefficient families of accelerators, by code."""
    return tuple(row["name"] for row in tables.table("architectures"))


def family_of(accelerator: Accelerator) -> str:
    """The coefficient family of an accelerator."""
    return architecture_names()[architecture_code(accelerator.vendor, accelerator.architecture, accelerator.compute_capability)]


@functools.cache
def trains_and_packs(name: str) -> tuple[bool, bool]:
    """Whether an accelerator can train, and whether it has kernels for 4-bit weights: the first row
    of facts/data/capabilities.csv that matches; both where none does."""
    for row in tables.table("capabilities"):
        if re.search(row["match"], name):
            return row["training"] == "1", row["nf4"] == "1"
    return True, True


# ---- Released builds of PyTorch, TensorFlow and JAX: which of them runs on an accelerator, beside
# which processors (facts/data/software_builds.csv).

ARM_HOSTS = ("GH200", "GB200", "GB300", "GB10", "T4G")
"""Accelerators that are only rented beside Arm processors."""
Span = tuple[tuple[int, ...], tuple[int, ...]]
ANY: Span = ((0,), (99,))


@dataclass(frozen=True, slots=True)
class Build:
    """One released combination. `serves`: compute capabilities (NVIDIA) or architectures (AMD) that
    it has kernels for; empty without an accelerator."""

    framework: str
    version: str
    platform: str
    cudnn: str
    vendor: str
    machine: tuple[str, ...]
    serves: tuple[str, ...]
    python: str
    driver: str
    index_url: str
    package: str
    image: str
    source: str

    @property
    def release(self) -> tuple[int, ...]:
        """The version as numbers, to compare."""
        return tuple(int(part) for part in self.version.split("."))

    @property
    def cuda(self) -> tuple[int, ...]:
        """The release of CUDA as numbers; empty for others."""
        name, _, version = self.platform.partition(" ")
        return tuple(int(part) for part in version.split(".")) if name == "CUDA" else ()


@functools.cache
def builds() -> tuple[Build, ...]:
    """Every known combination, the preferred ones of a framework first."""
    return tuple(
        Build(**{**row, "machine": tuple(row["machine"].split("|")), "serves": tuple(filter(None, row["serves"].split("|")))})  # type: ignore[arg-type]
        for row in table("software_builds")
    )


def build_for(name: str, *, framework: str = "pytorch", span: Span = ANY) -> Build | None:
    """The preferred combination for an accelerator ("" is the processor) among the releases of a
    span; None where none runs on it. Kernels of an earlier card run on a later one of its
    generation; compilers that a job calls as it runs (NVRTC, Triton's) know it from its first
    CUDA on."""
    vendor, kind, least = ("", "", ()) if not name else _kind(name)
    machine = machine_of(name)
    fitting = (build for build in builds() if (build.framework, build.vendor) == (framework, vendor) and machine in build.machine)
    fitting = (build for build in fitting if build.cuda >= least or not build.cuda[1:])
    inside = (build for build in fitting if span[0] <= build.release <= span[1])
    return next((build for build in inside if not name or any(_runs(kind, served) for served in build.serves)), None)


def machine_of(name: str) -> str:
    """Processors beside which an accelerator is rented, as Linux names them."""
    return "aarch64" if name.startswith(ARM_HOSTS) else "x86_64"


@functools.cache
def is_unreleased(name: str) -> bool:
    """Whether no release of PyTorch is built for an accelerator beside the processors that it is
    rented with. False for one that is not known."""
    return name in accelerators() and build_for(name) is None


def stands_for(card: Accelerator) -> Accelerator:
    """The chip whose software runs on an accelerator: where a cloud hides the chip behind a label
    of its own, that which it equals by the cloud's own figures."""
    return accelerators().get(card.equivalent_to, card)


def _kind(name: str) -> tuple[str, str, tuple[int, ...]]:
    """Vendor, the compute capability or (AMD) architecture, and the first CUDA of an
    accelerator."""
    try:
        found = stands_for(accelerator(name))
    except RightfitError:
        return "unknown", "", ()
    least = tuple(int(part) for part in filter(None, found.min_cuda.split(".")))
    return found.vendor, str(found.compute_capability or found.architecture.split(" ")[0]), least


def _runs(kind: str, served: str) -> bool:
    """Kernels run on their own capability and on later ones of the same generation (8.6 on 8.9);
    AMD's on their own architecture."""
    if not kind[:1].isdigit():
        return kind == served
    major, minor = kind.split(".")
    served_major, served_minor = served.split(".")
    return major == served_major and int(served_minor) <= int(minor)


# ---- Parts of a card: slices that the vendor's placement table allows (MIG), and fractions that
# programs share in turn.

_RATES = ("memory_bandwidth", "fp32_flops", "tf32_flops", "fp16_flops", "bf16_flops", "fp8_flops", "int8_ops", "int4_ops", "fp4_flops")
_SPEEDS = tuple(name for name in _RATES if name != "memory_bandwidth")
_PROFILE = re.compile(r"([1-7])g(?:\.\d+gb)?")


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of a card: `name` of the profile or fraction; its shares of memory (and of its
    bandwidth) and of arithmetic; how many a card has. `isolated`: whether neighbours cannot
    slow it down."""

    name: str
    memory_share: float
    compute_share: float
    per_card: int
    isolated: bool
    source: str


#: Of a card, below which nothing of a model stands on its part.
_LEAST_SHARE = 0.01


def read_slice(text: str) -> str:
    """A profile ("3g.40gb", or "3g" for the one of each card) or a fraction ("1/4", "25%", "0.25")
    as it is kept; InputError else."""
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
    if share is None or not _LEAST_SHARE <= share <= 0.5:
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
    """Where a slice may begin on a card (`starts`), how many of its `places` it takes: of MIG parts
    of memory by the vendor's table, of fractions shares that are all alike."""

    starts: tuple[int, ...]
    size: int
    places: int


@functools.cache
def placement_of(card: str, text: str) -> Placement | None:
    """Where a slice may stand on a card; None where its vendor makes none such, or its
    placements are not known."""
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
    share, usual = float(text), coefficients("serving_planning")
    kept = share * (1.0 - usual["shared_card_loss"])
    return Slice(f"1/{1.0 / share:.3g}", share, kept, int(1.0 / share + 1e-9), False, "time slicing or MPS; serving_planning.toml")


def cut(card: Accelerator, part: Slice) -> Accelerator:
    """The slice as a card of its own: memory and its bandwidth by the share of memory, arithmetic
    by that of multiprocessors; no link to other slices."""
    usual = coefficients("serving_planning")
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
