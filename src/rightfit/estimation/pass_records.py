"""What one forward pass of a model is made of, and what is asked of it."""

from __future__ import annotations

import dataclasses

from rightfit import facts
from rightfit.estimation.convert import has_inline_ecc
from rightfit.facts.machines import ProcessorKind, UnrentedCard
from rightfit.facts.records import Accelerator, TracedModel
from rightfit.facts.tables import constant_group, constants
from rightfit.facts.trainers import attends
from rightfit.records import dataclass


@dataclass(frozen=True, slots=True)
class Stage:
    """One part of a model that runs `repeats` times per input. Counts are per input and pass (see
    physics/passes.py).

    `items` inputs that one request puts into a pass (2 with classifier-free guidance); `loose` how
    many times the usual number of small kernels a layer has where the engine fuses nothing;
    `pointwise` how many times the element-wise crossings usual for the kind an activation has
    there; `host` how many times the usual work of its kind the host does after each input
    (suppressing boxes).
    """

    kind: str
    macs: float
    activations: float
    weights: float
    layers: float
    score_macs: float = 0.0
    repeats: float = 1.0
    items: float = 1.0
    loose: float = 1.0
    pointwise: float = 1.0
    host: float = 1.0


@dataclass(frozen=True, slots=True)
class ForwardWork:
    """Stages of one input, the first of them the main one, and what was assumed.

    `output_bytes` per input are copied to the host when large; `state_elements` per input stay in
    memory from one stage to the next; `pixels` of an image that the host hands over. `is_guessed`:
    only parameters are known, and the arithmetic is that of the family; `decode_elements` live at a
    time while one output is decoded, `wide_params` that formats below 16 bits leave as they are,
    `doubt` how many times as
    wide an interval is where the work is that of a relative.
    """

    stages: tuple[Stage, ...]
    params: float
    modality: str
    assumptions: tuple[str, ...] = ()
    output_bytes: float = 0.0
    state_elements: float = 0.0
    pixels: float = 0.0
    is_guessed: bool = False
    decode_elements: float = 0.0
    wide_params: float = 0.0
    doubt: float = 1.0


@dataclass(frozen=True, slots=True)
class PassInput:
    """What a row says about the input: `image` (height, width, frames; 0 = not said), tokens,
    steps, stated GMACs and activations. `is_drawn`: pictures or videos come out of many steps."""

    model: str
    params: float = 0.0
    height: float = 0.0
    width: float = 0.0
    frames: float = 0.0
    tokens: float = 0.0
    output_tokens: float = 0.0
    memory_tokens: float = 0.0
    steps: float = 0.0
    audio_s: float = 0.0
    beams: float = 1.0
    macs: float = 0.0
    activations: float = 0.0
    language_head: bool = False
    denoise_only: bool = False
    is_drawn: bool = False


# ---- Devices as the forward physics sees them: GPUs and accelerators from the facts, processors
# from a small table.

SILICON = ("volta", "turing", "ampere", "ampere_small", "ada", "hopper", "blackwell", "blackwell_small", "cpu", "neuron", "old", "other")
#: The generation of each: how long a kernel takes to be launched and to start is of hosts, drivers
#: and clocks of its years, not of the size of the chip.
GENERATION = tuple({"ampere_small": "ampere", "hopper": "ada", "blackwell_small": "blackwell"}.get(name, name) for name in SILICON)
#: Of which each takes how long a layer takes at least: Blackwell was measured on one card by one
#: source, and a younger generation is not slower than the one before.
STARTS = tuple({"blackwell": "ada"}.get(name, name) for name in GENERATION)


@dataclass(frozen=True, slots=True)
class ForwardDevice:
    """Peaks in FLOP/s by dtype (0 = it lacks it), memory rate [bytes/s], power [W] (0 = no limit),
    parallel units, cores that share a chip, and what of its memory can
    be filled [bytes] (0: not known)."""

    name: str
    silicon: str
    fp32: float
    tf32: float
    fp16: float
    bf16: float
    int8: float
    fp8: float
    bandwidth: float
    tdp_w: float
    units: float
    cores: float = 1.0
    l2_bytes: float = 0.0
    assumption: str = ""
    client: bool = False
    usable_bytes: float = 0.0

    def peak(self, dtype: str) -> float:
        """Peak of the dtype [FLOP/s]; the nearest wider one that the device has
        where it lacks it."""
        order = {
            "fp32": (self.fp32, self.bf16, self.fp16),
            "tf32": (self.tf32, self.fp32, self.bf16, self.fp16),
            "fp16": (self.fp16, self.bf16, self.fp32),
            "amp": (self.fp16, self.bf16, self.fp32),
            "bf16": (self.bf16, self.fp16, self.fp32),
            "int8": (self.int8, self.fp16, self.bf16, self.fp32),
            "fp8": (self.fp8, self.fp16, self.bf16, self.fp32),
        }[dtype]
        return next((rate for rate in order if rate > 0), 0.0)

    def share(self, part: float) -> ForwardDevice:
        """A slice of the card: its part of arithmetic, bandwidth, power, units and cache."""
        scaled = ("fp32", "tf32", "fp16", "bf16", "int8", "fp8", "bandwidth", "tdp_w", "units", "l2_bytes", "usable_bytes")
        return dataclasses.replace(self, **{name: getattr(self, name) * part for name in scaled})


_SILICON = {
    "Volta": "volta",
    "Turing": "turing",
    "Ada": "ada",
    "Hopper": "hopper",
    "Blackwell": "blackwell",
    "Blackwell Ultra": "blackwell",
}
#: On-chip memory that compilers keep activations in, where the facts know no cache.
_SCRATCH_BYTES = constant_group("forward_work", "scratch_bytes")
_NEURON_CORES = constant_group("forward_work", "neuron_cores")
_CACHE_PER_CORE_BYTES = constants("forward_work")["cache_per_core_bytes"]
_USUAL_UNITS = 64.0


def silicon_of(record: Accelerator) -> str:
    """Class of chip that shares its kernels' quality."""
    if record.vendor == "NVIDIA" and record.architecture == "Ampere":
        return "ampere" if record.compute_capability == 8.0 else "ampere_small"
    if record.vendor == "NVIDIA" and record.architecture == "Blackwell" and not record.name.startswith(("B200", "GB200", "B300", "GB300")):
        return "blackwell_small"
    if record.architecture.startswith("NeuronCore"):
        return "neuron"
    if record.architecture in ("Pascal", "Maxwell", "Kepler"):
        return "old"
    return _SILICON.get(record.architecture, "other")


def usable_memory(name: str, memory_bytes: float) -> float:
    """What of a card's nominal memory software can fill [bytes]."""
    usual = facts.coefficients("operators")
    return memory_bytes * usual["visible_share"] * (1.0 - usual["inline_ecc_share"] * has_inline_ecc(name))


def card_device(record: Accelerator, *, assumption: str = "") -> ForwardDevice:
    """An accelerator of the facts."""
    return ForwardDevice(
        record.name,
        silicon_of(record),
        record.fp32_flops,
        record.tf32_flops,
        record.fp16_flops,
        record.bf16_flops or (0.0 if record.vendor == "NVIDIA" else record.fp16_flops),
        0.0 if record.architecture in ("Volta", "Pascal") else record.int8_ops,
        record.fp8_flops,
        record.memory_bandwidth,
        record.tdp_w,
        float(record.num_sms or 1),
        _NEURON_CORES.get(record.name, 1.0),
        record.l2_bytes or _SCRATCH_BYTES.get(record.architecture, 0.0),
        assumption,
        usable_bytes=usable_memory(record.name, record.memory_bytes),
    )


def unrented_device(card: UnrentedCard) -> ForwardDevice:
    """A card that no cloud rents, after the one that it is like."""
    like, fp16 = card.like, card.fp16_flops
    has_int8 = like.int8_ops > 0 and not card.is_other
    return ForwardDevice(
        card.name,
        "other" if card.is_other else silicon_of(like),
        card.fp32_flops,
        fp16 / 2 if like.tf32_flops and not card.is_other else card.fp32_flops,
        fp16,
        card.bf16_flops or fp16,
        fp16 * (like.int8_ops / max(like.fp16_flops, 1.0)) if has_int8 else fp16,
        2.0 * fp16 if like.fp8_flops else 0.0,
        card.bandwidth,
        card.tdp_w,
        card.num_sms or _USUAL_UNITS,
        l2_bytes=like.l2_bytes,
        usable_bytes=usable_memory(card.name, card.memory_bytes),
    )


def processor_device(kind: ProcessorKind, *, cores: float = 0.0, name: str = "", is_client: bool = False) -> ForwardDevice:
    """So many cores of a processor (0: one socket); a few of them can already draw half
    of its memory rate."""
    cores = cores or kind.cores
    rate = cores * kind.clock_hz
    fp32 = rate * kind.fp32_per_cycle
    return ForwardDevice(
        name or kind.key,
        "cpu",
        fp32,
        fp32,
        fp32,
        max(rate * kind.bf16_per_cycle, fp32),
        rate * kind.int8_per_cycle,
        0.0,
        kind.bandwidth * max(min(1.0, cores / kind.cores), 0.5),
        0.0,
        cores,
        l2_bytes=cores * _CACHE_PER_CORE_BYTES,
        client=is_client,
    )


# ---- Work and memory of training one sample, and what is known of a model before it is told.


@dataclass(frozen=True, slots=True)
class ModelWork:
    """Work and memory of one training sample; counts as in physics.train_step.StepWork and
    physics.train_memory.MemoryWork.

    `modality` is the kind of task, `kind` the kind of layers (forward_models.KINDS or graph).
    `epoch_samples` and `epochs` describe the usual run of this model, 0 where none is usual;
    `units` what published rates count per sample (mel frames of an utterance). `side_macs` is what
    frozen encoders cost per sample unless their outputs are cached, `side_elements` what those hold
    at a time; `adapter_params_per_rank` what an adapter of rank 1 learns. `pointwise` multiplies
    the element-wise crossings usual for the kind; `wide` 1 where those of a detector stay in fp32
    under autocast.
    """

    name: str
    modality: str
    kind: str
    macs: float = 0.0
    score_macs: float = 0.0
    activations: float = 0.0
    frozen_macs: float = 0.0
    frozen_activations: float = 0.0
    layers: float = 1.0
    params: float = 0.0
    trained: float = 0.0
    beside: float = 0.0
    tables: float = 0.0
    gathered: float = 0.0
    kept: float = 0.0
    block_inputs: float = 0.0
    block: float = 0.0
    widest: float = 0.0
    fixed_bytes: float = 0.0
    host_s: float = 0.0
    side_macs: float = 0.0
    side_elements: float = 0.0
    adapter_params_per_rank: float = 0.0
    pointwise: float = 1.0
    wide: float = 1.0
    epoch_samples: float = 0.0
    epochs: float = 0.0
    units: float = 1.0
    assumptions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NetworkInput:
    """What is known of the model and its input. Sizes in pixels, 0 = not said; `peak_pixels` of the
    largest image where sizes vary.

    `library` is the detection library (detectron2, mmdetection, mmsegmentation) whose layouts
    differ; `classes` of a segmenter (0 = by data set).
    """

    model: str
    task: str = ""
    height: float = 0.0
    width: float = 0.0
    frames: float = 0.0
    peak_pixels: float = 0.0
    library: str = ""
    classes: float = 0.0
    params: float = 0.0
    audio_s: float = 0.0
    views: tuple[tuple[float, float], ...] = ()


#: Tensors kept for the backward pass per element that a weighted layer writes: its output for the
#: normalisation, that for the activation and the next layer; SiLU keeps its input too; of what
#: linear layers write, transformers keep normalised copies, both ends of the activation, and
#: attention's inputs.
KEPT = constant_group("training_work", "kept")


def mean_and_peak_pixels(wish: NetworkInput, default: float) -> tuple[float, float]:
    """Mean pixels of an input and those of the largest."""
    mean = wish.height * (wish.width or wish.height) if wish.height else default**2
    return mean, max(wish.peak_pixels, mean)


def usual_optimizer_bytes(work: ModelWork, model: str) -> float:
    """Bytes of states per parameter of the usual optimizer of a task."""
    figures = constants("training_work")
    if work.modality in ("diffusion", "speech", "contrastive", "gan", "graph", "time-series", "text", "self-supervised"):
        return figures["attention_optimizer_bytes"]
    if work.kind in ("window", "transformer", "convnext") or attends(model):
        return figures["attention_optimizer_bytes"]
    return 0.0 if work.modality == "recommendation" else figures["momentum_bytes"]


# ---- Work of a model of the user's own (facts.own), for one forward pass and for one training
# sample, in the counts that named models have.

#: What bundled records of vision models count as one: products and outputs of attention
#: among those of layers.
_PICTURES = ("vision", "video")
ATTENDING = ("transformer", "window")
_FP32_BYTES = 4.0


def _macs_and_elements(record: TracedModel) -> tuple[float, float, float]:
    """Multiply-adds, those of scores apart, and written elements."""
    if record.modality in _PICTURES:
        return record.macs + record.score_macs, 0.0, record.activations + record.score_elements
    return record.macs, record.score_macs, record.activations


def resized(record: TracedModel, height: float, width: float) -> TracedModel:
    """The counts of a network read from a configuration for a picture of another size: products and
    outputs grow with the pixels, attention scores with their square. A trace is of the input that
    it was made for."""
    if record.certainty != "config" or not (height and record.image_size):
        return record
    ratio = height * (width or height) / record.image_size**2
    linear = {name: getattr(record, name) * ratio for name in ("macs", "activations", "widest", "score_elements")}
    return dataclasses.replace(record, **linear, score_macs=record.score_macs * ratio**2, image_size=(height * (width or height)) ** 0.5)


def traced_forward(record: TracedModel) -> ForwardWork | None:
    """One forward pass; None where only parameters are known."""
    if not record.kind:
        return None
    macs, scores, written = _macs_and_elements(record)
    stage = Stage(record.kind, macs, written, float(record.params_total - record.params_embedding), record.layers, score_macs=scores)
    return ForwardWork((stage,), float(record.params_total), "vision" if record.modality in _PICTURES else "other")


def traced_training(record: TracedModel) -> ModelWork | None:
    """One training sample; None where only parameters are known."""
    if not record.kind:
        return None
    macs, scores, written = _macs_and_elements(record)
    learning = _learning_share(record)
    tables = float(record.params_embedding) if record.kind == "recommender" else 0.0
    params = float(record.params_total) - tables
    kept = _kept(record, written)
    assumptions = () if record.kept_bytes else ("what the backward pass keeps is told from the outputs of layers",)
    return ModelWork(
        record.name, _modality(record), record.kind, macs=macs * learning, score_macs=scores * learning, activations=written * learning,
        frozen_macs=(macs + scores) * (1.0 - learning), frozen_activations=written * (1.0 - learning), layers=record.layers, params=params,
        trained=min(float(record.params_trainable), params), tables=tables, gathered=record.gathered if tables else 0.0, kept=kept, block_inputs=constants("training_work")["block_inputs_share"] * written,
        block=constants("training_work")["block_share"] * kept, widest=record.widest, fixed_bytes=record.fixed_bytes, assumptions=assumptions,
    )  # fmt: skip


def _learning_share(record: TracedModel) -> float:
    """Share of the arithmetic whose weights learn: two passes backward for one forward, less
    where a part is frozen."""
    if not record.backward_macs or record.params_trainable > constants("training_work")["traced_trainable"] * record.params_total:
        return 1.0
    return min(1.0, record.backward_macs / (2.0 * record.macs))


def _kept(record: TracedModel, written: float) -> float:
    """Elements that stay for the backward pass; of a network with attention at least those of
    blocks with fused attention, which keep no scores."""
    usual = KEPT.get(record.kind, 2.0) * (record.activations if record.kind in ATTENDING else written)
    traced = record.kept_bytes / _FP32_BYTES
    return max(traced, usual) if record.kind in ATTENDING or not traced else traced


def _modality(record: TracedModel) -> str:
    if record.modality == "vision":
        return "segmentation" if record.output == "map" else "classification"
    named = {"video": "video", "audio": "speech", "text": "text", "time-series": "time-series"}
    return named.get(record.modality, "recommendation" if record.kind == "recommender" and record.params_embedding else "tabular")
