"""Rates of loaders: what a core prepares, what a pipeline of cores, hand-over and storage delivers.
Composes physics.loading with the facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

import numpy as np

from rightfit import facts
from rightfit.estimation.data_path import DataLoad, common_volume, volumes
from rightfit.facts.tables import constant_group, constants
from rightfit.physics import loading
from rightfit.physics.columns import Array
from rightfit.records import dataclass

LoaderCoefficients = Mapping[str, float]
_FIGURES = constants("loading_words")
HARD_DISK_BYTES_PER_S = _FIGURES["hard_disk_bytes_per_s"]
FRAMES_PER_S = 30.0
#: Data sets that are mostly kept one file a sample, so that each sample costs a request of its own.
FILES = frozenset({"vision", "vision-language", "speech", "video"})


#: JPEG bytes for each pixel by quality.
_BYTES_PER_PIXEL = constant_group("loading_words", "bytes_per_pixel")


class Work(StrEnum):
    """What a loader does with a sample."""

    DECODE = "decode"
    CROP = "crop"
    RECIPE = "recipe"
    FETCH = "fetch"
    ENCODER = "encoder"
    GPU = "gpu"


class Stored(StrEnum):
    """How samples are stored."""

    JPEG = "jpeg"
    RAW = "raw"
    VIDEO = "video"


class Place(StrEnum):
    """Where data come from; memory where nothing is said."""

    UNSAID = ""
    MEMORY = "ram"
    BLOCK = "block"
    LOCAL = "local"
    HARD_DISK = "hdd"
    OBJECT = "object"


_READ_FROM = (Place.BLOCK, Place.LOCAL, Place.HARD_DISK, Place.OBJECT)


@dataclass(frozen=True, slots=True)
class LoadingCase:
    """One loader at work. `decode_factor` over libjpeg-turbo; `hands_over`: batches come from
    worker processes. `pixels`, `file_bytes` of a stored sample, `out_pixels` handed on;
    `workers` busy at a time of `vcpus` (0: unknown), `in_process` where the training process
    itself decodes; `core_speed`, `threads_per_core` of the processor; `in_shards`: samples are
    read many at a time."""

    work: Work
    decode_factor: float
    hands_over: bool
    stored: Stored
    pixels: float
    file_bytes: float
    out_pixels: float
    workers: float
    in_process: bool
    vcpus: float
    core_speed: float
    threads_per_core: float
    place: Place
    num_gpus: float
    in_shards: bool


def bytes_per_pixel(quality: float) -> float:
    """Bytes of a JPEG photograph for each pixel at a quality, linear between the known ones."""
    return float(np.interp(quality, [float(known) for known in _BYTES_PER_PIXEL], list(_BYTES_PER_PIXEL.values())))


def loader_coefficients() -> LoaderCoefficients:
    """The bundled coefficients."""
    return facts.coefficients("loading")


def image_core_s(decode: str, *, pixels: float, file_bytes: float) -> float:
    """Seconds x GHz that one core takes to prepare a training picture, by the decoder's word
    (workload/vocabulary.py DECODES); 0 where accelerators decode."""
    used = loader_coefficients()
    jpeg = pixels * used["jpeg_s_per_pixel"] + file_bytes * used["jpeg_s_per_byte"]
    if decode == "dali":
        return 0.0
    if decode == "raw":
        return _FIGURES["channels"] * pixels * used["copy_s_per_byte"]
    if decode == "ffcv":
        return jpeg + used["crop_s"]
    return jpeg * _FIGURES["opencv_decode" if decode == "opencv" else "pillow_decode"] + used["recipe_s"]


def case_columns(cases: Sequence[LoadingCase]) -> dict[str, Array]:
    """Numbers of the cases as columns; kinds as flags."""
    sizes = ("pixels", "file_bytes", "out_pixels")
    host = ("workers", "vcpus", "core_speed", "threads_per_core", "num_gpus")
    names = (*sizes, *host, "decode_factor", "hands_over", "in_process", "in_shards")
    found = {name: np.array([float(getattr(case, name)) for case in cases]) for name in names}
    found |= {f"is_{work}": np.array([float(case.work == work) for case in cases]) for work in Work}
    found |= {f"is_{stored}": np.array([float(case.stored == stored) for case in cases]) for stored in Stored}
    return found | {f"from_{place}": np.array([float(case.place == place) for case in cases]) for place in _READ_FROM}


def core_s(case: Mapping[str, Array], values: LoaderCoefficients) -> Array:
    """Seconds that one core of each case takes for one sample."""
    jpeg = loading.jpeg_decode_s(
        case["pixels"],
        file_bytes=case["file_bytes"],
        s_per_pixel=values["jpeg_s_per_pixel"],
        s_per_byte=values["jpeg_s_per_byte"],
        core_speed=case["core_speed"],
    )
    copy = _FIGURES["channels"] * case["pixels"] * values["copy_s_per_byte"] / case["core_speed"]
    video = values["video_frame_s"] / case["core_speed"]
    decode = np.select([case["is_video"] > 0, case["is_raw"] > 0], [video, copy], jpeg * case["decode_factor"])
    extra = (
        case["is_crop"] * (1.0 - case["is_raw"]) * values["crop_s"]
        + case["is_recipe"] * values["recipe_s"]
        + case["is_fetch"] * values["fetch_s"]
    )
    return np.asarray(decode + extra / case["core_speed"])


def storage_rate(case: Mapping[str, Array], values: LoaderCoefficients) -> Array:
    """Samples a second that storage delivers; infinite from memory. A volume whose kind is not
    named gives what can be bought for the usual one."""
    usual = volumes()["aws"][0]
    object_rate = values["object_bytes_per_s_per_connection"] * values["object_connections"]
    rate = np.select(
        [case[f"from_{word}"] > 0 for word in _READ_FROM],
        [usual.provisioned_bytes_per_s, common_volume("local").most_bytes_per_s, HARD_DISK_BYTES_PER_S, object_rate],
        np.inf,
    )
    return np.asarray(rate / np.maximum(case["file_bytes"], 1.0))


def rates(case: Mapping[str, Array], values: LoaderCoefficients) -> Array:
    """Samples a second of each case."""
    seconds = core_s(case, values)
    one_by_one = (case["from_block"] + case["from_object"]) * (1.0 - case["in_shards"])
    seconds = seconds + one_by_one * values["file_read_s"]
    cores = loading.usable_cores(
        case["workers"], vcpus=case["vcpus"], threads_per_core=case["threads_per_core"], sibling_share=values["sibling_share"]
    )
    beside = np.where((case["workers"] > 1) & (case["in_process"] == 0), values["worker_efficiency"], 1.0)
    decoding = np.where(case["in_process"] > 0, 1.0, cores) * beside / seconds
    out_bytes = _FIGURES["channels"] * case["out_pixels"]
    hand_over = np.where(case["hands_over"] > 0, values["transport_bytes_per_s"] * case["core_speed"] / out_bytes, np.inf)
    memory = np.where(case["is_raw"] > 0, values["memory_bytes_per_s"] / (_FIGURES["channels"] * case["pixels"]), np.inf)
    piped = loading.slowest(decoding, hand_over, memory, storage_rate(case, values), sharpness=values["sharpness"])
    alone = np.where((case["in_process"] > 0) & (case["hands_over"] == 0), decoding, piped)
    gpu = np.where(case["is_video"] > 0, values["gpu_video_frames_per_s"], values["gpu_decode_images_per_s"]) * case["num_gpus"]
    on_gpu = loading.slowest(gpu, storage_rate(case, values), sharpness=values["sharpness"])
    encoder = values["encoder_images_per_s"] * case["num_gpus"]
    return np.select([case["is_gpu"] > 0, case["is_encoder"] > 0], [on_gpu, encoder], alone)


def sample_load(
    domain: str,
    *,
    samples: float,
    dataset_bytes: float,
    epochs: float,
    decode: str = "",
    seconds: float = 0.0,
    storage: str = "",
    workers: int = 0,
) -> DataLoad:
    """What has to be loaded for a training run that is not one of a language model
    (those: load_of of families/language/kind.py).

    `domain`: vision (a sample is a picture as large as its bytes say), speech (a recording
    of `seconds`), video (a clip of `seconds` at 30 frames/s), tabular, graph or recommender (rows
    that are read as they are). `samples`, `dataset_bytes`: of one epoch.
    """
    each = dataset_bytes / samples if samples else 0.0
    word = decode or {"vision": "pillow", "vision-language": "pillow"}.get(domain, "raw")
    return DataLoad(
        dataset_bytes=dataset_bytes,
        samples=samples,
        epochs=epochs,
        core_s=_core_s_of(domain, word, each, seconds=seconds),
        reads_per_sample=max(1.0 if domain in FILES else 0.0, each / loader_coefficients()["shard_bytes"]),
        decode=word,
        storage=storage,
        workers=workers,
    )


def _core_s_of(domain: str, decode: str, file_bytes: float, *, seconds: float) -> float:
    """Seconds x GHz to prepare one sample."""
    used = loader_coefficients()
    if domain in ("vision", "vision-language"):
        return image_core_s(decode, pixels=file_bytes / bytes_per_pixel(_FIGURES["quality"]), file_bytes=file_bytes)
    if domain == "speech":
        return seconds * used["audio_s_per_s"]
    if domain == "video":
        return 0.0 if decode == "dali" else seconds * FRAMES_PER_S * used["video_frame_s"]
    return file_bytes * used["copy_s_per_byte"]
