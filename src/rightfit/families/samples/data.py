"""How many samples there are, how large they are, and what loading them takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rightfit import facts
from rightfit.errors import ContradictionError, InputError
from rightfit.messages import Message
from rightfit.records import dataclass
from rightfit.search.request_checks import Notes
from rightfit.search.sources import check_storage
from rightfit.search.training.wish import Amount

if TYPE_CHECKING:
    from rightfit.estimation.data_path import DataLoad
    from rightfit.estimation.pass_records import ModelWork
    from rightfit.facts.trained_networks import UsualTraining
    from rightfit.workload import Workload

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
        epochs = _usual_epochs(workload, usual, samples)
        notes.take("epochs", epochs, "sample_epochs")
    if samples * epochs < 1.0:
        raise InputError(Message("families.less_than_a_sample", epochs=epochs, samples=samples), field="epochs")
    return Samples(samples, size, epochs, usual.unit)


def _usual_epochs(workload: Workload, usual: UsualTraining, samples: float) -> float:
    figures = facts.coefficients("training")
    if workload.method == "dreambooth":
        return max(1.0, round(figures["dreambooth_steps"] / samples))
    if workload.method == "textual-inversion":
        return max(1.0, round(figures["inversion_steps"] * 4.0 / samples))
    return usual.run(workload.task).epochs


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
        samples = max(1.0, count * 3600.0 / sample["seconds"])
        notes.take("data_samples", samples, "samples_from_hours", hours=count, each_s=sample["seconds"])
        return samples, samples * each
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
    check_storage(workload.storage or "")
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
