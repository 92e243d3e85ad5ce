"""Work of a model of the user's own (facts.own), for one forward pass and for one training sample, in the counts that named models have."""

from __future__ import annotations

from rightfit.estimate.forward_records import ForwardWork, Stage
from rightfit.estimate.model_work import KEPT, ModelWork
from rightfit.facts.constants import constants
from rightfit.facts.records import TracedModel

__all__ = ["traced_forward", "traced_training"]

#: What bundled records of vision models count as one: products and outputs of attention among those of layers.
_PICTURES = ("vision", "video")
_ATTENDING = ("transformer", "window")
_FP32_BYTES = 4.0


def _macs_and_elements(record: TracedModel) -> tuple[float, float, float]:
    """Multiply-adds, those of scores apart, and written elements."""
    if record.modality in _PICTURES:
        return record.macs + record.score_macs, 0.0, record.activations + record.score_elements
    return record.macs, record.score_macs, record.activations


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
    """Share of the arithmetic whose weights learn: two passes backward for one forward, less where a part is frozen."""
    if not record.backward_macs or record.params_trainable > constants("training_work")["traced_trainable"] * record.params_total:
        return 1.0
    return min(1.0, record.backward_macs / (2.0 * record.macs))


def _kept(record: TracedModel, written: float) -> float:
    """Elements that stay for the backward pass. With attention at least as many as for named models: autocast keeps norms and residual sums
    in fp32, which a trace in one precision cannot show."""
    usual = KEPT.get(record.kind, 2.0) * written
    traced = record.kept_bytes / _FP32_BYTES
    return max(traced, usual) if record.kind in _ATTENDING or not traced else traced


def _modality(record: TracedModel) -> str:
    if record.modality == "vision":
        return "segmentation" if record.output == "map" else "classification"
    named = {"video": "video", "audio": "speech", "text": "text", "time-series": "time-series"}
    return named.get(record.modality, "recommendation" if record.kind == "recommender" and record.params_embedding else "tabular")
