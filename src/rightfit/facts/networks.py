"""Networks of one forward pass by their names: their families, those whose arithmetic no record
states, and the sizes that names and records tell in words."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping
from typing import Any

from rightfit.errors import RightfitError
from rightfit.facts.bundled import exact_names, index, load
from rightfit.facts.records import DiffusionModel, Model, OtherModel, TracedModel, VisionModel
from rightfit.facts.resolve import model, own_reference, read_record, spoken
from rightfit.facts.tables import alias, constant_group, constants, filled, first_match, says, shape, table
from rightfit.records import dataclass

_FIGURES = constants("forward_work")


@dataclass(frozen=True, slots=True)
class NetworkFamily:
    """What networks of one layout share (facts/data/forward_families.csv): `kind` and number of
    layers, multiply-adds for each written activation, how many times the usual `traffic`,
    `pointwise` crossings and work of the `host` they have; `counts_scores` where records count the
    products of attention among what layers write."""

    kind: str
    layers: float
    macs_per_activation: float
    traffic: float
    pointwise: float
    host: float
    counts_scores: bool


@dataclass(frozen=True, slots=True)
class ListedNetwork:
    """A line of facts/data/forward_models.csv: work of one input at `image_size`, or the `record`
    that has it, the mean length of its inputs (0: as stated), and the seconds of sound that its
    work is for (0: of no sound, or of whole data sets)."""

    record: str
    kind: str
    macs: float
    score_macs: float
    activations: float
    params: float
    layers: float
    image_size: float
    repeats: float
    mean_tokens: float
    audio_s: float


@dataclass(frozen=True, slots=True)
class Denoiser:
    """What denoisers of one layout share (facts/data/forward_denoisers.csv); `usual_steps` 0 where
    the record's own are usual."""

    layers: float
    hidden: float
    score_share: float
    usual_steps: float


@dataclass(frozen=True, slots=True)
class PassEngine:
    """An engine that serves models of one forward pass (facts/data/forward_stacks.csv): its name,
    what people call it, the class of its coefficients, and the kinds of input, families of devices
    and number formats that it runs, the usual format first; a word of the models that it runs
    (empty: all)."""

    name: str
    words: tuple[str, ...]
    engine: str
    engine_class: str
    modalities: tuple[str, ...]
    families: tuple[str, ...]
    dtypes: tuple[str, ...]
    models: str = ""


@functools.cache
def pass_engines() -> tuple[PassEngine, ...]:
    """The table of engines, the preferred ones first."""

    def several(row: Mapping[str, str]) -> dict[str, Any]:
        return {name: tuple(row[name].split("|")) for name in ("words", "modalities", "families", "dtypes")}

    return tuple(filled(PassEngine, row, **several(row)) for row in table("forward_stacks"))


def _short(name: str) -> str:
    return name.rpartition("/")[2].lower()


def network_family(name: str) -> NetworkFamily:
    """The family that a name belongs to; the usual convolutional network where it tells none."""
    return _network_family(_short(spoken(name)))


@functools.lru_cache(maxsize=4096)
def _network_family(short: str) -> NetworkFamily:
    row = first_match("forward_families", short)
    assert row is not None  # the last pattern matches everything
    return filled(NetworkFamily, row)


def family_of(record: VisionModel) -> NetworkFamily:
    """The family of a record: timm's names tell it, other names beside the task."""
    return network_family(record.name if record.name.startswith("timm/") else f"{_short(record.name)} {record.task}")


def listed_network(name: str) -> ListedNetwork | None:
    """The line of the table of networks that a whole name means; none that was read from a
    configuration."""
    return None if read_record(name) is not None else _listed_network(name)


@functools.lru_cache(maxsize=4096)
def _listed_network(name: str) -> ListedNetwork | None:
    row = first_match("forward_models", name.strip(), whole=True)
    if row is None:
        return None
    counts = {"macs": ("gmacs", 1e9), "score_macs": ("score_gmacs", 1e9), "activations": ("mactivations", 1e6), "params": ("mparams", 1e6)}
    return filled(ListedNetwork, row, counts, repeats=float(row["repeats"] or 0.0) or 1.0)


@functools.lru_cache(maxsize=1024)
def denoiser_of(name: str) -> Denoiser:
    """The layout of the denoiser of a record's name."""
    row = first_match("forward_denoisers", name)
    assert row is not None  # the last pattern matches everything
    return filled(Denoiser, row)


def is_speech_network(name: str) -> bool:
    """Whether a name is one of a model that hears."""
    return says("forward", "speech_model", spoken(name), ignore_case=True)


# records and sizes that a name means --------------------------------------------------------------


_SIDE_AT_END = re.compile(r"(?P<name>.*\w)[-_@ ]r?(?P<side>\d{2,4})(px)?", re.IGNORECASE)
_DRAWN = re.compile(r"[-_ ](?P<side>\d{1,4})(?P<kilo>K)?px", re.IGNORECASE)


def record_of(name: str) -> Model | None:
    """The record that `name` means, bundled or of the user's own, or None."""
    if (read := read_record(name)) is not None:
        return read
    if own_reference(name):
        return own_record(name)
    return _bundled_record(name)


def own_record(name: str) -> Model | None:
    """The record of a model of one's own; None for any other, and for one that cannot be read
    (whoever asked for it by itself was told why)."""
    if isinstance(read := read_record(name), TracedModel):
        return read
    if not own_reference(name):
        return None
    try:
        return model(name, network=False)
    except RightfitError:
        return None


@functools.cache
def _bundled_record(name: str) -> Model | None:
    if found := _named_record(name):
        return found
    plain = _SIDE_AT_END.fullmatch(name.strip())
    other = _named_record(plain["name"]) if plain and _is_side(plain["side"]) else None
    return other if isinstance(other, VisionModel) else None  # "Swin-B-384": the same weights at another size of picture


def _named_record(name: str) -> Model | None:
    if (entry := exact_names().get(name.strip().casefold())) and entry.family == "diffusion":
        return load(entry)  # whatever family its name is spelled like
    for text in dict.fromkeys((name, alias(name))) if alias(name) == name else (alias(name), name):
        try:
            return model(text, network=False)
        except (RightfitError, RecursionError):
            continue
    return None


@dataclass(frozen=True, slots=True)
class Relative:
    """How far a denoiser that was asked for is from the record that stands for it: its parameters
    over the record's (1 where they are not told), and whether it is another model."""

    ratio: float
    is_other: bool
    is_sized: bool


_SIZE_TOLD = re.compile(r"(?<![\w.])a?(\d+(?:\.\d+)?)\s?b(?![\w])", re.IGNORECASE)


def relative_of(name: str, record: DiffusionModel, params: float) -> Relative:
    """How a record stands for a name with so many `params` (0: not told): as itself, or as the
    nearest relative, which parameters told beside it or in the name scale."""
    row = first_match("forward_aliases", name.strip(), whole=True)
    listed = name.strip().casefold() in exact_names()
    told = params or size_told(name)
    parts = (record.denoiser_params, record.total_params, record.denoiser_params / 2.0)  # of two denoisers one works at a time
    far = told > 0 and not listed and min(abs(math.log(told / part)) for part in parts if part) > _FIGURES["same_model"]
    other = not listed and row is not None and row["relative"] == "1"
    return Relative(told / record.denoiser_params if told and (far or other) else 1.0, other or far, told > 0)


def size_told(name: str) -> float:
    """Parameters that a name tells ("Cosmos-Predict2-2B"); 0 where it tells none."""
    found = _SIZE_TOLD.search(_short(name).replace("-", " "))
    return float(found[1]) * 1e9 if found else 0.0


def _has_usual_tokens(record: DiffusionModel) -> bool:
    """Whether a token stands for 16 by 16 pixels, of videos for four frames: decoders that compress
    more are rare."""
    height, width, frames = drawn_size(record)
    usual = height * width / _FIGURES["pixels_per_token"] * (1.0 + (frames - 1.0) / _FIGURES["frames_per_token"])
    return record.denoiser_tokens > 0 and abs(math.log(record.denoiser_tokens / usual)) < _FIGURES["same_model"]


@functools.lru_cache(maxsize=256)
def nearest_denoiser(params: float, *, moving: bool) -> DiffusionModel:
    """The bundled transformer that draws pictures or videos whose size is nearest, of those with
    the usual number of tokens."""
    wanted = "video" if moving else "image"
    records = (load(entry) for entry in index() if entry.family == "diffusion")
    known = [
        one
        for one in records
        if isinstance(one, DiffusionModel) and one.modality == wanted and one.forward_flops and _has_usual_tokens(one)
    ]
    return min(known, key=lambda one: abs(math.log(one.denoiser_params / params)))


def _is_side(text: str) -> bool:
    return _FIGURES["smallest_side"] <= float(text) <= _FIGURES["largest_side"]


def side_in_name(name: str) -> float:
    """Pixels of the side of a picture that a name ends with ("ViT-B/16-384", "Sana_1600M_4Kpx"),
    where the number is not of the record's own name; 0 where it tells none."""
    if read_record(name) is not None:
        return 0.0
    drawn, found = _DRAWN.search(name), _SIDE_AT_END.fullmatch(name.strip())
    if drawn and isinstance(record_of(name), DiffusionModel):
        return float(drawn["side"]) * (1024.0 if drawn["kilo"] else 1.0)
    if found is None or not _is_side(found["side"]) or own_reference(name):
        return 0.0
    record = record_of(name)
    return 0.0 if not isinstance(record, VisionModel) or found["side"] in record.name else float(found["side"])


_BLOCKS = constant_group("forward_work", "blocks")


def vision_layers(name: str, default: float) -> float:
    """Weighted layers in sequence, from the depth in the name where there is one."""
    short = _short(name)
    if found := shape("forward", r"{depth_before}_?(\d{2,3})").search(short):
        return float(found[1])
    if shape("forward", "{block_model}").match(short):
        return next((_FIGURES["layers_per_block"] * blocks for word, blocks in _BLOCKS.items() if word in short), default)
    if found := re.match(r"(?:tf_)?efficientnet_b(\d)", short):
        return float(_FIGURES["efficientnet_layers"] * _FIGURES["efficientnet_growth"] ** float(found[1]))
    return default


# what records tell in words -----------------------------------------------------------------------


_SOUND = re.compile(r"(\d+(?:\.\d+)?) s\b")
_PER_SECONDS = re.compile(r"(\d+(?:\.\d+)?) s audio")


def drawn_size(record: DiffusionModel) -> tuple[float, float, float]:
    """Height, width and frames that the record's arithmetic is for."""
    sizes = [float(part) for part in re.findall(r"\d+", record.default_output)] if not heard_seconds(record) else []
    if len(sizes) >= 3:
        return sizes[1], sizes[2], sizes[0]
    return (sizes[0], sizes[1], 1.0) if len(sizes) == 2 else (1024.0, 1024.0, 1.0)


def heard_seconds(record: DiffusionModel) -> float:
    """Seconds of sound that the record's arithmetic is for [s]; 0 where the model draws."""
    found = _SOUND.match(record.default_output)
    return float(found[1]) if found else 0.0


def counted_seconds(record: OtherModel) -> float:
    """Seconds of sound that the arithmetic of a record is counted for [s]; 0 where it is counted
    for something else."""
    found = _PER_SECONDS.search(record.flops_unit)
    return float(found[1]) if found else 0.0


@functools.cache
def counted_sizes(text: str) -> tuple[tuple[float, float], ...]:
    """(pixels x frames, multiply-adds) of every size that was counted, small to large."""
    found = []
    for part in filter(None, (piece.strip() for piece in text.split(";"))):
        size, _, flops = part.partition(":")
        found.append((math.prod(float(side) for side in size.split("x")), float(flops) / 2))
    return tuple(sorted(found))
