"""LoRA adapters served beside one another over the same weights.

Source: Chen et al. 2024 (Punica, MLSys) and Sheng et al. 2024 (S-LoRA, MLSys); Hu et al. 2021 (LoRA) for the sizes.
"""

from __future__ import annotations

import numpy as np

from rightfit.physics import parameters
from rightfit.physics.columns import Array, ModelColumns

_ONE, _TWO, _NONE = np.ones(1), np.full(1, 2.0), np.zeros(1)
#: Matrices of a layer that an adapter of all linear layers changes: q, k, v, o, gate, up, down.
ADAPTED_MATRICES = 7.0


def adapter_bytes(model: ModelColumns, *, rank: Array, bytes_each: float = 2.0) -> Array:
    """One adapter of all linear layers.

    `rank` [1], `bytes_each` [bytes/parameter] -> [bytes]. Llama-3-8B at rank 16: 41.9 M parameters, 84 MB. Of experts only shared ones are
    adapted.
    """
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
    """Different adapters that `batch` sequences use when each is as likely: A (1 - (1 - 1 / A)^B), (N,).

    `adapters` [adapters], `batch` [sequences] -> [adapters].
    """
    return np.where(adapters > 0, adapters * -np.expm1(batch * np.log1p(-1.0 / np.maximum(adapters, 1.0 + 1e-9))), 0.0)


def adapter_step_s(
    model: ModelColumns, *, adapters: Array, rank: Array, batch: Array, kernel_s: Array, bandwidth: Array, devices: Array
) -> Array:
    """What adapters add to a step.

    `adapters` [adapters] served at once, `rank` [1], `batch` [sequences], `kernel_s` [s] of the small products of one adapted matrix,
    `bandwidth` [bytes/s] of one device as reached, `devices` [GPUs] that share each layer -> [s].
    The longer of launching all small products and of reading the adapters that the batch touches.
    Known error: Punica's 2 ms a token on Llama-2-7B is what `kernel_s` was taken from; engines that fuse the products of a layer need half
    of it.
    """
    launching = model.num_layers * ADAPTED_MATRICES * kernel_s
    reading = adapters_touched(adapters, batch=batch) * adapter_bytes(model, rank=rank) / (bandwidth * devices)
    return np.where(adapters > 0, np.maximum(launching, reading), 0.0)
