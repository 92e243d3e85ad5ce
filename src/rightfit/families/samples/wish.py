"""From a workload to a SampleRequest: models of vision, diffusion, speech, recommendation and
graphs; every default that was taken is noted."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rightfit import facts
from rightfit.errors import ContradictionError, InputError, UnavailableError, UnknownNameError
from rightfit.estimation.data_path import DataLoad
from rightfit.estimation.pass_records import ModelWork, usual_optimizer_bytes
from rightfit.facts.records import DiffusionModel, OtherModel, VisionModel
from rightfit.facts.resolve import usual_model
from rightfit.facts.trained_networks import (
    UsualTraining,
    is_listed,
    is_padded,
    output_frames,
    output_sizes,
    sides_in,
    trained_graph,
    usual_training,
)
from rightfit.facts.trainers import sample_optimizer_bytes, sample_stack
from rightfit.families.samples.models import sample_model
from rightfit.messages import Message
from rightfit.physics.columns import Method
from rightfit.records import dataclass
from rightfit.search.request_checks import Notes, note_own
from rightfit.search.training.wish import Amount, TrainingRequest, read_framework

if TYPE_CHECKING:
    from rightfit.estimation.data_path import DataLoad
    from rightfit.estimation.pass_records import ModelWork, NetworkInput
    from rightfit.facts.trained_networks import UsualTraining
    from rightfit.workload import Workload


# ---- How many samples there are, how large they are, and what loading them takes.

#: What the data of each domain may be counted in, beside samples and bytes.
UNITS = {
    "vision": ("images", "frames", "pairs"),
    "video": ("clips", "videos"),
    "speech": ("hours", "utterances"),
    "recommender": ("rows", "interactions"),
    "graph": ("nodes", "rows"),
    "tabular": ("rows", "documents", "pairs"),
}
_DOMAINS = {
    "vision": ("vision", "vision-language", "medical", "scientific"),
    "video": ("video", "vision"),
    "speech": ("speech", "audio"),
    "recommender": ("recommendation", "tabular"),
    "graph": ("graph",),
    "tabular": ("tabular", "text", "time-series"),
}
_DECODES = {"vision": ("pillow", "opencv", "ffcv", "dali", "raw"), "video": ("raw", "dali")}


@dataclass(frozen=True, slots=True)
class Samples:
    """`samples` and bytes of one pass over the data, the number of passes, and what
    a sample is called."""

    samples: float
    dataset_bytes: float
    epochs: float
    unit: str

    @property
    def whole(self) -> Amount:
        """The work as the search counts it."""
        return Amount(self.samples * self.epochs, self.dataset_bytes, self.samples * self.epochs)


def amount_of_samples(workload: Workload, work: ModelWork, usual: UsualTraining, sample: Mapping[str, Any], notes: Notes) -> Samples:
    """Samples, bytes and epochs: the user's, else the usual ones of the model."""
    samples, size = _one_pass(workload, work, usual, sample, notes)
    epochs = workload.epochs
    if epochs is None:
        epochs = _usual_epochs(workload, work, usual, samples)
        notes.take("epochs", epochs, "sample_epochs")
    if samples * epochs < 1.0:
        raise InputError(Message("families.less_than_a_sample", epochs=epochs, samples=samples), field="epochs")
    return Samples(samples, size, epochs, usual.unit)


def _usual_epochs(workload: Workload, work: ModelWork, usual: UsualTraining, samples: float) -> float:
    figures = facts.coefficients("training")
    if workload.method == "dreambooth":
        return max(1.0, round(figures["dreambooth_steps"] / samples))
    if workload.method == "textual-inversion":
        return max(1.0, round(figures["inversion_steps"] * 4.0 / samples))
    epochs = usual.run(workload.task).epochs
    if usual.domain == "vision" and workload.method in ADAPTERS and methods_of(work)[0] in ADAPTERS:
        return max(epochs, round(figures["adapter_samples"] / samples))  # a subject of few pictures is seen often
    return epochs


def _one_pass(workload: Workload, work: ModelWork, usual: UsualTraining, sample: Mapping[str, Any], notes: Notes) -> tuple[float, float]:
    each = _sample_bytes(usual, sample)
    if workload.data_unit == "dataset" and workload.data:
        return _of_dataset(workload.data, work, usual, each, notes)
    if workload.data_tokens is not None:
        raise InputError(
            Message("families.data_unit_samples", unit="tokens", model=workload.model, own=usual.unit),
            field="data",
        )
    if workload.data_samples is not None:
        return _counted(workload, usual, sample, each, notes)
    if workload.data_bytes is not None:
        samples = max(1.0, workload.data_bytes / each)
        notes.take("data_samples", samples, "samples_from_bytes", data_bytes=workload.data_bytes, each_bytes=each)
        return samples, workload.data_bytes
    samples = usual.run(workload.task).samples
    if workload.task == "train" and work.epoch_samples:
        samples = work.epoch_samples
    if workload.method in ("dreambooth", "textual-inversion"):
        samples = 5.0
    notes.take("data_samples", samples, "sample_data", unit=usual.unit)
    return samples, samples * each


def _sample_bytes(usual: UsualTraining, sample: Mapping[str, Any]) -> float:
    """Bytes of one sample on disk: recordings and clips grow with their length."""
    if usual.domain == "speech" and usual.seconds:
        return float(usual.sample_bytes * sample["seconds"] / usual.seconds)
    return usual.sample_bytes


def _counted(workload: Workload, usual: UsualTraining, sample: Mapping[str, Any], each: float, notes: Notes) -> tuple[float, float]:
    unit, count = workload.data_unit or "samples", float(workload.data_samples or 0.0)
    if unit not in (usual.unit, *UNITS[usual.domain], "samples"):
        raise InputError(
            Message("families.data_unit_samples", unit=unit, model=workload.model, own=usual.unit),
            field="data",
        )
    if unit == "hours":
        said_s, window_s = facts.coefficients("planning")["utterance_s"], float(sample["seconds"])
        each_s = min(said_s, window_s) if workload.audio_length_s is None else window_s  # a longer window is padded
        samples = max(1.0, count * 3600.0 / each_s)
        key = "samples_from_hours" if each_s == window_s else "samples_padded"
        notes.take("data_samples", samples, key, hours=count, each_s=each_s, window_s=window_s)
        return samples, samples * each * each_s / window_s
    return count, count * each


def _of_dataset(name: str, work: ModelWork, usual: UsualTraining, each: float, notes: Notes) -> tuple[float, float]:
    """A named data set: what it counts, else its bytes by the usual size. Of a graph only the
    labelled nodes are samples."""
    record = facts.dataset(name)
    if record.domain not in _DOMAINS[usual.domain]:
        raise InputError(
            Message("families.dataset_of_another_kind", dataset=record.name, domain=record.domain, model=work.name, own=usual.unit),
            field="data",
        )
    size = float(record.size_bytes or 0.0)
    if usual.domain == "graph":
        samples = work.epoch_samples or float(record.samples)
        notes.take("data_samples", samples, "graph_samples")
        return samples, size or samples * each
    if record.samples:
        return float(record.samples), size or record.samples * each
    if not size:
        raise InputError(
            Message("families.dataset_size", dataset=record.name, own=usual.unit),
            field="data",
        )
    samples = size / each
    notes.take("data_samples", samples, "samples_from_bytes", data_bytes=size, each_bytes=each)
    return samples, size


def load_of(workload: Workload, usual: UsualTraining, latents: str, sample: Mapping[str, Any], amount: Samples) -> DataLoad:
    """What has to be loaded. Latents that were made beforehand are read as they are."""
    from rightfit.estimation.loading import sample_load

    domain = usual.domain
    allowed = _DECODES.get(domain, ("raw",))
    if workload.decode and workload.decode not in allowed:
        raise ContradictionError(
            Message("families.decode_of_another_kind", decode=workload.decode, allowed=", ".join(allowed)), field="decode"
        )
    if workload.decode not in (None, "raw") and latents == "cached":
        raise ContradictionError(
            Message("families.decode_cached", decode=workload.decode),
            field="decode",
        )
    plain = latents == "cached" or domain == "tabular"
    each = amount.dataset_bytes / amount.samples
    if latents == "cached":
        figures = facts.coefficients("training")
        frames = max(1.0, (float(sample["frames"]) - 1.0) / 4.0 + 1.0)
        each = figures["latent_bytes_per_pixel"] * sample["height"] * sample["width"] * frames + figures["text_embedding_bytes"]
    return sample_load(
        "tabular" if plain else domain,
        samples=amount.samples,
        dataset_bytes=max(amount.dataset_bytes, each * amount.samples) if latents == "cached" else amount.dataset_bytes,
        epochs=amount.epochs,
        decode="raw" if plain else workload.decode or "",
        seconds=float(sample["seconds"]),
        storage=workload.storage or "",
        workers=workload.workers or 0,
    )


# ---- What the search asks of a wish to train a model that is not a language model: one sample
# stands where a language model has a token.


@dataclass(frozen=True, slots=True)
class Recipe:
    """How the samples are trained on. `optimizer_bytes` of states per trained parameter;
    `adapter_rank` > 0: adapters learn; `trainable` > 0: that many parameters learn; `stored`: how
    frozen weights are held; `software`: a class of stacks; `latents`: "cached", "live" or empty
    where there is no image encoder; `host_bytes`: what each job keeps in RAM whatever its
    accelerators (features of a graph)."""

    optimizer_bytes: float
    software: str
    adapter_rank: float = 0.0
    trainable: float = 0.0
    stored: str = "fp32"
    latents: str = ""
    channels_last: bool = False
    host_bytes: float = 0.0


@dataclass(frozen=True, slots=True)
class SampleRequest(TrainingRequest):
    """A wish counted in samples: `seq_len` is 1 and `amount.tokens` counts samples over all epochs.
    `sample` describes one: its unit ("images"), side [pixels], frames, seconds."""

    model: Any  # the record, None where only a table of arithmetic knows the model
    work: ModelWork = dataclasses.field(kw_only=True)
    recipe: Recipe = dataclasses.field(kw_only=True)
    load: DataLoad = dataclasses.field(kw_only=True)
    sample: Mapping[str, Any] = dataclasses.field(kw_only=True)


# ---- What learns and how: methods that a model can use, optimizer, software, latents; options that
# do not go with it are refused in one line.

ATTENTION_KINDS = ("transformer", "window", "dit", "denoiser")
ADAPTERS = ("lora", "dora", "qlora")
CONVOLUTIONS = ("conv", "grouped", "depthwise", "convnext", "detection", "unet", "conv3d", "denoiser")
TUNED_STORED = {"nf4": "nf4", "fp4": "nf4", "int4": "nf4", "int8": "int8", "fp8": "fp8"}
_OPTIMIZERS = {8.0: "adamw", 4.0: "sgd"}


def methods_of(work: ModelWork) -> tuple[str, ...]:
    """Training methods that a model can use, the usual one for fine-tuning first."""
    if work.modality == "diffusion":
        return ("lora", "dora", "qlora", "full", "dreambooth", "textual-inversion")
    if work.kind in ATTENTION_KINDS and work.modality not in ("gan", "graph", "recommendation"):
        return ("full", "lora", "dora", "freeze")
    if work.modality in ("recommendation", "graph", "gan", "text", "time-series", "molecules"):
        return ("full",)
    return ("full", "freeze")


def settle_method(workload: Workload, work: ModelWork, notes: Notes) -> Workload:
    """The method: the user's if the model can use it, else the usual one."""
    allowed = methods_of(work)
    method = workload.method or "full"
    if workload.lora_rank and not any(name in ADAPTERS for name in allowed):
        raise ContradictionError(Message("families.no_adapters", model=workload.model, methods=", ".join(allowed)), field="lora_rank")
    if "method" not in workload.assumed and workload.method is not None:
        if method not in allowed:
            raise ContradictionError(
                Message("families.method_samples", method=method, model=workload.model, methods=", ".join(allowed)), field="method"
            )
        return workload
    adapts = workload.quantization or workload.lora_rank  # only an adapter has use for either
    chosen = "full" if workload.task == "train" else method if adapts and method in allowed else allowed[0]
    notes.take("method", chosen, "sample_method")
    return workload if chosen == method else workload.settled(method=chosen)


def refuse_quantization(workload: Workload) -> None:
    """Weights are quantised only where they do not learn; the method is settled before."""
    if workload.quantization not in (None, "none") and workload.method not in ADAPTERS:
        raise ContradictionError(
            Message("families.adapters_only", quantization=workload.quantization, model=workload.model),
            field="quantization",
        )


def refuse_other_values(workload: Workload, work: ModelWork) -> None:
    """Values that this model gives no meaning."""
    if workload.precision == "fp8":
        raise ContradictionError(Message("families.precision_fp8", model=workload.model), field="precision")
    if workload.recompute == "selective":
        raise ContradictionError(Message("families.recompute_selective", model=workload.model), field="recompute")
    if workload.latents and work.modality != "diffusion":
        raise ContradictionError(Message("families.no_latents", model=workload.model), field="latents")
    if workload.offload not in (None, "none", "params", "all") or (
        workload.offload in ("params", "all") and work.kind not in ("dit", "denoiser")
    ):
        raise ContradictionError(
            Message("families.offload_samples", offload=workload.offload, model=workload.model),
            field="offload",
        )
    if workload.sharding in ("zero1", "zero2"):
        raise ContradictionError(Message("families.sharding_samples", sharding=workload.sharding, model=workload.model), field="sharding")


def read_recipe(workload: Workload, work: ModelWork, sample: Mapping[str, Any], notes: Notes) -> Recipe:
    """The recipe, with a note for each default that matters."""
    usual, method = facts.coefficients("training"), workload.method or "full"
    rank = 0.0
    if method in ADAPTERS:
        rank = float(workload.lora_rank or usual["usual_rank"])
        if not workload.lora_rank:
            notes.take("lora_rank", rank, "sample_rank")
    named = sample_optimizer_bytes(workload.optimizer or "")
    states = usual_optimizer_bytes(work, workload.model) if named is None else named
    if not workload.optimizer:
        usual_name = _OPTIMIZERS.get(states, "sgd")
        notes.take("optimizer", usual_name, "sample_optimizer")
    latents = _latents(workload, work, method, notes)
    channels_last = work.kind in CONVOLUTIONS and workload.precision not in ("fp32", "tf32")
    if channels_last:
        notes.take("memory_format", "channels_last", "channels_last")
    software = _software(workload, work, notes)
    trainable = usual["inversion_parameters"] if method == "textual-inversion" else 0.0
    return Recipe(states, software, rank, trainable, _stored(workload, method, rank or trainable), latents, channels_last)


def _latents(workload: Workload, work: ModelWork, method: str, notes: Notes) -> str:
    """Whether latents and text embeddings are made beforehand: not where the text
    encoder learns too."""
    if work.modality != "diffusion":
        return ""
    if workload.latents:
        if workload.latents == "cached" and method in ("dreambooth", "textual-inversion"):
            raise ContradictionError(Message("families.latents_cached", method=method), field="latents")
        return workload.latents
    chosen = "live" if method in ("dreambooth", "textual-inversion") else "cached"
    notes.take("latents", chosen, f"latents_{chosen}")
    return chosen


def _software(workload: Workload, work: ModelWork, notes: Notes) -> str:
    """The class of software: the one named, else the usual one of the field."""
    if workload.framework:
        return sample_stack(workload.framework)
    notes.take("framework", "PyTorch", "sample_framework")
    return "library" if work.modality in ("detection", "segmentation", "detection3d") else "eager"


def _stored(workload: Workload, method: str, frozen: float) -> str:
    """How weights that do not learn are held."""
    if not frozen:
        return "fp32"
    if method == "qlora":
        return TUNED_STORED.get(workload.quantization or "nf4", "nf4")
    return TUNED_STORED.get(workload.quantization or "", "half")


_STAND_IN = "graphsage"  # whose neighbourhoods stand for those of other graph networks on the same graph
#: Kinds of data that models learn from the start: no published weights know one's own
#: users, rows or nodes.
_NEVER_TUNED = ("recommender", "graph")
#: So much of the data that a model is published as trained on is all of it: copies differ by files
#: that could not be read.
_NEARLY_ALL = 0.95


def read_sample_wish(workload: Workload) -> SampleRequest:
    """The workload as numbers; raises what the user must know."""
    notes = Notes()
    record = sample_model(workload.model)
    read_framework(workload, notes)
    work, asked = _work(workload, record)
    refuse_other_values(workload, work)
    for field in workload.assumed:
        if field == "task" and workload.task == "train":
            _note_training(workload, _usual(workload, work, asked), notes)
        elif field not in ("currency", "method"):
            notes.take(field, str(getattr(workload, field)), f"default_{field}")
    workload = settle_method(workload, work, notes)
    refuse_quantization(workload)
    note_own(record, notes)
    for text in work.assumptions:
        notes.take("model", text, "sample_model")
    usual = _usual(workload, work, asked)
    sample = _sample(workload, record, asked, usual, notes)
    if usual.domain == "speech" and not is_padded(facts.spoken(workload.model)):
        work, _ = _work(workload, record, audio_s=sample["seconds"])
    amount = amount_of_samples(workload, work, usual, sample, notes)
    recipe = read_recipe(workload, work, sample, notes)
    work = _adapted(work, workload, record, recipe.latents, amount)
    batch = _global_batch(workload, usual, amount, notes)
    load = load_of(workload, usual, recipe.latents, sample, amount)
    return SampleRequest(
        workload,
        record if not isinstance(record, str) else None,
        Method.FULL,
        1,
        batch,
        amount.whole,
        tuple(notes.taken),
        work=work,
        recipe=dataclasses.replace(recipe, host_bytes=_host_bytes(work, amount)),
        load=load,
        sample={**sample, "unit": amount.unit},
    )


def _usual(workload: Workload, work: ModelWork, asked: NetworkInput) -> UsualTraining:
    """The usual recipe for such a model."""
    return usual_training(work.modality, facts.spoken(workload.model), is_video=asked.frames > 1)


def starts_afresh(workload: Workload) -> bool:
    """Whether training from the start is meant where no task was given: such models have no
    published weights to start from, or the data are those (or more) that such models are published
    as trained on."""
    work, asked = _work(workload, sample_model(workload.model))
    usual = _usual(workload, work, asked)
    if usual.domain in _NEVER_TUNED:
        return True
    if workload.data_unit != "dataset" or workload.data is None:
        return False
    return float(facts.dataset(workload.data).samples or 0.0) >= _NEARLY_ALL * usual.train.samples


def _note_training(workload: Workload, usual: UsualTraining, notes: Notes) -> None:
    """That no task was given, and why training from the start is taken."""
    if usual.domain in _NEVER_TUNED:
        notes.take("task", "train", "task_own_data")
    else:
        notes.take("task", "train", "task_published_data", data=workload.data or "")


def _work(workload: Workload, record: Any, *, audio_s: float = 0.0) -> tuple[ModelWork, NetworkInput]:
    """What training on one sample costs, at the size that the user wants; `audio_s` of sound, 0:
    the length that the model is usually given."""
    from rightfit.estimation.pass_records import NetworkInput
    from rightfit.estimation.sample_work import train_work

    height, width = sides_in(workload.image_size or "")
    if not height and not workload.image_size:
        height = width = _own_side(workload, record)
    frames = float(workload.frames or _usual_frames(record))
    meant = usual_model(workload.model or "") or workload.model
    wish = NetworkInput(meant, height=height, width=width, frames=frames, audio_s=audio_s)
    if facts.read_record(workload.model) is not None:
        try:
            return train_work(wish), wish
        except UnknownNameError:
            raise UnavailableError(Message("families.training_unknown", model=workload.model)) from None
    names = [*_with_data(workload), *_without_owner(meant), meant, workload.model, *([] if isinstance(record, str) else [record.name])]
    for name in dict.fromkeys(names):
        try:
            work = train_work(dataclasses.replace(wish, model=name))
        except UnknownNameError:
            continue
        if isinstance(record, OtherModel) and not record.forward_flops and work.modality == "classification":
            break  # guessed from its parameters as a network of pictures, which it is not
        return work, wish
    raise UnavailableError(Message("families.training_unknown", model=names[-1]))


def _without_owner(name: str) -> list[str]:
    """The name behind the owner of a hub id, where the tables of arithmetic know that
    and not the whole."""
    owner, _, bare = name.rpartition("/")
    return [bare] if owner and is_listed(bare) and not is_listed(name) else []


def _with_data(workload: Workload) -> list[str]:
    """What is trained on a graph depends on the graph: names of rows that know it."""
    if workload.data_unit != "dataset" or not workload.data or facts.dataset(workload.data).domain != "graph":
        return []
    found = (f"{workload.model} {workload.data}", workload.data, f"{_STAND_IN} {workload.data}")
    return [name for name in found if trained_graph(name)]


def _own_side(workload: Workload, record: Any) -> float:
    """The side of the pictures of a small data set [pixels], at which networks of convolutions are
    trained on it; 0 of any other."""
    if not isinstance(record, VisionModel) or workload.method not in (None, "", "full") or workload.task != "train":
        return 0.0
    if workload.data_unit != "dataset" or not workload.data:
        return 0.0
    name = facts.dataset(workload.data).name
    rows = facts.table("dataset_pixels")
    return next((float(row["side"]) for row in rows if row["dataset"] == name and record.family in row["families"].split()), 0.0)


def _usual_frames(record: Any) -> float:
    """Frames of a video model's usual output."""
    return output_frames(record) if isinstance(record, DiffusionModel) and record.modality == "video" else 0.0


def _sample(workload: Workload, record: Any, asked: NetworkInput, usual: UsualTraining, notes: Notes) -> dict[str, Any]:
    """One sample: side of its image, frames, seconds."""
    height, width = asked.height, asked.width
    pictures = usual.domain in ("vision", "video")
    if not height and isinstance(record, VisionModel):
        height = width = float(record.image_size)
    if not height and isinstance(record, DiffusionModel):
        sizes = output_sizes(record)
        height, width = (sizes[-2], sizes[-1]) if len(sizes) > 1 else (512.0, 512.0)
    if pictures and height and not workload.image_size:
        notes.take("image_size", f"{height:.0f}x{width:.0f}", "image_size_of_data" if _own_side(workload, record) else "image_size")
    if workload.image_size and not pictures:
        raise ContradictionError(Message("families.takes_no_images", model=workload.model), field="image_size")
    seconds = workload.audio_length_s or usual.seconds
    if workload.audio_length_s and usual.domain != "speech":
        raise ContradictionError(Message("families.takes_no_sound", model=workload.model), field="audio_length")
    if usual.domain == "speech" and not workload.audio_length_s:
        notes.take("audio_length_s", seconds, "audio_length")
    if workload.frames and asked.frames > 1 and usual.domain != "video":
        raise ContradictionError(Message("families.takes_single_images", model=workload.model), field="frames")
    return {"domain": usual.domain, "height": height, "width": width, "frames": asked.frames, "seconds": seconds}


def _adapted(work: ModelWork, workload: Workload, record: Any, latents: str, amount: Samples) -> ModelWork:
    """The work under the method: a frozen backbone runs forward only; latents made beforehand cost
    their encoders once."""
    usual = facts.coefficients("training")
    if workload.method == "freeze":
        share = usual["head_share"]
        return dataclasses.replace(
            work,
            frozen_macs=work.frozen_macs + (1.0 - share) * work.macs,
            frozen_activations=work.frozen_activations + (1.0 - share) * work.activations,
            macs=share * work.macs,
            score_macs=0.0,
            activations=share * work.activations,
            layers=max(1.0, share * work.layers),
            kept=share * work.kept,
            trained=min(work.trained, share * work.params),
        )
    if latents == "cached":
        once = work.side_macs / max(1.0, amount.epochs)
        work = dataclasses.replace(work, frozen_macs=work.frozen_macs + once, frozen_activations=work.frozen_activations + once / 1500.0)
    if not work.adapter_params_per_rank and work.kind in ("transformer", "window", "dit", "denoiser"):
        width = float(getattr(record, "hidden_size", 0) or 768)
        # two of a block's matrices of 12 h^2 parameters carry an adapter of 2 h a rank: 4 h a block
        return dataclasses.replace(work, adapter_params_per_rank=work.params / (3.0 * width))
    return work


def _global_batch(workload: Workload, usual: UsualTraining, amount: Samples, notes: Notes) -> int:
    """Samples of an optimizer step: the user's or the usual; where data are few, a
    small part of them."""
    if workload.global_batch is not None:
        return int(workload.global_batch)
    wanted = usual.run(workload.task).batch
    if workload.method in ("dreambooth", "textual-inversion"):
        wanted = facts.coefficients("training")["prior_images"] if workload.method == "dreambooth" else 4.0
    most = max(1.0, facts.coefficients("training")["largest_batch_share"] * amount.samples)
    chosen = max(int(2 ** math.floor(math.log2(max(min(wanted, most), 1.0)))), min(int(wanted), 4), workload.micro_batch or 1)
    notes.take("global_batch", chosen, "sample_batch")
    return chosen


def _host_bytes(work: ModelWork, amount: Samples) -> float:
    """RAM that features and edges of a graph take while it is sampled."""
    if work.modality != "graph":
        return 0.0
    graph = trained_graph(work.name)
    known = graph.features_bytes if graph else 0.0
    return max(known, amount.dataset_bytes) * facts.coefficients("training")["graph_memory_factor"]
