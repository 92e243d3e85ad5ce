"""What hardware and software achieve of the data sheet: the coefficient columns that the
time physics reads.

The values live in facts/data (coefficients/compute.toml, coefficients/network.toml,
architecture_rates.csv, speed_frameworks.csv) with their sources; `estimate.speed.rate_columns`
gathers them for each row. Physics holds none of them.

Time of dense matrix products: a roofline whose compute roof knows tiles, waves, depth,
power and software.

A product C[m, n] = A[m, k] B[k, n] is cut into tiles that the multiprocessors take in waves; the
last wave is partly idle (Kirk & Hwu; NVIDIA "Matrix multiplication background user's guide"), each
tile pays a fixed depth for filling and draining its pipeline, and a shallow grid is split along k.
Known error: 5-10 % on large shapes (the library's kernel choice is not modelled), 20-30 % on grids
of a few tiles.

Source: NVIDIA, Matrix Multiplication Background User's Guide; docs/decisions/speed-time-physics.md.

Time of the operators that move bytes instead of multiplying: norms, residuals, activations,
casts, loss, update.

Each is bytes moved / (fraction x memory bandwidth). A "pass" is one read or one write of the
operator's tensor; how many an implementation makes (fused, compiled, eager) is a coefficient. The
bytes of a pass follow the activation dtype.

Source: accounting of bytes; Williams et al. 2009 (roofline); docs/decisions/speed-time-physics.md.

Time of the attention core: softmax(Q K^T) V, forward and backward, for unfused and fused kernels.

Fused kernels (FlashAttention 1-3, cuDNN, memory-efficient) are compute bound: time = FLOPs of the
needed pairs / (fraction x peak), the fraction falling for short sequences and small heads; their
backward recomputes the scores, 2.5 x the forward FLOPs (Dao 2023). Unfused attention runs batched
products over the full square and moves the score matrix through memory several times.

Source: Dao et al. 2022 (FlashAttention), Dao 2023 (FlashAttention-2);
docs/decisions/speed-time-physics.md.
"""

from __future__ import annotations

import numpy as np

from rightfit.physics.columns import (
    Array,
    AttentionKernel,
    AttentionKind,
    Columns,
    DeviceColumns,
    Dtype,
    Kind,
    ModelColumns,
    Norm,
    SetupColumns,
    ShardStage,
    column,
)
from rightfit.physics.transformer import (
    attention_layers,
    attention_pairs,
    attention_width,
    has_gate,
    head_share,
    num_moe_layers,
    trains_weights,
)
from rightfit.records import dataclass
from rightfit.units import FP32_BYTES


@dataclass(frozen=True, slots=True)
class RateColumns(Columns):
    """Coefficients of each row. Fractions are of the data sheet's dense peak or bandwidth.

    Accelerator: `gemm_fraction` of peak reached by a very large matrix product; `vector_fraction`
    the same for fp32 without tensor cores; `joules_per_flop` bounds the rate by the card's power;
    `ramp_k` is the depth [elements] lost to filling and draining a tile; `bandwidth_fraction` of
    memory bandwidth for streaming kernels; `flash_forward`, `flash_backward` fraction of peak of a
    fused attention kernel of this stack; `eager_attention` the same for the batched products of
    unfused attention.

    Software: `gemm_quality` multiplies the reachable rate (stalls between kernels, clocks, fused
    epilogues); `layer_forward_cpu_s` host time to launch one layer forward, `backward_cpu_ratio`
    times that backward; `adapter_cpu_s` that of one adapter module; `fsdp_layer_cpu_s` that of
    gathering one sharded unit, `adapter_units` of which each adapter module adds;
    `outlier_search_s` of one product with 8-bit weights; `step_cpu_s` per micro-batch,
    `update_cpu_s` per optimizer step; `overlap` the share of compute time that can hide
    communication; `norm_passes` ... are memory passes of an operator over its tensor, `pass_factor`
    times what counting finds.

    Links: fractions of the data sheet that collectives reach; `socket_fraction` is what remains of
    it when more than four PCIe cards, hence two processor sockets, are in one ring; `straggler`
    slows a step per doubling of nodes, `local_straggler` per doubling of GPUs in one node (shared
    processors, power and cooling), `card_straggler` as much again for PCIe cards.

    Shapes of operators, not fitted (coefficients/operators.toml): rows of a fused attention
    kernel's tile, the head that its fraction is quoted for and how smaller ones fall off; passes of
    dropout, of state-space mixers, routed tokens and adapters; tokens of an expert's tile; quality
    of a vision tower's products; `..._reuse` what smaller tiles than 256 x 128 reach; depth of a
    split product; multiprocessors where unknown; cards on one processor; parameters that a host's
    Adam updates; how sharply the slower of host and device takes over.
    """

    gemm_fraction: Array = column(1, "1")
    vector_fraction: Array = column(1, "1")
    joules_per_flop: Array = column(0.0, "J/FLOP")
    fp32_energy_ratio: Array = column(1, "1")
    ramp_k: Array = column(0, "elements")
    bandwidth_fraction: Array = column(1, "1")
    flash_forward: Array = column(1, "1")
    flash_backward: Array = column(1, "1")
    eager_attention: Array = column(1, "1")
    gemm_quality: Array = column(1.0, "1")
    layer_forward_cpu_s: Array = column(0, "s")
    backward_cpu_ratio: Array = column(1.0, "1")
    adapter_cpu_s: Array = column(0, "s")
    fsdp_layer_cpu_s: Array = column(0, "s")
    step_cpu_s: Array = column(0, "s")
    update_cpu_s: Array = column(0, "s")
    overlap: Array = column(1, "1")
    regather_overlap: Array = column(0.0, "1")
    pass_factor: Array = column(1.0, "1")
    norm_passes: Array = column(2, "1")
    rope_passes: Array = column(2, "1")
    residual_passes: Array = column(1, "1")
    activation_passes: Array = column(1, "1")
    softmax_passes: Array = column(1, "1")
    backward_passes: Array = column(2, "1")
    loss_bytes: Array = column(0, "bytes/logit")
    update_passes: Array = column(1, "1")
    accumulate_passes: Array = column(1, "1")
    adapter_units: Array = column(0, "1")
    outlier_search_s: Array = column(0, "s")
    dequantise_fraction: Array = column(1, "1")
    quantised_gemm: Array = column(1.0, "1")
    expert_gemm: Array = column(1, "1")
    expert_imbalance: Array = column(1, "1")
    expert_cpu_s: Array = column(0, "s")
    fp8_overhead_passes: Array = column(2, "1")
    weight_sync_bandwidth: Array = column(1, "bytes/s")
    weight_sync_s: Array = column(0, "s")
    selective_share: Array = column(1, "1")
    switch_fraction: Array = column(1, "1")
    mesh_fraction: Array = column(1, "1")
    pcie_fraction: Array = column(1, "1")
    socket_fraction: Array = column(1, "1")
    inter_fraction: Array = column(1, "1")
    tensor_overlap: Array = column(0, "1")
    expert_overlap: Array = column(0, "1")
    context_overlap: Array = column(1, "1")
    pipeline_overlap: Array = column(1, "1")
    straggler: Array = column(0.0, "1")
    local_straggler: Array = column(0.0, "1")
    card_straggler: Array = column(0.0, "1")
    attention_tile_rows: Array = column(0, "tokens")
    reference_head: Array = column(1, "elements")
    head_exponent: Array = column(0, "1")
    score_dropout_passes: Array = column(0, "1")
    dropout_passes: Array = column(0, "1")
    mixer_passes: Array = column(0, "1")
    routed_passes: Array = column(0, "1")
    adapter_passes: Array = column(0, "1")
    decomposed_bytes: Array = column(0, "bytes/parameter")
    decomposed_forward_bytes: Array = column(0, "bytes/element")
    decomposed_backward_bytes: Array = column(0, "bytes/element")
    expert_tile: Array = column(1, "tokens")
    vision_quality: Array = column(1, "1")
    square_tile_reuse: Array = column(1, "1")
    small_tile_reuse: Array = column(1, "1")
    split_depth: Array = column(1, "elements")
    default_multiprocessors: Array = column(1, "1")
    cards_per_socket: Array = column(1, "GPUs")
    host_params_per_s: Array = column(1, "parameters/s")
    queue_sharpness: Array = column(1, "1")


#: Tile shapes that vendor libraries offer (NVIDIA's guide): rows, columns.
TILES = ((128.0, 256.0), (128.0, 128.0), (64.0, 64.0))


def dtype_bytes(dtype: Array) -> Array:
    """Bytes of one operand element: 4 for fp32 and tf32, 1 for fp8, else 2.

    `dtype` [code] -> [bytes/element].
    """
    return np.where(dtype <= Dtype.TF32, FP32_BYTES, np.where(dtype == Dtype.FP8, 1.0, 2.0))


def effective_dtype(device: DeviceColumns, dtype: Array) -> Array:
    """The arithmetic that really runs where the device lacks the one asked for: fp8 -> bf16 ->
    fp16 -> fp32, tf32 -> fp32.

    `dtype` [code] -> [code].
    """
    has = [device.fp32_flops > 0, device.tf32_flops > 0, device.fp16_flops > 0, device.bf16_flops > 0, device.fp8_flops > 0]
    out = np.where((dtype == Dtype.FP8) & ~has[4], float(Dtype.BF16), dtype)
    # bf16 without hardware support is emulated through fp32 units.
    out = np.where(
        (out == Dtype.BF16) & ~has[3], np.where(has[2] & (device.compute_capability == 0), float(Dtype.FP16), float(Dtype.FP32)), out
    )
    out = np.where((out == Dtype.FP16) & ~has[2], np.where(has[3], float(Dtype.BF16), float(Dtype.FP32)), out)
    out = np.where((out == Dtype.TF32) & ~has[1], float(Dtype.FP32), out)
    return np.where((out == Dtype.FP32) & ~has[0], np.where(has[3], float(Dtype.BF16), float(Dtype.FP16)), out)


def sustained_flops(setup: SetupColumns, device: DeviceColumns, rates: RateColumns) -> Array:
    """Rate of an endless product in the setup's arithmetic -> [FLOP/s].

    min(fraction x peak, power / energy per FLOP) x software quality. Energy per FLOP is of 16-bit
    tensor arithmetic; tf32 takes twice, fp8 half, fp32 vector units `fp32_energy_ratio` times.
    """
    dtype = effective_dtype(device, setup.compute_dtype)
    peak = device.peak_flops(dtype)
    fraction = np.where(dtype == Dtype.FP32, rates.vector_fraction, rates.gemm_fraction)
    wide = np.where(dtype == Dtype.FP32, rates.fp32_energy_ratio, np.where(dtype == Dtype.TF32, 2.0, 1.0))
    energy = rates.joules_per_flop * np.where(dtype == Dtype.FP8, 0.5, wide)
    with np.errstate(divide="ignore", invalid="ignore"):
        power_rate = np.where((energy > 0) & (device.tdp_w > 0), device.tdp_w / energy, np.inf)
    reachable = fraction * peak
    # A soft minimum: close to its power limit a card already lowers its clock.
    smooth = (reachable**-4.0 + power_rate**-4.0) ** -0.25
    # fp32 products are so slow that software makes no difference to them.
    return np.asarray(smooth * np.where(dtype == Dtype.FP32, 1.0, rates.gemm_quality))


def multiprocessors(device: DeviceColumns, rates: RateColumns) -> Array:
    """Number of parallel tile units -> [1]."""
    return np.where(device.num_sms > 0, device.num_sms, rates.default_multiprocessors)


def gemm_s(
    m: Array,
    n: Array,
    k: Array,
    *,
    flops: Array,
    bandwidth: Array,
    num_sms: Array,
    ramp_k: Array,
    element_bytes: Array,
    tile_reuse: tuple[Array, Array, Array],
    split_depth: Array,
) -> Array:
    """Seconds of one product, any broadcastable shapes.

    `m`, `n`, `k` [elements], `flops` [FLOP/s] sustained of an endless product, `bandwidth`
    [bytes/s] achieved, `num_sms` [1] tile units, `ramp_k` [elements] of depth lost per tile,
    `element_bytes` [bytes/element] of all three matrices, `tile_reuse` [1] the share of the full
    rate that each tile's data reuse allows, `split_depth` [elements] of each part of a product that
    is split -> [s]. max(compute, traffic), compute = best tile of waves x tile flops x (k + ramp) /
    (rate per unit).
    """
    best: Array | None = None
    per_unit = flops / num_sms
    for (rows, columns), reuse in zip(TILES, tile_reuse, strict=True):
        tiles = np.ceil(m / rows) * np.ceil(n / columns)
        splits = np.clip(np.floor(num_sms / np.maximum(tiles, 1.0)), 1.0, np.maximum(k / split_depth, 1.0))
        waves = np.ceil(tiles * splits / num_sms)
        seconds = waves * (2.0 * rows * columns / reuse) * (k / splits + ramp_k) / per_unit
        best = seconds if best is None else np.minimum(best, seconds)
    assert best is not None
    traffic = (m * k + k * n + m * n) * element_bytes / bandwidth
    return np.where((m > 0) & (n > 0) & (k > 0), np.maximum(best, traffic), 0.0)


def achieved_bandwidth(device: DeviceColumns, rates: RateColumns) -> Array:
    """Streaming bandwidth -> [bytes/s].

    Source: accounting of bytes; Williams et al. 2009 (roofline);
    docs/decisions/speed-time-physics.md.
    """
    return np.maximum(device.memory_bandwidth * rates.bandwidth_fraction, 1.0)


def uses_dropout(model: ModelColumns, setup: SetupColumns) -> Array:
    """1 where dropout runs: stated, or an encoder or encoder-decoder (BERT, T5: 0.1 by
    default) -> [flag].

    Source: accounting of bytes; Williams et al. 2009 (roofline);
    docs/decisions/speed-time-physics.md.
    """
    usual = (model.kind == Kind.ENCODER) | (model.kind == Kind.ENCODER_DECODER)
    return np.where((setup.dropout > 0) | usual, 1.0, 0.0)


def token_bytes(model: ModelColumns, setup: SetupColumns, rates: RateColumns) -> Array:
    """Bytes that one token moves through the memory-bound operators of all layers in a forward
    pass -> [bytes/token].

    Replicated over the tensor group unless sequence-parallel, at the width of the residual stream:
    norms, residual, dropout; divided by it, at the width of activations: rotary embedding,
    activation function.

    Source: accounting of bytes; Williams et al. 2009 (roofline);
    docs/decisions/speed-time-physics.md.
    """
    full, sliding, linear = attention_layers(model)
    layers = model.num_layers
    shared_by = np.where(setup.sequence_parallel > 0, setup.tensor, 1.0)
    # Layer normalisation has been one fused kernel since 2018; only root-mean-square norms are
    # written out in eager code.
    norms = np.where(model.norm == Norm.RMSNORM, rates.norm_passes, np.minimum(rates.norm_passes, 2.0))
    dropout = rates.dropout_passes * uses_dropout(model, setup)
    hidden = layers * model.hidden_size * (2.0 * norms + 2.0 * rates.residual_passes + 2.0 * dropout) / shared_by
    heads = (model.num_heads + model.num_kv_heads) * model.head_dim
    rotary = np.where((model.learned_positions > 0) | (model.kind == Kind.ENCODER), 2.0, rates.rope_passes + 2.0)
    attention = (full + sliding) * heads * (rotary + model.qk_norm * norms) / setup.tensor
    mixer = linear * 2.0 * model.hidden_size * rates.mixer_passes / setup.tensor
    inner = attention + mixer + _feed_forward_elements(model, setup, rates)
    # k-bit preparation upcasts the norms, and with them the stream between layers.
    wide = np.where((setup.upcast_norms > 0) & (setup.quantized > 0), np.maximum(setup.residual_bytes, 2.0), setup.activation_bytes)
    return rates.pass_factor * (hidden * wide + inner * setup.activation_bytes)


def _feed_forward_elements(model: ModelColumns, setup: SetupColumns, rates: RateColumns) -> Array:
    gate = has_gate(model)
    # Ungated: one read, one write. Gated and eager: activation (2 passes), then product with
    # the other half (3).
    passes = np.where(gate > 0, rates.activation_passes, 2.0)
    dense = (model.num_layers - model.num_moe_layers) * model.intermediate_size
    expert = model.moe_intermediate_size * (model.experts_per_token + model.num_shared_experts)
    routed = rates.routed_passes * model.hidden_size * model.experts_per_token
    return (passes * (dense + model.num_moe_layers * expert) + model.num_moe_layers * routed) / setup.tensor


def layers_forward_s(model: ModelColumns, setup: SetupColumns, device: DeviceColumns, rates: RateColumns, *, tokens: Array) -> Array:
    """Forward seconds of the memory-bound operators of all layers for `tokens` tokens per rank.

    `tokens` [tokens] -> [s].

    Source: accounting of bytes; Williams et al. 2009 (roofline);
    docs/decisions/speed-time-physics.md.
    """
    return tokens * token_bytes(model, setup, rates) / achieved_bandwidth(device, rates)


def weight_cast_s(model: ModelColumns, setup: SetupColumns, device: DeviceColumns, rates: RateColumns) -> Array:
    """Seconds of casting fp32 weights to the compute dtype under autocast, per forward pass of one
    micro-batch, all layers of a rank.

    -> [s].

    Source: accounting of bytes; Williams et al. 2009 (roofline);
    docs/decisions/speed-time-physics.md.
    """
    body = np.maximum(model.params_total - model.params_embedding, 0.0) / (setup.tensor * np.maximum(setup.expert, 1.0))
    moved = body * (setup.other_weight_bytes + 2.0)
    casts = (setup.autocast > 0) & (setup.other_weight_bytes > 2.0) & (setup.compute_dtype > 1)
    return np.where(casts, moved / achieved_bandwidth(device, rates), 0.0)


def dequantise_s(model: ModelColumns, setup: SetupColumns, device: DeviceColumns, rates: RateColumns) -> Array:
    """Seconds to expand every frozen quantised weight once to 16 bit, all layers of a rank -> [s].

    `dequantise_bytes` of the setup says what the kernel moves per parameter; not stated: read
    packed, write 2 bytes.

    Source: accounting of bytes; Williams et al. 2009 (roofline);
    docs/decisions/speed-time-physics.md.
    """
    body = np.maximum(model.params_total - model.params_embedding, 0.0) / setup.tensor
    moved = body * np.where(setup.dequantise_bytes > 0, setup.dequantise_bytes, setup.linear_weight_bytes + 2.0)
    return np.where(setup.quantized > 0, moved / (achieved_bandwidth(device, rates) * rates.dequantise_fraction), 0.0)


def loss_s(model: ModelColumns, setup: SetupColumns, device: DeviceColumns, rates: RateColumns, *, tokens: Array) -> Array:
    """Forward and backward seconds of the loss over the vocabulary: `loss_bytes` per logit.

    `tokens` [tokens] -> [s].

    Source: accounting of bytes; Williams et al. 2009 (roofline);
    docs/decisions/speed-time-physics.md.
    """
    logits = tokens * model.vocab_size * head_share(model) / setup.tensor
    return logits * rates.loss_bytes / achieved_bandwidth(device, rates)


def update_s(setup: SetupColumns, device: DeviceColumns, rates: RateColumns, *, trained_params: Array) -> Array:
    """Seconds of the optimizer update of `trained_params` parameters on one GPU.

    `trained_params` [parameters] -> [s].
    Reads the gradient, reads and writes state and master weights, writes the weight; gradient
    clipping reads the gradient once more.

    Source: accounting of bytes; Williams et al. 2009 (roofline);
    docs/decisions/speed-time-physics.md.
    """
    state = 2.0 * setup.optimizer_bytes + 2.0 * setup.master_bytes
    moved = trained_params * (2.0 * setup.gradient_bytes + state + 2.0 * setup.other_weight_bytes)
    return moved * rates.update_passes / achieved_bandwidth(device, rates)


def accumulate_s(setup: SetupColumns, device: DeviceColumns, rates: RateColumns, *, trained_params: Array) -> Array:
    """Seconds per micro-batch of adding `trained_params` gradients of a rank to those of
    earlier micro-batches.

    `trained_params` [parameters] -> [s].
    Read the new, read and write the sum, unless the weight-gradient product adds by itself. Nothing
    with one micro-batch, and little where gradients are sharded each micro-batch (stages 2, 3).

    Source: accounting of bytes; Williams et al. 2009 (roofline);
    docs/decisions/speed-time-physics.md.
    """
    width = np.maximum(setup.gradient_bytes, setup.accumulation_bytes)
    moved = trained_params * rates.accumulate_passes * width / achieved_bandwidth(device, rates)
    return np.where((setup.grad_accum > 1) & (setup.shard_stage < ShardStage.GRADIENTS), moved, 0.0)


def trained_params(model: ModelColumns, setup: SetupColumns) -> Array:
    """Trained parameters of the whole model -> [parameters].

    Source: accounting of bytes; Williams et al. 2009 (roofline);
    docs/decisions/speed-time-physics.md.
    """
    full = trains_weights(setup) > 0
    return np.where(setup.trainable_params > 0, setup.trainable_params, np.where(full, model.params_total, setup.adapter_params))


_FLASH_BACKWARD_FLOPS = 2.5  # five products instead of two: the scores are computed again
_EAGER_BACKWARD_FLOPS = 2.0


@dataclass(frozen=True, slots=True)
class AttentionTimes:
    """Seconds of one micro-batch, all layers of the model, one GPU of the tensor and context group.

    Units: `forward_s`, `backward_s` [s].
    """

    forward_s: Array
    backward_s: Array


def uses_fused_kernel(setup: SetupColumns, device: DeviceColumns) -> Array:
    """1 where a fused kernel really runs: it needs 16-bit arithmetic, and FLASH on NVIDIA compute
    capability 7.5 or newer -> [flag].

    Source: Dao et al. 2022 (FlashAttention), Dao 2023 (FlashAttention-2);
    docs/decisions/speed-time-physics.md.
    """
    half = effective_dtype(device, setup.compute_dtype) >= Dtype.FP16
    capable = (device.compute_capability == 0) | (device.compute_capability >= 7.0)
    return np.where((setup.attention != AttentionKernel.EAGER) & half & capable, 1.0, 0.0)


def _pairs(model: ModelColumns, setup: SetupColumns, *, exact: bool) -> Array:
    """Pairs of one micro-batch over all layers and one context rank, shape (N,)."""
    full, sliding, _ = attention_layers(model)
    seq_len = setup.real_length
    of_full, of_sliding = attention_pairs(model, seq_len, exact=exact)
    if not exact:
        of_sliding = of_full
    cross = np.where(model.kind == Kind.ENCODER_DECODER, model.num_decoder_layers * seq_len * seq_len, 0.0)
    share = setup.segment_share if exact else 1.0
    return setup.micro_batch * share * (full * of_full + sliding * of_sliding + cross) / setup.context


def _fused(model: ModelColumns, setup: SetupColumns, device: DeviceColumns, rates: RateColumns) -> tuple[Array, Array]:
    flops = 2.0 * attention_width(model) / setup.tensor * _pairs(model, setup, exact=True)
    peak = device.peak_flops(np.maximum(np.minimum(effective_dtype(device, setup.compute_dtype), Dtype.BF16), Dtype.FP16))
    head = np.where(model.attention_kind == AttentionKind.MLA, rates.reference_head, np.maximum(model.head_dim, 1.0))
    # Half-size heads halve the work per exponential; the fraction is quoted for
    # heads of the reference.
    head_factor = np.minimum(1.0, (head / rates.reference_head) ** rates.head_exponent)
    local = setup.real_length
    ramp = local / (local + 2.0 * rates.attention_tile_rows)
    rate = np.maximum(peak * head_factor * ramp, 1.0)
    return flops / (rate * rates.flash_forward), _FLASH_BACKWARD_FLOPS * flops / (rate * rates.flash_backward)


def _eager(model: ModelColumns, setup: SetupColumns, device: DeviceColumns, rates: RateColumns) -> tuple[Array, Array]:
    pairs = _pairs(model, setup, exact=False) / setup.tensor
    flops = 2.0 * attention_width(model) * pairs
    dtype = effective_dtype(device, setup.compute_dtype)
    peak = np.maximum(device.peak_flops(dtype), 1.0)
    head_factor = np.minimum(1.0, (np.maximum(model.head_dim, 1.0) / rates.reference_head) ** 0.5)
    products = flops / (peak * head_factor * np.where(dtype <= Dtype.FP32, rates.vector_fraction, rates.eager_attention))
    scores = pairs * model.num_heads * dtype_bytes(dtype) / (device.memory_bandwidth * rates.bandwidth_fraction)
    dropout = 1.0 + rates.score_dropout_passes * uses_dropout(model, setup)
    forward = products + scores * rates.softmax_passes * dropout
    return forward, _EAGER_BACKWARD_FLOPS * products + scores * (rates.softmax_passes + 2.0) * dropout


def attention_s(model: ModelColumns, setup: SetupColumns, device: DeviceColumns, rates: RateColumns) -> AttentionTimes:
    """Forward and backward seconds of the attention core.

    Source: Dao et al. 2022 (FlashAttention), Dao 2023 (FlashAttention-2);
    docs/decisions/speed-time-physics.md.
    """
    fused = uses_fused_kernel(setup, device) > 0
    flash_forward, flash_backward = _fused(model, setup, device, rates)
    eager_forward, eager_backward = _eager(model, setup, device, rates)
    return AttentionTimes(np.where(fused, flash_forward, eager_forward), np.where(fused, flash_backward, eager_backward))


def outlier_search_s(model: ModelColumns, setup: SetupColumns, rates: RateColumns) -> Array:
    """Seconds that a forward pass over LLM.int8() weights waits, all layers of a rank -> [s].

    Each product asks the card which inputs are outliers before it goes on, so that host and card
    take turns: launches of some twenty kernels do not hide behind arithmetic. Of experts those that
    tokens reach are multiplied one by one.

    Source: Dettmers et al. 2022 (LLM.int8(), arXiv 2208.07339); docs/decisions/third-rows.md.
    """
    eight = (setup.quantized > 0) & (setup.keeps_linear_inputs > 0) & (setup.linear_weight_bytes >= 1.0)
    wide = np.where(has_gate(model), 3.0, 2.0)
    attention = np.where(setup.fused_query_key_value > 0, 2.0, 4.0)
    moe = num_moe_layers(model)
    reached = np.minimum(model.num_experts, setup.micro_batch * setup.seq_len * model.experts_per_token) / setup.expert
    products = model.num_layers * attention + (model.num_layers - moe + moe * reached) * wide
    return np.where(eight, products * rates.outlier_search_s, 0.0)
