"""Rows of the table of measured loaders as cases: what is decoded, by what, on how many cores of which processor, from where.

Rows are written by people; everything is read from words (what, loader, hardware, sample_kind) and what they do not say is assumed and named.
"""

from __future__ import annotations

import functools
import re

from rightfit import facts
from rightfit.estimate.loading import LoadingCase, Place, Stored, Work, bytes_per_pixel
from rightfit.facts.constants import constants
from rightfit.facts.machines import core_named, names_a_core
from rightfit.facts.pattern_tables import first_match
from rightfit.facts.word_tables import meaning, number_in, says, shape
from rightfit.proof.cases.reader import Row
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
_FIGURES = constants("loading_words")


@dataclass(frozen=True, slots=True)
class Loader:
    """How a named loader works: `decode_factor` over libjpeg-turbo, what it does, and whether batches are handed over from worker processes."""

    name: str
    decode_factor: float
    work: Work
    hands_over: bool


@dataclass(frozen=True, slots=True)
class LoadingRow:
    """One row: its case, the name of the loader, how many samples it is about (0: not said), and what was assumed."""

    case: LoadingCase
    loader: str
    count: float
    assumptions: tuple[str, ...]


@functools.lru_cache(maxsize=4096)
def loader_named(text: str) -> Loader:
    """The loader that words speak of; an ordinary Python pipeline where they name none."""
    row = first_match("loaders", text or "?")
    assert row is not None  # the last pattern matches everything
    return Loader(row["name"], float(row["decode_factor"]), Work(row["work"]), row["hand_over"] == "processes")


def photograph_pixels(longest_side: float) -> float:
    """Mean pixels of web photographs (mean 0.2 megapixels, mostly 4:3) shrunk so that no side is longer: large ones shrink, small ones
    stay."""
    return float(((_FIGURES["web_share"] * longest_side**2) ** -4 + _FIGURES["web_pixels"] ** -4) ** -0.25)


def picture_of(sample: str, text: str) -> tuple[float, float, tuple[str, ...]]:
    """Pixels and file bytes of one stored picture, and what was assumed."""
    taken: list[str] = []
    size, side, mega = _SIZE.search(sample), number_in(TABLE, _SIDE, sample), number_in(TABLE, _MEGAPIXELS, sample)
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
    quality = number_in(TABLE, _QUALITY, sample) or number_in(TABLE, _QUALITY, text)
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


def place_of(text: str) -> Place:
    """Where data come from."""
    return Place(meaning(TABLE, "place", text))


def read_case(row: Row) -> LoadingRow:
    """One row of the table as a case."""
    words = {name: row.get(name, "").casefold() for name in ("what", "loader", "hardware", "sample_kind")}
    text = " ; ".join(words.values())
    taken: list[str] = []
    # The words of the loader count first; "DataLoader around a decoder" is decided by the decoder with the hand-over of processes.
    loader = loader_named(f"{words['loader']} ; {words['what']}")
    around = "dataloader" in words["what"] or "dataloader" in words["loader"]
    workers, in_process = worker_count(row, words, taken)
    only_decode = "decode only" in text or "decode from" in text or "no resize" in text or "imread" in text
    work = Work.DECODE if only_decode and loader.work in (Work.RECIPE, Work.CROP) else loader.work
    pixels, file_bytes, assumed = picture_of(words["sample_kind"] or words["what"], words["loader"])
    is_raw = says(TABLE, "raw", words["sample_kind"].split("->")[0])
    stored = Stored.RAW if is_raw else Stored.VIDEO if _is_video(row, text) else Stored.JPEG
    core = core_named(words["hardware"])
    if not names_a_core(words["hardware"]):
        taken.append("processor not named: a usual server core taken")
    case = LoadingCase(
        work=work,
        decode_factor=loader.decode_factor,
        hands_over=(loader.hands_over or around) and not in_process,
        stored=stored,
        pixels=pixels,
        file_bytes=_FIGURES["channels"] * pixels if stored == Stored.RAW else file_bytes,
        out_pixels=pixels if work == Work.DECODE else min(pixels, _FIGURES["crop_side"] ** 2),
        workers=workers,
        in_process=in_process,
        vcpus=number_in(TABLE, _VCPUS, words["hardware"]) or core.threads * number_in(TABLE, _CORES, words["hardware"]),
        core_speed=core.speed,
        threads_per_core=core.threads,
        place=place_of(f"{words['hardware']} ; {words['what']}"),
        # One loader is one process and feeds one card; the other cards of the machine count where the row says that it trains on them.
        num_gpus=max(1.0, number_in(TABLE, _GPUS, words["what"])),
        in_shards=work == Work.CROP or "shard" in loader.name,
    )
    count = samples_in(f"{row.get('samples', '')} samples") or samples_in(text)
    return LoadingRow(case, loader.name, count, (*taken, *assumed))


def _is_video(row: Row, text: str) -> bool:
    return "frames" in row.get("metric", "") or "video" in row.get("sample_kind", "").casefold() or "mp4" in text


def worker_count(row: Row, words: Row, taken: list[str]) -> tuple[float, bool]:
    """Workers that decode at a time, and whether they run in the training process itself."""
    stated = re.search(r"(?:num_)?workers\s*[=:]\s*(\d+)", words["loader"])
    if stated and int(stated.group(1)) == 0:
        return 1.0, True
    if shape(TABLE, r"\b{one}[ -]thread").search(words["what"] + words["loader"]) or "library default threads" in words["what"]:
        return 1.0, True
    cells = row.get("cpu_cores", "").strip()
    number = float(cells) if re.fullmatch(r"\d+(?:\.\d+)?", cells) else 0.0
    number = (
        number
        or number_in(TABLE, _THREADS, words["loader"])
        or number_in(TABLE, _VCPUS, words["hardware"])
        or number_in(TABLE, _CORES, words["hardware"])
    )
    if not number:
        taken.append("number of cores not stated: one taken")
    return number or 1.0, False


def samples_in(text: str) -> float:
    """How many samples there are, 0 where nothing is said."""
    found = shape(TABLE, _COUNT).search(text)
    return float(found.group(1).replace(",", "")) * _SCALES[found.group(2)] if found else 0.0


@dataclass(frozen=True, slots=True)
class Emulated:
    """A workload of MLPerf Storage on an accelerator whose speed is emulated."""

    batch: float
    computation_s: float
    record_bytes: float
    utilisation: float


def emulated(text: str) -> Emulated | None:
    """The workload of MLPerf Storage that words name."""
    folded = text.casefold().replace("-", "").replace(" ", "")
    found = None
    for row in facts.table("storage_benchmarks"):
        if row["workload"] in folded and row["accelerator"].casefold() in folded:
            found = Emulated(*(float(row[name]) for name in ("batch", "computation_s", "record_bytes", "utilisation")))
    return found
