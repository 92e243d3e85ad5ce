"""How a trainer computes and what it keeps, as one record that both engines read: the formulas as fields of SetupColumns, the traced engine as
what it builds.

What the words of a job do not say is taken of its stack (`habits`); `assumed` names each such setting with its value, and a job overrules any of them by
writing `name=value` among its flags.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict, Unpack

from rightfit.estimate.setup import KERNELS, assumed_habits, conventions, resolve_setup
from rightfit.facts.records import TransformerArchitecture
from rightfit.physics.columns import AttentionKernel, Dtype, Recompute, SetupColumns
from rightfit.records import dataclass


class SettingWords(TypedDict, total=False):
    """What a job says of its trainer; see `resolve_setup`."""

    method: str
    precision: str
    optimizer: str
    weights_dtype: str
    framework: str
    flags: str
    strategy: str
    attention: str
    recompute: str
    date: str


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """`fields` of SetupColumns that words decide; `assumed` settings of the stack that no word gave, as name=value.

    The properties say the same in the words of PyTorch.
    """

    fields: Mapping[str, float]
    assumed: str = ""

    @property
    def dtype(self) -> str:
        """Type of the stored weights: "bf16", "fp16" or "fp32"."""
        wide = self.fields["linear_weight_bytes"] > 2.0  # wider than half precision
        return "fp32" if wide else Dtype(int(self.fields["compute_dtype"])).name.lower()

    @property
    def recompute(self) -> bool:
        """Whether layers are computed again in the backward pass."""
        return self.fields["recompute"] == Recompute.FULL

    @property
    def attention(self) -> str:
        """Word of transformers for the attention: it has no fused kernel on fake tensors but PyTorch's own, which keeps what any of them keeps."""
        eager = self.fields["attention"] == AttentionKernel.EAGER
        return next(word for word, kernel in KERNELS.items() if kernel == (AttentionKernel.EAGER if eager else AttentionKernel.SDPA))

    @property
    def dropout(self) -> bool:
        """Whether layers drop a part of their outputs."""
        return self.fields["dropout"] > 0

    @property
    def step_temporary_bytes(self) -> float:
        """Scratch of the optimizer's step for each trained parameter: one state's size where all parameters are updated at once (foreach)."""
        return self.fields["optimizer_temporary_bytes"]

    def columns(self, **layout: float) -> SetupColumns:
        """The record as columns of one job, `layout` being degrees of parallelism and sizes of the batch."""
        return SetupColumns.of(**{**self.fields, **layout})


def train_settings(model: TransformerArchitecture, **words: Unpack[SettingWords]) -> TrainSettings:
    """The settings that words mean for a model. Raises InputError for a setting among the flags that has no such value."""
    flags = words.get("flags", "")
    habits = conventions(
        framework=words.get("framework", ""),
        flags=flags,
        method=words.get("method", "full"),
        strategy=words.get("strategy", ""),
        weights=words.get("weights_dtype", ""),
        model=model.name,
        optimizer=words.get("optimizer", ""),
        date=words.get("date", ""),
    )
    return TrainSettings(resolve_setup(model, **words), assumed_habits(habits, flags))
