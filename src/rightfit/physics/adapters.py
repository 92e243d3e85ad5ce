"""LoRA adapters served beside one another over the same weights (Chen et al., Punica, MLSys 2024; Sheng et al., S-LoRA, MLSys 2024)."""

from __future__ import annotations

import numpy as np

from rightfit.physics import parameters
from rightfit.physics.columns import Array, ModelColumns

_ONE, _TWO, _NONE = np.ones(1), np.full(1, 2.0), np.zeros(1)
#: Matrices of a layer that an adapter of all linear layers changes: q, k, v, o, gate, up, down.
ADAPTED_MATRICES = 7.0


def adapter_bytes(model: ModelColumns, *, rank: Array, bytes_each: float = 2.0) -> Array:
    """One adapter of all linear layers [bytes]; rank: (N,) [1]. Llama-3-8B at rank 16: 41.9 M parameters, 84 MB. Of experts only shared ones are adapted."""
    count = parameters.adapter_parameters(
        model,
        rank=rank,
        query=_ONE,
        key_value=_TWO,
        output=_ONE,
        up=np.where(parameters.is_gated(model), 2.0, 1.0),
        down=_ONE,
        experts=_NONE,
    )
    return count * bytes_each


def adapters_touched(adapters: Array, *, batch: Array) -> Array:
    """Different adapters that `batch` sequences use when each is as likely: A (1 - (1 - 1 / A)^B), (N,)."""
    return np.where(adapters > 0, adapters * -np.expm1(batch * np.log1p(-1.0 / np.maximum(adapters, 1.0 + 1e-9))), 0.0)


def adapter_step_s(
    model: ModelColumns, *, adapters: Array, rank: Array, batch: Array, kernel_s: Array, bandwidth: Array, devices: Array
) -> Array:
    """What adapters add to a step [s], (N,).

    adapters: (N,) served at once; batch: (N,) sequences; kernel_s: (N,) [s] of the small products of one adapted matrix; bandwidth: (N,) [bytes/s] of one
    device as reached; devices: (N,) that share each layer. The longer of launching all small products and of reading the adapters that the batch touches.
    Known error: Punica's 2 ms a token on Llama-2-7B is what `kernel_s` was taken from; engines that fuse the products of a layer need half of it.
    """
    launching = model.num_layers * ADAPTED_MATRICES * kernel_s
    reading = adapters_touched(adapters, batch=batch) * adapter_bytes(model, rank=rank) / (bandwidth * devices)
    return np.where(adapters > 0, np.maximum(launching, reading), 0.0)
