"""Work and memory of training one sample, and what is known of a model before it is told."""

from __future__ import annotations

from rightfit.facts.constants import constant_group, constants
from rightfit.facts.trainers import attends
from rightfit.records import dataclass


@dataclass(frozen=True, slots=True)
class ModelWork:
    """Work and memory of one training sample; counts as in physics.train_step.StepWork and physics.train_memory.MemoryWork.

    `modality` is the kind of task, `kind` the kind of layers (forward_models.KINDS or graph). `epoch_samples` and `epochs` describe the
    usual run of this
    model, 0 where none is usual; `units` what published rates count per sample (mel frames of an utterance). `side_macs` is what frozen
    encoders cost per sample unless their outputs are cached, `side_elements` what those hold at a time; `adapter_params_per_rank` what an
    adapter of rank 1 learns. `pointwise` multiplies the element-wise crossings usual for the kind.
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
    epoch_samples: float = 0.0
    epochs: float = 0.0
    units: float = 1.0
    assumptions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TrainWish:
    """What is known of the model and its input. Sizes in pixels, 0 = not said; `peak_pixels` of the largest image where sizes vary.

    `library` is the detection library (detectron2, mmdetection, mmsegmentation) whose layouts differ; `classes` of a segmenter (0 = by data
    set).
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


#: Tensors kept for the backward pass per element that a weighted layer writes: its output for the normalisation, that for the activation
#: and the next
#: layer; SiLU keeps its input too; transformers keep normalised copies, the two halves of the feed-forward part, and attention's inputs.
KEPT = constant_group("training_work", "kept")


def mean_and_peak_pixels(wish: TrainWish, default: float) -> tuple[float, float]:
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
