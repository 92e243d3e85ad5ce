"""Rows of the table of measured loaders read as cases: what is decoded, by what, on how many cores of which processor, from where.

Rows are written by people; everything is read from words (what, loader, hardware, sample_kind) and what they do not say is assumed and named.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping

from rightfit import facts
from rightfit.estimate.hosts import core_named, names_a_core
from rightfit.facts.constants import constant_group, constants
from rightfit.facts.word_tables import meaning, says, shape
from rightfit.records import dataclass

TABLE = "loading"  # of words
_SIZE = re.compile(r"(\d{2,5})\s*[x×]\s*(\d{2,5})(?!\s*gpu)")
_SIDE = r"(\d{2,5})\s*-?px|side (\d{2,5})|@\s*(\d{2,5})\b"
_MEGAPIXELS = r"(\d+(?:\.\d+)?)\s*{megapixel}"
_BYTES = r"(\d+(?:\.\d+)?)\s*([kmg])i?b\b(?!\s*{memory_or_rate})"
_QUALITY = r"{quality}(\d{2,3})\b"
_VCPUS = r"(\d+)\s*{vcpu}"
_CORES = r"(\d+)[ -]*(?:physical )?cores?\b"
_THREADS = r"(\d+)\s*{thread}\b|num_workers\s*=\s*(\d+)|workers\s*[=:]\s*(\d+)"
_GPUS = r"(\d+)\s*x\s*{gpu_maker}?[a-z]*\s?[avhlbt]\d{1,3}|(\d+) gpus?\b"
_COUNT = r"(\d+(?:[.,]\d+)*)\s*([kmb]?)\s*{sample}"
_SCALES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9}
NO_DISK, BLOCK, LOCAL, HARD_DISK, OBJECT = "ram", "block", "local", "hdd", "object"
#: JPEG bytes for each pixel by quality.
_BYTES_PER_PIXEL = constant_group("loading_words", "bytes_per_pixel")
_FIGURES = constants("loading_words")


@dataclass(frozen=True, slots=True)
class Loader:
    """How a named loader works: `decode_factor` over libjpeg-turbo; `work`: decode, crop, recipe, fetch, encoder or gpu; `processes`:
    batches are handed over
    from worker processes."""

    name: str
    decode_factor: float
    work: str
    processes: bool


@dataclass(frozen=True, slots=True)
class LoadingCase:
    """One row. `pixels`, `file_bytes` of a stored sample, `out_pixels` handed on; `workers` busy at a time of `vcpus` (0: unknown);
    `core_speed`,
    `threads_per_core` of the processor; `place` that data come from; `kind`: jpeg, raw, video, audio."""

    loader: Loader
    kind: str
    pixels: float
    file_bytes: float
    out_pixels: float
    workers: float
    in_process: bool
    vcpus: float
    core_speed: float
    threads_per_core: float
    place: str
    num_gpus: float
    count: float
    in_shards: bool
    assumptions: tuple[str, ...]


@functools.cache
def _loaders() -> tuple[tuple[re.Pattern[str], Loader], ...]:
    return tuple(
        (re.compile(row["pattern"]), Loader(row["name"], float(row["decode_factor"]), row["work"], row["hand_over"] == "processes"))
        for row in facts.table("loaders")
    )


def loader_named(text: str) -> Loader:
    """The loader that words speak of; an ordinary Python pipeline where they name none."""
    return next(loader for pattern, loader in _loaders() if pattern.search(text or "?"))


def _number(name: str, text: str) -> float:
    """The number that a shape finds in a text; 0 where it finds none."""
    found = shape(TABLE, name).search(text)
    return float(next(group for group in found.groups() if group)) if found else 0.0


def bytes_per_pixel(quality: float) -> float:
    """Bytes of a JPEG photograph for each pixel at a quality, linear between the known ones."""
    import numpy as np

    return float(np.interp(quality, [float(known) for known in _BYTES_PER_PIXEL], list(_BYTES_PER_PIXEL.values())))


def photograph_pixels(longest_side: float) -> float:
    """Mean pixels of web photographs (mean 0.2 megapixels, mostly 4:3) shrunk so that no side is longer: large ones shrink, small ones
    stay."""
    return float(((_FIGURES["web_share"] * longest_side**2) ** -4 + _FIGURES["web_pixels"] ** -4) ** -0.25)


def picture_of(sample: str, text: str) -> tuple[float, float, tuple[str, ...]]:
    """Pixels and file bytes of one stored picture, and what was assumed."""
    taken: list[str] = []
    size, side, mega = _SIZE.search(sample), _number(_SIDE, sample), _number(_MEGAPIXELS, sample)
    small = "cifar" in sample or "mnist" in sample
    if mega:
        pixels = mega * 1e6
    elif size:
        pixels = float(size.group(1)) * float(size.group(2))
    elif side:
        pixels = photograph_pixels(side)
    elif small:
        pixels = _FIGURES["small_pixels"]
    else:
        pixels = _FIGURES["imagenet_pixels"]
        taken.append("size of the pictures not stated: 0.2 megapixels taken, the mean of ImageNet")
    quality = _number(_QUALITY, sample) or _number(_QUALITY, text)
    stated = shape(TABLE, _BYTES).search(sample)
    if stated and float(stated.group(1)) > 0:
        return pixels, float(stated.group(1)) * _SCALES[stated.group(2)], tuple(taken)
    if quality and 30 <= quality <= 100:
        return pixels, pixels * bytes_per_pixel(quality), tuple(taken)
    original = not side and ("imagenet" in sample or "jpeg" in sample) and pixels <= _FIGURES["original_most_pixels"]
    # ImageNet's files hold more bytes than their pixels need: 138 GB in 1.28 million files, validation 6.3 GB in 50,000
    # (facts/data/datasets.csv).
    dense = _FIGURES["imagenet_validation_bytes" if re.search(r"\bval", sample) else "imagenet_bytes"]
    return pixels, pixels * (dense if original else bytes_per_pixel(_FIGURES["quality"])), tuple(taken)


def place_of(text: str) -> str:
    """Where data come from; memory where nothing is said."""
    return meaning(TABLE, "place", text)


def read_case(row: Mapping[str, str]) -> LoadingCase:
    """One row of the table as a case."""
    words = {name: row.get(name, "").casefold() for name in ("what", "loader", "hardware", "sample_kind")}
    text = " ; ".join(words.values())
    taken: list[str] = []
    # The words of the loader count first; "DataLoader around a decoder" is decided by the decoder with the hand-over of processes.
    loader = loader_named(f"{words['loader']} ; {words['what']}")
    around = "dataloader" in words["what"] or "dataloader" in words["loader"]
    workers, in_process = worker_count(row, words, taken)
    only_decode = "decode only" in text or "decode from" in text or "no resize" in text or "imread" in text
    work = "decode" if only_decode and loader.work in ("recipe", "crop") else loader.work
    loader = dataclasses.replace(loader, work=work, processes=(loader.processes or around) and not in_process)
    pixels, file_bytes, assumed = picture_of(words["sample_kind"] or words["what"], words["loader"])
    kind = "raw" if says(TABLE, "raw", words["sample_kind"].split("->")[0]) else "video" if _is_video(row, text) else "jpeg"
    if kind == "raw":
        file_bytes = _FIGURES["channels"] * pixels
    core = core_named(words["hardware"])
    if not names_a_core(words["hardware"]):
        taken.append("processor not named: a usual server core taken")
    resized = work != "decode"
    return LoadingCase(
        loader=loader,
        kind=kind,
        pixels=pixels,
        file_bytes=file_bytes,
        out_pixels=min(pixels, _FIGURES["crop_side"] ** 2) if resized else pixels,
        workers=workers,
        in_process=in_process,
        vcpus=_number(_VCPUS, words["hardware"]) or core.threads * _number(_CORES, words["hardware"]),
        core_speed=core.speed,
        threads_per_core=core.threads,
        place=place_of(f"{words['hardware']} ; {words['what']}"),
        # One loader is one process and feeds one card; the other cards of the machine count where the row says that it trains on them.
        num_gpus=max(1.0, _number(_GPUS, words["what"])),
        count=count_of(f"{row.get('samples', '')} samples") or count_of(text),
        in_shards=loader.work in ("crop",) or "shard" in loader.name,
        assumptions=(*taken, *assumed),
    )


def _is_video(row: Mapping[str, str], text: str) -> bool:
    return "frames" in row.get("metric", "") or "video" in row.get("sample_kind", "").casefold() or "mp4" in text


def worker_count(row: Mapping[str, str], words: Mapping[str, str], taken: list[str]) -> tuple[float, bool]:
    """Workers that decode at a time, and whether they run in the training process itself."""
    stated = re.search(r"(?:num_)?workers\s*[=:]\s*(\d+)", words["loader"])
    if stated and int(stated.group(1)) == 0:
        return 1.0, True
    if shape(TABLE, r"\b{one}[ -]thread").search(words["what"] + words["loader"]) or "library default threads" in words["what"]:
        return 1.0, True
    cells = row.get("cpu_cores", "").strip()
    number = float(cells) if re.fullmatch(r"\d+(?:\.\d+)?", cells) else 0.0
    number = number or _number(_THREADS, words["loader"]) or _number(_VCPUS, words["hardware"]) or _number(_CORES, words["hardware"])
    if not number:
        taken.append("number of cores not stated: one taken")
    return number or 1.0, False


def count_of(text: str) -> float:
    """How many samples there are, 0 where nothing is said."""
    found = shape(TABLE, _COUNT).search(text)
    return float(found.group(1).replace(",", "")) * _SCALES[found.group(2)] if found else 0.0
