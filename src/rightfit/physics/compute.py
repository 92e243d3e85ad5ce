"""Seconds that one GPU computes for one micro-batch: operators summed by family, forward and
backward, recomputation, launches.

Everything here depends only on model, device, arithmetic, tensor / context / expert degrees,
micro-batch, sequence and method: a search evaluates it once for each distinct combination.

Source: Williams et al. 2009 (roofline); docs/decisions/speed-time-physics.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rightfit.physics import operators, transformer
from rightfit.physics.columns import Array, Columns, DeviceColumns, Dtype, Method, ModelColumns, Recompute, SetupColumns, ShardStage, column
from rightfit.physics.memory_states import decomposed_output_bytes
from rightfit.physics.operators import RateColumns, attention_s, dtype_bytes, effective_dtype, gemm_s, multiprocessors, sustained_flops
from rightfit.physics.transformer import Matmul, head_matmul, layer_matmuls, trains_weights
from rightfit.records import dataclass


@dataclass(frozen=True, slots=True)
class ComputeTimes(Columns):
    """Seconds of one micro-batch in all layers of the model on one rank (divide by the pipeline
    stages), shape (N,).

    `head_s` is forward and backward of vocabulary product and loss; `host_forward_s`,
    `host_backward_s` what the CPU needs to launch the layers; `forward_s`, `backward_s` what the
    GPU is busy in layers, backward with recomputation.
    """

    gemm_s: Array = column(0, "s")
    attention_s: Array = column(0, "s")
    memory_bound_s: Array = column(0, "s")
    recompute_s: Array = column(0, "s")
    dequantise_s: Array = column(0, "s")
    adapter_s: Array = column(0, "s")
    head_s: Array = column(0, "s")
    forward_s: Array = column(0, "s")
    backward_s: Array = column(0, "s")
    host_forward_s: Array = column(0, "s")
    host_backward_s: Array = column(0, "s")


@dataclass(frozen=True, slots=True)
class _Products:
    """Seconds of the weight products: layers forward, input gradients, weight gradients; head
    forward and both gradients.

    Units: `forward`, `input_gradient`, `weight_gradient`, `head_forward`, `head_backward` [s].
    """

    forward: Array
    input_gradient: Array
    weight_gradient: Array
    head_forward: Array
    head_backward: Array


def local_tokens(setup: SetupColumns) -> Array:
    """Tokens of one micro-batch on one rank -> [tokens]."""
    return setup.micro_batch * setup.real_length / setup.context


def _shape(item: Matmul, setup: SetupColumns, tokens: Array, rates: RateColumns) -> tuple[Array, Array, Array, Array]:
    """(m, n, k, weight matrices) of a product on one rank; m counts the padded rows of
    every local expert."""
    experts = np.asarray(item.experts, dtype=np.float64)
    # With expert parallelism folded over the tensor ranks, experts stay whole and each rank routes
    # its share of the tokens.
    folded = (experts > 0) & (setup.expert > 1)
    split = np.where(folded, 1.0, setup.tensor)
    n = item.n / split if item.split == "n" else item.n
    k = item.k / split if item.split == "k" else item.k
    if not experts.any():
        return tokens * item.tokens_factor, n, k, np.ones(1)
    tokens = tokens / np.where(folded, setup.tensor, 1.0)
    local = np.maximum(experts / setup.expert, 1.0)
    each = tokens * item.tokens_factor / local * rates.expert_imbalance * setup.routing_skew
    padded = np.ceil(each / rates.expert_tile) * rates.expert_tile * local
    return np.where(experts > 0, padded, tokens * item.tokens_factor), n, k, np.where(experts > 0, local, 1.0)


def _products(model: ModelColumns, setup: SetupColumns, device: DeviceColumns, rates: RateColumns) -> _Products:
    tokens = local_tokens(setup)
    rate = sustained_flops(setup, device, rates)
    half = setup.replace(compute_dtype=np.minimum(setup.compute_dtype, Dtype.BF16))
    head_rate = sustained_flops(half, device, rates)
    items = [*layer_matmuls(model), head_matmul(model)]
    common: dict[str, Any] = {
        "bandwidth": operators.achieved_bandwidth(device, rates),
        "num_sms": multiprocessors(device, rates),
        "ramp_k": rates.ramp_k,
        "tile_reuse": (np.ones(1), rates.square_tile_reuse, rates.small_tile_reuse),
        "split_depth": rates.split_depth,
        "element_bytes": dtype_bytes(effective_dtype(device, setup.compute_dtype)),
    }
    layers = [np.zeros(1), np.zeros(1), np.zeros(1)]
    head = [np.zeros(1), np.zeros(1)]
    for item in items:
        m, n, k, matrices = _shape(item, setup, tokens, rates)
        is_head = item.name == "head"
        flops = head_rate if is_head else rate * (rates.expert_gemm if np.any(item.experts) else 1.0)
        flops = flops * np.where((setup.quantized > 0) & (not is_head), rates.quantised_gemm, 1.0)
        forward = item.count * gemm_s(m, n, k, flops=flops, **common)
        inputs = item.count * gemm_s(m, k, n, flops=flops, **common)
        weights = item.count * gemm_s(k * matrices, n, m / matrices, flops=flops, **common)
        if is_head:
            trained = np.where(setup.adapter_params > 0, setup.trained_embeddings, 1.0)
            head = [forward, inputs + weights * trained]
        else:
            layers = [layers[0] + forward, layers[1] + inputs, layers[2] + weights]
    return _Products(*layers, *head)


def _adapter_places(setup: SetupColumns) -> dict[str, Array]:
    """Which products have an adapter, by the names that `transformer` has for them."""
    names = ("query", "key_value", "output", "up", "down", "experts")
    return {name: getattr(setup, f"adapter_on_{name}") for name in names}


def _adapter_widths(model: ModelColumns, setup: SetupColumns) -> Array:
    """Inputs plus outputs of the adapters that one token passes through: all dense ones,
    `experts_per_token` copies of routed ones."""
    return transformer.adapter_parameters(
        model.replace(num_experts=np.minimum(model.experts_per_token, model.num_experts)),
        rank=np.ones(1),
        **_adapter_places(setup),
    )


def _adapters(model: ModelColumns, setup: SetupColumns, device: DeviceColumns, rates: RateColumns, tokens: Array) -> tuple[Array, Array]:
    """Forward and backward seconds of low-rank adapters: thin products that move their inputs and
    outputs through memory."""
    widths = _adapter_widths(model, setup) / setup.tensor
    passes = rates.adapter_passes + 2.0 * (setup.adapter_dropout > 0)
    moved = tokens * widths * passes * setup.activation_bytes / operators.achieved_bandwidth(device, rates)
    low_rank = setup.adapter_rank > 0
    return np.where(low_rank, moved, 0.0), np.where(low_rank, 2.0 * moved, 0.0)


def _decomposed(
    model: ModelColumns, setup: SetupColumns, device: DeviceColumns, rates: RateColumns, products: _Products, tokens: Array
) -> tuple[Array, Array]:
    """Further forward and backward seconds of DoRA, all layers: the norm of every adapted matrix is
    taken anew in each pass, over the base with the product of the adapter added, and the base is
    multiplied a second time (but for releases since 0.14 without dropout, which few scripts are).
    Outputs of base and adapter are scaled by the magnitudes, which are kept in fp32, element by
    element: what passes through memory for them is counted for each element of an output.

    Source: Liu et al. 2024 (DoRA), section 4; PEFT (tuners/lora/dora.py: get_weight_norm, forward).
    """
    carried = transformer.adapted_parameters(
        model,
        **_adapter_places(setup),
    )
    norms = carried / setup.tensor * rates.decomposed_bytes / operators.achieved_bandwidth(device, rates)
    share = np.minimum(carried / np.maximum(transformer.linear_parameters(model), 1.0), 1.0)
    expanded = share * operators.dequantise_s(model, setup, device, rates)
    is_decomposed = setup.method == Method.DORA
    elements = tokens * model.num_layers * decomposed_output_bytes(model, setup) / (2.0 * setup.activation_bytes)
    scaled = elements / operators.achieved_bandwidth(device, rates)
    forward = norms + expanded + share * products.forward + scaled * rates.decomposed_forward_bytes
    backward = share * products.input_gradient + scaled * rates.decomposed_backward_bytes
    return np.where(is_decomposed, forward, 0.0), np.where(is_decomposed, backward, 0.0)


def _fp8_casts(model: ModelColumns, setup: SetupColumns, device: DeviceColumns, rates: RateColumns, tokens: Array) -> Array:
    """Seconds of quantising the inputs of fp8 products in a forward pass, all layers."""
    width = model.num_layers * (3.0 * model.hidden_size + model.intermediate_size / setup.tensor)
    moved = tokens * width * rates.fp8_overhead_passes * 2.0
    is_fp8 = effective_dtype(device, setup.compute_dtype) == Dtype.FP8
    return np.where(is_fp8, moved / operators.achieved_bandwidth(device, rates), 0.0)


def _vision_s(model: ModelColumns, setup: SetupColumns, device: DeviceColumns, rates: RateColumns) -> Array:
    """Forward seconds of the vision tower for one image a sample."""
    flops = 2.0 * model.params_vision * model.image_tokens * setup.micro_batch
    return flops / np.maximum(rates.vision_quality * sustained_flops(setup, device, rates) * setup.tensor, 1.0)


def host_s(model: ModelColumns, setup: SetupColumns, rates: RateColumns) -> tuple[Array, Array]:
    """CPU seconds to launch the forward and the backward kernels of all layers once -> [s], [s]."""
    modules = setup.adapter_modules * rates.adapter_cpu_s
    experts = model.num_moe_layers * model.num_experts / setup.expert * rates.expert_cpu_s
    units = model.num_layers + setup.adapter_modules * rates.adapter_units
    gathers = np.where(setup.shard_stage >= ShardStage.WEIGHTS, units * rates.fsdp_layer_cpu_s, 0.0)
    forward = model.num_layers * rates.layer_forward_cpu_s + modules + experts + gathers
    backward = model.num_layers * rates.layer_forward_cpu_s * rates.backward_cpu_ratio + modules + experts + gathers
    return forward, backward


def compute_times(model: ModelColumns, setup: SetupColumns, device: DeviceColumns, rates: RateColumns) -> ComputeTimes:
    """Seconds of one micro-batch by family of operators, shape (N,)."""
    tokens = local_tokens(setup)
    products = _products(model, setup, device, rates)
    attention = attention_s(model, setup, device, rates)
    vision = _vision_s(model, setup, device, rates)
    casts = operators.weight_cast_s(model, setup, device, rates)
    moved = operators.layers_forward_s(model, setup, device, rates, tokens=tokens)
    moved_forward = moved + casts + _fp8_casts(model, setup, device, rates, tokens)
    moved_backward = moved * rates.backward_passes + casts * trains_weights(setup) + _fp8_casts(model, setup, device, rates, tokens)
    expand = operators.dequantise_s(model, setup, device, rates)
    search = operators.outlier_search_s(model, setup, rates)
    open_forward = np.where(search > 0, search, expand)  # forward, LLM.int8() multiplies 8-bit weights as they are
    adapter_forward, adapter_backward = _adapters(model, setup, device, rates, tokens)
    if np.any(setup.method == Method.DORA):
        more_forward, more_backward = _decomposed(model, setup, device, rates, products, tokens)
        adapter_forward, adapter_backward = adapter_forward + more_forward, adapter_backward + more_backward
    gemm_forward = products.forward + vision
    gemm_backward = products.input_gradient + vision + trains_weights(setup) * products.weight_gradient
    forward = gemm_forward + attention.forward_s + moved_forward + open_forward + adapter_forward
    again_full = forward
    again_selective = attention.forward_s + rates.selective_share * (gemm_forward + moved_forward)
    again = np.where(setup.recompute == Recompute.FULL, again_full, np.where(setup.recompute == Recompute.SELECTIVE, again_selective, 0.0))
    host_forward, host_backward = host_s(model, setup, rates)
    return ComputeTimes(
        gemm_s=gemm_forward + gemm_backward,
        attention_s=attention.forward_s + attention.backward_s,
        memory_bound_s=moved_forward + moved_backward,
        recompute_s=again,
        dequantise_s=open_forward + expand,
        adapter_s=adapter_forward + adapter_backward,
        head_s=products.head_forward + products.head_backward + operators.loss_s(model, setup, device, rates, tokens=tokens),
        forward_s=forward,
        backward_s=gemm_backward + attention.backward_s + moved_backward + expand + adapter_backward + again,
        host_forward_s=host_forward,
        host_backward_s=host_backward + np.where(setup.recompute == Recompute.FULL, host_forward, 0.0),
    )
