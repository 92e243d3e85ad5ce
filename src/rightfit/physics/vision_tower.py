"""Work of a vision tower before a prompt: images as patches through a transformer that is not causal.

Source: Dosovitskiy et al. 2021 (ViT); Kaplan et al. 2020 for two operations a parameter and position.
"""

from __future__ import annotations

import numpy as np

from rightfit.physics.columns import Array, ModelColumns

#: Tensors of the width of a layer that are live at once: residual, queries, keys, values, and the four of the feed-forward block.
_LIVE = 12.0


def tower_flops(model: ModelColumns, *, patches: Array) -> Array:
    """Operations of one image.

    `patches` [tokens] of it -> [FLOP]. 2 x parameters x patches + 4 x layers x width x patches^2 (each image attends to itself alone).
    Known error: towers with windows (Qwen2.5-VL) attend to less, up to a third too many for images of several megapixels.
    """
    scores = 4.0 * model.vision_layers * model.vision_hidden * patches**2
    return 2.0 * model.params_vision * patches + scores


def tower_s(model: ModelColumns, *, patches: Array, images: Array, flops_per_s: Array) -> Array:
    """Seconds before the prompt can be read.

    `patches` [tokens] of an image, `images` [1] of a request, `flops_per_s` [FLOP/s] reached by the devices that share the tower
    -> [s].
    """
    return np.asarray(images * tower_flops(model, patches=patches) / np.maximum(flops_per_s, 1.0))


def tower_bytes(model: ModelColumns, *, patches: Array, bytes_each: float = 2.0) -> Array:
    """Activations while one image passes the tower.

    `patches` [tokens], `bytes_each` [bytes/element] -> [bytes]; attention is taken as fused.
    """
    return _LIVE * patches * model.vision_hidden * bytes_each
