"""Which released engine knows a model's class and runs on a card: facts/data/model_classes.csv
(model -> class), engine_support.csv (class -> releases that have it), engine_models.csv (what
recipes of single repositories ask for) and engine_releases.csv (what a release stands on, and
where it runs); images.csv has the images of all other programs, by the cards that they start on."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

from rightfit.errors import RightfitError
from rightfit.facts.devices import accelerator, accelerators, is_unreleased, machine_of, stands_for
from rightfit.facts.records import Accelerator
from rightfit.facts.tables import table
from rightfit.records import dataclass

Version = tuple[int, ...]
READ = ("vllm", "sglang")
"""Engines whose registries were read, release by release."""
NEWEST: Version = (999,)
_NEVER = ""


@dataclass(frozen=True, slots=True)
class ModelClass:
    """The class that a model's config.json names ("" where only its needs are known). `least`,
    `last`: engine -> first and last release that has it, "" where none does; `recipe`: the vLLM
    that the recipe of the repository asks for; `transformers`: the first release with the class, ""
    where its code lies beside the weights; `majors`: major compute capabilities of NVIDIA's cards
    beside which it runs, empty for all; `not_on`: words of cards on which it does not."""

    architecture: str
    least: Mapping[str, str]
    last: Mapping[str, str]
    transformers: str
    majors: tuple[str, ...]
    not_on: tuple[str, ...]
    recipe: str = ""


@dataclass(frozen=True, slots=True)
class EngineRelease:
    """One release of an engine for one vendor's cards. `serves`: the least compute capability
    (NVIDIA), or the architectures (AMD) that it has code for;
    `package`: what pip installs, "" where there is the image alone."""

    engine: str
    version: str
    vendor: str
    machine: tuple[str, ...]
    serves: tuple[str, ...]
    python: str
    torch: str
    cuda: str
    transformers: str
    package: str
    image: str
    as_of: str
    source: str


def numbers(version: str) -> Version:
    """A version as numbers, to compare."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


@functools.cache
def releases() -> tuple[EngineRelease, ...]:
    """Every known release, the newest of an engine first."""
    return tuple(
        EngineRelease(**{**row, "machine": tuple(row["machine"].split("|")), "serves": tuple(row["serves"].split("|"))})  # type: ignore[arg-type]
        for row in table("engine_releases")
    )


@functools.lru_cache(maxsize=1024)
def model_class(*names: str) -> ModelClass | None:
    """The class of a model by the first of its names that the tables know (the one asked for, then
    that of its record); None where they know none."""
    for name in names:
        asked = name.strip().casefold()
        row = next((row for row in table("model_classes") if asked and re.fullmatch(row["words"], asked)), None)
        if row:
            return _made(row, asked)
        if architecture := _by_repository().get(asked, ""):
            return _made({"architecture": architecture, "min_vllm": "", "min_transformers": "", "capability": ""}, asked)
    return None


@functools.cache
def _by_repository() -> dict[str, str]:
    """Repository -> its class that writes text."""
    rows = (row for row in table("engine_support") if re.search("ForCausalLM|ForConditionalGeneration|LMHeadModel", row["architecture"]))
    return {name.casefold(): row["architecture"] for row in rows for name in row["hub_ids"].split(";") if name}


@functools.cache
def _support() -> dict[str, dict[str, str]]:
    return {row["architecture"]: row for row in table("engine_support")}


def _made(row: Mapping[str, str], asked: str) -> ModelClass:
    known = _support().get(row["architecture"], {})
    recipe = next((found for found in table("engine_models") if found["hub_id"].casefold() == asked), {})
    least = {"vllm": row["min_vllm"] or known.get("min_vllm", ""), "sglang": known.get("min_sglang", "")}
    majors = row["capability"].replace("|", " ") or known.get("capability", "")
    return ModelClass(
        architecture=row["architecture"],
        least=least if row["architecture"] or row["min_vllm"] else {},
        last={"vllm": known.get("last_vllm", ""), "sglang": ""},
        transformers=row["min_transformers"] or known.get("min_transformers", ""),
        majors=tuple(part.partition(".")[0] for part in majors.split()),
        not_on=tuple(str(recipe.get("cards_unsupported", "")).split()),
        recipe=recipe.get("min_vllm", ""),
    )


def knows(release: EngineRelease, known: ModelClass | None) -> bool:
    """Whether a release has the class; True where the class is not known, or not its needs."""
    least = known.least.get(release.engine) if known else None
    if known is None or least is None:
        return True
    last = known.last.get(release.engine) or release.version
    if release.engine == "vllm" and numbers(known.recipe) > numbers(release.version):
        return False
    return least != _NEVER and numbers(least) <= numbers(release.version) <= numbers(last)


@dataclass(frozen=True, slots=True)
class Image:
    """An image of a program of which one release is in use, for the cards of one vendor ("": for
    servers without). `serves`: as that of EngineRelease; `cuda`: of an engine that compiles kernels
    as it starts, "" where it is not told."""

    name: str
    vendor: str
    machine: tuple[str, ...]
    serves: tuple[str, ...]
    version: str
    cuda: str
    image: str
    as_of: str
    source: str


@functools.cache
def images(name: str) -> tuple[Image, ...]:
    """The images of a program."""
    return tuple(
        Image(**{**row, "machine": tuple(row["machine"].split("|")), "serves": tuple(row["serves"].split("|"))})  # type: ignore[arg-type]
        for row in table("images")
        if row["name"] == name
    )


@functools.cache
def every_image() -> frozenset[str]:
    """All images of engines and other programs."""
    return frozenset({*(row["image"] for row in table("images")), *(one.image for one in releases())})


def image_for(name: str, card: str = "", *, machine: str = "") -> Image | None:
    """The image of a program that starts on a card, or without one (on processors of a machine);
    None where there is none."""
    if not card:
        return next((one for one in images(name) if not one.vendor and (machine or one.machine[0]) in one.machine), None)
    found = accelerators().get(card)
    return next((one for one in images(name) if runs_on(one, stands_for(found))), None) if found else None


def image_named(name: str) -> str:
    """The image of a program that needs no card."""
    found = image_for(name)
    assert found is not None, name
    return found.image


def runs_on(release: EngineRelease | Image, card: Accelerator) -> bool:
    """Whether a release has code for a card, and a CUDA that knows it, beside the processors that
    it is rented with."""
    if card.vendor != release.vendor or machine_of(card.name) not in release.machine:
        return False
    if card.vendor == "NVIDIA":
        knows_card = not release.cuda or numbers(release.cuda) >= numbers(card.min_cuda)
        return knows_card and numbers(str(card.compute_capability or "0")) >= numbers(release.serves[0])
    return card.architecture.split(" ")[0] in release.serves


@functools.cache
def is_served(name: str) -> bool:
    """Whether some release of an engine of READ runs on an accelerator. Images for Arm bring the
    builds of PyTorch that are released for it: what none of them has code for (T4G) is not
    served."""
    card = accelerators().get(name)
    if card is None or (machine_of(name) == "aarch64" and is_unreleased(name)):
        return False
    return any(runs_on(release, stands_for(card)) for release in releases())


def goes_with(known: ModelClass | None, card: Accelerator) -> bool:
    """Whether an engine has kernels of the class for the card."""
    if known is None:
        return True
    if any(card.name.casefold().startswith(word) for word in known.not_on):
        return False
    return card.vendor != "NVIDIA" or not known.majors or str(card.compute_capability or "").partition(".")[0] in known.majors


@functools.lru_cache(maxsize=4096)
def release_for(engine: str, names: tuple[str, ...], card: str, *, until: str = "") -> EngineRelease | None:
    """The newest release of an engine of READ (none later than `until`) that knows the model of one
    of these names and runs on the card; None where there is none."""
    known = model_class(*names)
    try:
        found = stands_for(accelerator(card))
    except RightfitError:
        return None
    if not goes_with(known, found):
        return None
    last = numbers(until) if until else NEWEST
    fitting = (one for one in releases() if one.engine == engine and numbers(one.version) <= last)
    return next((one for one in fitting if knows(one, known) and runs_on(one, found)), None)


def newest_release(engine: str, vendor: str = "NVIDIA") -> EngineRelease:
    """The newest release of an engine of READ."""
    return next(one for one in releases() if one.engine == engine and one.vendor == vendor)


def has_class(engine: str, known: ModelClass | None) -> bool:
    """Whether some release of an engine has the class; one whose registry was not read is taken to
    have what vLLM had at its time (engine_ages.csv), and True where nothing is said of it."""
    if known is None or not known.least:
        return True
    if engine in READ:
        return known.least.get(engine, "") != _NEVER
    if engine in ("transformers", "openvino"):  # the second converts what the first loads
        return known.transformers != _NEVER or (engine == "openvino" and any(known.least.values()))
    if engine == "llama.cpp":  # it converts what either of the others loads; its one image is another matter
        return any(known.least.values())
    return is_of_its_time(engine, known)


def _age(engine: str) -> Mapping[str, str] | None:
    """What is said of an engine whose registry was not read."""
    return next((row for row in table("engine_ages") if row["engine"] == engine), None)


def starts_on(engine: str, card: Accelerator) -> bool:
    """Whether the one release of an engine whose registry was not read runs on a card; True where
    nothing is said of it."""
    row = _age(engine)
    if row and row["vendor"] and (card.vendor not in row["vendor"].split("|") or machine_of(card.name) not in row["machine"].split("|")):
        return False
    known = [one for one in images(engine) if one.vendor == card.vendor]
    return not known or any(runs_on(one, card) for one in known)


def is_of_its_time(engine: str, known: ModelClass) -> bool:
    """Whether the release of an engine whose registry was not read came with or after vLLM's first
    with the class; True where nothing is said of it."""
    row = _age(engine)
    if row is None or "vllm" not in known.least:
        return True
    return known.least["vllm"] != _NEVER and numbers(known.least["vllm"]) <= numbers(row["as_vllm"])
