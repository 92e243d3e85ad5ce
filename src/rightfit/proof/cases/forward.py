"""Rows of the inference table whose model does not generate token by token, as cases
of one forward pass."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.estimation.forward import Arithmetic, CaseColumns, Engine, Flow, ForwardCase, Scenario, case_columns
from rightfit.estimation.forward_models import forward_work
from rightfit.estimation.loading import LoadingCase, Place, Stored, Work, bytes_per_pixel
from rightfit.estimation.pass_records import ForwardDevice, ForwardWork, PassInput
from rightfit.facts.engines import weight_format
from rightfit.facts.machines import core_named, names_a_core
from rightfit.facts.networks import listed_network, network_family, record_of
from rightfit.facts.records import DiffusionModel, OtherModel, TracedModel, TransformerArchitecture, VisionModel
from rightfit.facts.tables import constants, first_match, meaning, number_in, says, shape
from rightfit.proof.cases.reader import RefusedRowError, Row, counts_tensors, first_number, forward_device, read_rows
from rightfit.records import dataclass

TABLE = "forward"  # of words
RATE_METRICS = ("images_per_s", "sequences_per_s", "denoise_steps_per_s", "req_per_s", "total_tok_per_s", "output_tok_per_s_total")
OWN_METRICS = ("images_per_s", "sequences_per_s", "denoise_steps_per_s")
FORWARD_METRICS = (*RATE_METRICS, "latency_ms", "peak_mem_gib")
_TRANSFORMER_KINDS = ("encoder", "embedding", "encoder-decoder")


@dataclass(frozen=True, slots=True)
class ForwardRows:
    """Rows that could be read as cases, their positions in the table (`index`), what was assumed of
    each, and why the others could not be (by position)."""

    cases: tuple[ForwardCase, ...]
    assumptions: tuple[tuple[str, ...], ...]
    index: NDArray[np.intp]
    refused: dict[int, str]

    @property
    def columns(self) -> CaseColumns:
        """The cases as the physics takes them."""
        return case_columns(self.cases)


def forward_rows(rows: Sequence[Row]) -> ForwardRows:
    """Cases of the rows that can be told, reasons for the others."""
    found, index, refused = read_rows(rows, read_forward_case)
    return ForwardRows(tuple(case for case, _ in found), tuple(assumed for _, assumed in found), np.array(index, dtype=np.intp), refused)


def is_forward(row: Row) -> bool:
    """Whether a row of the inference table is one of a model without token-by-token generation (or
    whose generation is its smaller part)."""
    if row.get("metric", "") in OWN_METRICS:
        return True
    name = row.get("model", "").strip()
    if not name:
        return False
    if listed_network(name):
        return True
    record = record_of(name)
    if isinstance(record, TransformerArchitecture):
        return record.kind in _TRANSFORMER_KINDS or bool(re.search(r"\bclip\b", name, re.IGNORECASE))
    return isinstance(record, VisionModel | DiffusionModel | OtherModel | TracedModel)


def read_forward_case(row: Row) -> tuple[ForwardCase, tuple[str, ...]]:
    """One row as a case, and what was assumed; a row that cannot be told is
    refused with the reason."""
    wish = wish_of(row)
    work = _work_of(wish) if wish.model else None
    device = forward_device(row["device"], row.get("device_mem_gib", "")) if row.get("device") else None
    if problem := _problem(row, work, device):
        raise RefusedRowError(problem)
    assert work is not None
    assert device is not None
    flags = row.get("flags", "").lower()
    batch, scenario = batch_of(row)
    case = ForwardCase(
        work,
        device,
        engine_of(row.get("engine", ""), row.get("flags", ""), row.get("device", "")),
        arithmetic_of(row.get("weights_dtype", ""), row.get("compute_dtype", "")),
        batch=batch,
        scenario=scenario,
        num_devices=_num_devices(row, device),
        tensor=first_number(row.get("tp", "")),
        flow=_flow(flags),
        shares_input=row.get("metric") in ("latency_ms", "denoise_steps_per_s"),
        tokens_in=first_number(row.get("input_tokens", "")),
        tokens_out=first_number(row.get("output_tokens", "")),
        is_stored_wide="autocast" in flags,
        weight_bytes=_weight_bytes(row),
        is_channels_last="channels_last" in row.get("flags", ""),
        tensors_only=counts_tensors(row),
    )
    return case, (*work.assumptions, *((device.assumption,) if device.assumption else ()))


def _problem(row: Row, work: ForwardWork | None, device: ForwardDevice | None) -> str:
    if not row.get("model"):
        return "the row names no model"
    if work is None and (first_number(row.get("denoise_steps", "")) or says(TABLE, "denoiser", row["model"], ignore_case=True)):
        return f"model {row['model'][:60]!r} is a denoiser that is not known: give its parameters in params_b"
    if work is None:
        return f"model {row['model'][:60]!r} is not known and the row states neither its arithmetic nor its parameters"
    if (
        work.is_guessed
        and work.modality == "vision"
        and work.params > constants("forward_work")["most_vision_params"]
        and _is_plain_network(row["model"])
    ):
        return f"model {row['model'][:60]!r} is not known, and too large for one pass over a picture: give denoise_steps where it draws in steps"
    if device is None:
        return f"device {row.get('device', '')[:60]!r} is not known" if row.get("device") else "the row names no device"
    if row.get("metric") not in FORWARD_METRICS:
        return f"metric {row.get('metric', '')[:60]!r} is not predicted for a model of this kind"
    return ""


def _is_plain_network(name: str) -> bool:
    """Whether the name is of no family of networks that is known."""
    return network_family(name) == network_family("network")


_WORKS: dict[PassInput, ForwardWork | None] = {}


def _work_of(wish: PassInput) -> ForwardWork | None:
    if facts.own_reference(wish.model):  # a file may change, and is kept by its content
        return forward_work(wish)
    if wish not in _WORKS:
        if len(_WORKS) > 20_000:
            _WORKS.clear()
        _WORKS[wish] = forward_work(wish)
    return _WORKS[wish]


# engine, arithmetic, devices, load ----------------------------------------------------------------


@functools.lru_cache(maxsize=4096)
def engine_of(text: str, flags: str, device: str) -> Engine:
    """Engine class of a row from its engine, flags and device; the flags name the engine only where
    its own cell is empty."""
    if says(TABLE, "neuron", device, ignore_case=True):
        return Engine.NEURON
    row = first_match("forward_engines", text or flags)
    engine = Engine(row["engine"]) if row else Engine.EAGER
    lowered = f"{text} {flags}".lower()
    if engine == Engine.TENSORFLOW and re.search(r"\bxla\b", lowered):
        return Engine.TENSORFLOW_XLA
    if engine in (Engine.EAGER, Engine.EAGER_SCRIPT) and says(TABLE, "compiled", lowered):
        return Engine.COMPILED
    return engine


def arithmetic_of(text: str, computed: str = "") -> Arithmetic | None:
    """Arithmetic of the matrix products: that which a row says it computes in, else that of its
    weights; None where nothing is said."""
    lowered = (computed or text).lower()
    if "amp" in lowered or "mixed" in lowered:
        return Arithmetic.AMP
    if found := meaning(TABLE, "dtype", lowered):
        return Arithmetic(found)
    return Arithmetic.FP16 if lowered.strip() else None  # 4-bit weights and the like are multiplied in fp16


def _weight_bytes(row: Row) -> float:
    """Bytes of a stored weight where its format is narrower than what it is computed in; 0 where
    the arithmetic tells it."""
    stored = weight_format(row.get("weights_dtype", ""))
    return stored.linear_bytes if stored and (stored.linear_bytes < 1 or row.get("compute_dtype")) else 0.0


_MAX_SOCKETS = 8.0


def _num_devices(row: Row, device: ForwardDevice) -> float:
    """Devices of a row. Of processors, the sockets where they are stated: some tables count cores
    or memory domains in their place."""
    count = first_number(row.get("n_devices", "")) or 1.0
    if device.silicon != "cpu":
        return count
    if stated := first_number(row.get("sockets", "")):
        return stated
    return 1.0 if device.client or count > _MAX_SOCKETS else count


def _flow(flags: str) -> Flow:
    if "pipeline" in flags:
        return Flow.PIPELINE
    return Flow.REAL_TIME if "real time" in flags or "tensor parallel" in flags else Flow.THROUGHPUT


_MULTISTREAM = 8.0  # samples of one query of MLPerf's multi-stream scenario


def batch_of(row: Row) -> tuple[float, Scenario]:
    """Inputs that run together (0: the engine chose), and how the load came; a rate without a
    batch is an open load."""
    text, rate, arrival = (row.get(name, "").strip().lower() for name in ("batch_or_concurrency", "request_rate", "arrival"))
    if "slo" in rate or re.search(r"\bserver\b", text) or (arrival == "open" and not first_number(text)):
        return 0.0, Scenario.SERVER
    if says(TABLE, "one_stream", text):
        return 1.0, Scenario.SINGLE
    if re.search(r"multi.?stream", text):
        return _MULTISTREAM, Scenario.SINGLE
    if says(TABLE, "offline", text) or rate == "inf":
        return 0.0, Scenario.OFFLINE
    size = first_number(text)
    if size or arrival == "single":
        return size or 1.0, Scenario.SINGLE if arrival == "single" else Scenario.BATCH
    return 0.0 if row.get("metric", "").endswith("per_s") else 1.0, Scenario.OFFLINE


# the input ----------------------------------------------------------------------------------------


_PIXELS = r"(?<![\d.])(\d{2,4})\s?{pixel}|{side_name}[ _]?{size_name}?[ =:]+(\d{2,4})\b(?!\s?x)|imgsz[ =:]*(\d{2,4})\b"
_SIZES = re.compile(r"(?<![\w.])(\d{2,4})\s?[x\u00d7]\s?(\d{2,4})(?:\s?[x\u00d7]\s?(\d{1,4}))?(?![\d_])")
_LINES = r"(?<![\w.])(\d{3,4})p\b"
_FRAMES = r"(\d{1,3})[ -]?frames?\b|frames?[ =:]+(\d{1,3})\b"
_SIDE = re.compile(r"\d{2,4}(?:\.0)?")


def image_of(text: str) -> tuple[float, float, float]:
    """Height, width, frames; zeros where the text names none. A third small number after two sizes
    is channels, not frames."""
    if _SIDE.fullmatch(text.strip()):
        return float(text), float(text), 0.0
    frames = number_in(TABLE, _FRAMES, text, ignore_case=True)
    if pixels := number_in(TABLE, _PIXELS, text, ignore_case=True):
        return pixels, pixels, frames
    if lines := number_in(TABLE, _LINES, text, ignore_case=True):
        return lines, lines * 16.0 / 9.0, frames
    if size := _SIZES.search(text):
        first, second, third = float(size[1]), float(size[2]), float(size[3] or 0)
        if third > 99 and first < 99:
            return second, third, first
        return first, second, frames or (third if third > 4 and third != first else 0.0)
    return 0.0, 0.0, frames


#: Cells of a row that say what its input is, besides the model.
INPUT_COLUMNS = (
    "params_b", "input_tokens", "output_tokens", "image_size", "frames", "denoise_steps", "audio_s", "beams", "gmacs", "mactivations",
    "memory_tokens", "latency_scope", "flags", "metric",
)  # fmt: skip


def wish_of(row: Row) -> PassInput:
    """The input of a row as its cells tell."""
    return _wish(row.get("model", ""), *(row.get(name, "") for name in INPUT_COLUMNS))


@functools.lru_cache(maxsize=16384)
def _wish(model: str, *cells: str) -> PassInput:
    cell = dict(zip(INPUT_COLUMNS, cells, strict=True))
    height, width, frames = image_of(cell["image_size"])
    numbers = {name: first_number(text) for name, text in cell.items()}
    return PassInput(
        model=model,
        params=numbers["params_b"] * 1e9,
        height=height,
        width=width,
        frames=numbers["frames"] or frames,
        tokens=numbers["input_tokens"],
        output_tokens=numbers["output_tokens"],
        memory_tokens=numbers["memory_tokens"],
        steps=numbers["denoise_steps"],
        audio_s=numbers["audio_s"],
        beams=numbers["beams"] or 1.0,
        macs=numbers["gmacs"] * 1e9,
        activations=numbers["mactivations"] * 1e6,
        language_head="maskedlm" in cell["flags"].lower(),
        is_drawn=says(TABLE, "denoiser", model, ignore_case=True),
        denoise_only=cell["metric"] == "denoise_steps_per_s" or cell["latency_scope"].strip().lower() == "step",
    )


# ---- Rows of the table of measured loaders as cases: what is decoded, by what, on how many cores
# of which processor, from where.
#
# Rows are written by people; everything is read from words (what, loader, hardware, sample_kind)
# and what they do not say is assumed and named.

LOADING_TABLE = "loading"  # of words
_SIZE = re.compile(r"(\d{2,5})\s*[x×]\s*(\d{2,5})(?!\s*gpu)")
_PICTURE_SIDE = r"(\d{2,5})\s*-?px|side (\d{2,5})|@\s*(\d{2,5})\b"
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
    """How a named loader works: `decode_factor` over libjpeg-turbo, what it does, and whether
    batches are handed over from worker processes."""

    name: str
    decode_factor: float
    work: Work
    hands_over: bool


@dataclass(frozen=True, slots=True)
class LoadingRow:
    """One row: its case, the name of the loader, how many samples it is about (0: not said),
    and what was assumed."""

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
    """Mean pixels of web photographs (mean 0.2 megapixels, mostly 4:3) shrunk so that no side is
    longer: large ones shrink, small ones stay."""
    return float(((_FIGURES["web_share"] * longest_side**2) ** -4 + _FIGURES["web_pixels"] ** -4) ** -0.25)


def picture_of(sample: str, text: str) -> tuple[float, float, tuple[str, ...]]:
    """Pixels and file bytes of one stored picture, and what was assumed."""
    taken: list[str] = []
    size, side, mega = _SIZE.search(sample), number_in(LOADING_TABLE, _PICTURE_SIDE, sample), number_in(LOADING_TABLE, _MEGAPIXELS, sample)
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
    quality = number_in(LOADING_TABLE, _QUALITY, sample) or number_in(LOADING_TABLE, _QUALITY, text)
    stated = shape(LOADING_TABLE, _BYTES).search(sample)
    if stated and float(stated.group(1)) > 0:
        return pixels, float(stated.group(1)) * _SCALES[stated.group(2)], tuple(taken)
    if quality and 30 <= quality <= 100:
        return pixels, pixels * bytes_per_pixel(quality), tuple(taken)
    original = not side and ("imagenet" in sample or "jpeg" in sample) and pixels <= _FIGURES["original_most_pixels"]
    # ImageNet's files hold more bytes than their pixels need: 138 GB in 1.28 million files,
    # validation 6.3 GB in 50,000 (facts/data/datasets.csv).
    dense = _FIGURES["imagenet_validation_bytes" if re.search(r"\bval", sample) else "imagenet_bytes"]
    return pixels, pixels * (dense if original else bytes_per_pixel(_FIGURES["quality"])), tuple(taken)


def place_of(text: str) -> Place:
    """Where data come from."""
    return Place(meaning(LOADING_TABLE, "place", text))


def read_loading_case(row: Row) -> LoadingRow:
    """One row of the table as a case."""
    words = {name: row.get(name, "").casefold() for name in ("what", "loader", "hardware", "sample_kind")}
    text = " ; ".join(words.values())
    taken: list[str] = []
    # The words of the loader count first; "DataLoader around a decoder" is decided by the decoder
    # with the hand-over of processes.
    loader = loader_named(f"{words['loader']} ; {words['what']}")
    around = "dataloader" in words["what"] or "dataloader" in words["loader"]
    workers, in_process = worker_count(row, words, taken)
    only_decode = "decode only" in text or "decode from" in text or "no resize" in text or "imread" in text
    work = Work.DECODE if only_decode and loader.work in (Work.RECIPE, Work.CROP) else loader.work
    pixels, file_bytes, assumed = picture_of(words["sample_kind"] or words["what"], words["loader"])
    is_raw = says(LOADING_TABLE, "raw", words["sample_kind"].split("->")[0])
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
        vcpus=number_in(LOADING_TABLE, _VCPUS, words["hardware"]) or core.threads * number_in(LOADING_TABLE, _CORES, words["hardware"]),
        core_speed=core.speed,
        threads_per_core=core.threads,
        place=place_of(f"{words['hardware']} ; {words['what']}"),
        # One loader is one process and feeds one card; the other cards of the machine count where
        # the row says that it trains on them.
        num_gpus=max(1.0, number_in(LOADING_TABLE, _GPUS, words["what"])),
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
    if shape(LOADING_TABLE, r"\b{one}[ -]thread").search(words["what"] + words["loader"]) or "library default threads" in words["what"]:
        return 1.0, True
    cells = row.get("cpu_cores", "").strip()
    number = float(cells) if re.fullmatch(r"\d+(?:\.\d+)?", cells) else 0.0
    number = (
        number
        or number_in(LOADING_TABLE, _THREADS, words["loader"])
        or number_in(LOADING_TABLE, _VCPUS, words["hardware"])
        or number_in(LOADING_TABLE, _CORES, words["hardware"])
    )
    if not number:
        taken.append("number of cores not stated: one taken")
    return number or 1.0, False


def samples_in(text: str) -> float:
    """How many samples there are, 0 where nothing is said."""
    found = shape(LOADING_TABLE, _COUNT).search(text)
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
