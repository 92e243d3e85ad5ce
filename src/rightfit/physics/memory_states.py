"""Weights, gradients, optimizer states: what lies in memory for the whole run, per GPU.

All functions take columns of shape (N,) and return bytes per GPU of shape (N,). Sharding follows
ZeRO (Rajbhandari et al. 2020): stage 1 divides optimizer states and master weights over
`shard_degree` ranks, stage 2 also gradients, stage 3 also weights. Tensor and pipeline parallelism
divide everything of a layer; expert parallelism divides the routed experts.

Source: Rajbhandari et al. 2020 (ZeRO).

Activations that the forward pass keeps for the backward pass, operator by operator.

All functions return bytes per token of the micro-batch and per layer (shape (N,)), so that tokens
and layers multiply afterwards. Tensors inside a tensor-parallel region are divided by `tensor`;
with sequence parallelism so are the others (Korthikanti et al. 2022, "Reducing Activation
Recomputation in Large Transformer Models").

What an operator keeps follows PyTorch's autograd: a matrix product keeps its input only when its
weight (or an adapter on it) is trained; a product of two activations keeps both; a normalisation
written out in fp32 keeps its fp32 input.

Source: Korthikanti et al. 2022; docs/decisions/memory-physics.md.

Host memory and disk of a training job.

Source: accounting; Ren et al. 2021 (ZeRO-Offload) for what is offloaded;
docs/decisions/memory-physics.md.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rightfit.physics import transformer
from rightfit.physics.columns import Array, AttentionKernel, Method, Mlp, ModelColumns, Norm, SetupColumns, ShardStage
from rightfit.records import dataclass
from rightfit.units import FP32_BYTES


@dataclass(frozen=True, slots=True)
class ParameterShare:
    """Parameters that one GPU of a pipeline stage works with, before ZeRO divides them; each an
    array of shape (N,) [1].

    `linear` and `other` make up the dense part of the layers, `experts` the routed experts,
    `embedding` and `head` the two ends.

    Units: `linear`, `other`, `experts`, `embedding`, `head`, `vision` [parameters].
    """

    linear: Array
    other: Array
    experts: Array
    embedding: Array
    head: Array
    vision: Array

    @property
    def total(self) -> Array:
        """All of them -> [parameters]."""
        return self.linear + self.other + self.experts + self.embedding + self.head + self.vision


def parameter_share(model: ModelColumns, setup: SetupColumns, *, first: bool, last: bool) -> ParameterShare:
    """Parameters of the first, last or a middle pipeline stage after tensor, pipeline and
    expert parallelism.

    A stage holds ceil(layers / pipeline) layers. Tied embeddings are held by both ends when the
    pipeline has more than one stage.
    """
    fraction = stage_fraction(model, setup)
    linear, body = transformer.linear_parameters(model), transformer.body_parameters(model)
    experts = transformer.routed_expert_parameters(model)
    embedding, head = transformer.embedding_parameters(model), transformer.head_parameters(model)
    split = setup.pipeline > 1
    tied_copy = np.where(split & (model.tied_embeddings > 0), embedding, 0.0)
    return ParameterShare(
        linear=np.maximum(linear - experts, 0.0) * fraction / setup.tensor,
        other=np.maximum(body - linear - model.params_vision, 0.0) * fraction,
        experts=experts * fraction / (setup.tensor * setup.expert),
        embedding=np.where(split & (not first), 0.0, embedding) / setup.tensor,
        head=np.where(split & (not last), 0.0, head + tied_copy * float(last and not first)) / setup.tensor,
        vision=np.where(split & (not first), 0.0, model.params_vision) + 0.0 * fraction,
    )


def stage_fraction(model: ModelColumns, setup: SetupColumns) -> Array:
    """Part of the layers that the fullest pipeline stage holds -> [1]."""
    layers = np.maximum(model.num_layers, 1.0)
    return np.ceil(layers / setup.pipeline) / layers


def weights_bytes(share: ParameterShare, setup: SetupColumns) -> Array:
    """Stored weights of the base model, sharded where the stage is 3 -> [bytes]."""
    dense = (
        share.linear * setup.linear_weight_bytes + (share.other + share.embedding + share.head + share.vision) * setup.other_weight_bytes
    )
    shards = _shards(setup, stage=ShardStage.WEIGHTS)
    width = np.where(setup.expert_weight_bytes > 0, setup.expert_weight_bytes, setup.linear_weight_bytes)
    return dense / shards + share.experts * width / expert_shards(setup, stage=ShardStage.WEIGHTS)


def trained_share(share: ParameterShare, model: ModelColumns, setup: SetupColumns) -> tuple[Array, Array]:
    """Trained parameters of this GPU before ZeRO: (dense, routed experts). Adapters follow the
    layers they sit on.

    -> [parameters], [parameters].
    """
    total = transformer.total_parameters(model)
    full = is_full(setup)
    adapter = setup.adapter_params * stage_fraction(model, setup) / setup.tensor
    fraction = np.where(setup.trainable_params > 0, np.minimum(setup.trainable_params / np.maximum(total, 1.0), 1.0), 1.0)
    dense = np.where(full, (share.total - share.experts) * fraction, adapter)
    return dense, np.where(full, share.experts * fraction, 0.0)


def is_full(setup: SetupColumns) -> Array:
    """1 where the base weights themselves are trained -> [flag]."""
    method = setup.method
    trained: Array = ((method == Method.FULL) | (method == Method.GALORE) | (method == Method.FREEZE)).astype(np.float64)
    return trained


def adapter_bytes(dense_trained: Array, setup: SetupColumns) -> Array:
    """Weights of adapters; they are sharded with the base at stage 3.

    `dense_trained` [parameters] -> [bytes].
    """
    return np.where(is_full(setup) > 0, 0.0, dense_trained * setup.adapter_weight_bytes / _shards(setup, stage=ShardStage.WEIGHTS))


def gradients_bytes(dense: Array, experts: Array, setup: SetupColumns) -> Array:
    """Gradients and their accumulation buffer.

    `dense`, `experts` [parameters] -> [bytes].
    """
    each = setup.gradient_bytes + setup.accumulation_bytes
    return each * (dense / _shards(setup, stage=2.0) + experts / expert_shards(setup, stage=2.0))


def optimizer_bytes(dense: Array, experts: Array, setup: SetupColumns) -> Array:
    """Optimizer states on the GPU; none where they are offloaded to the host.

    `dense`, `experts` [parameters] -> [bytes].
    """
    here = 1.0 - setup.offload_optimizer
    return here * setup.optimizer_bytes * (dense / _shards(setup, stage=1.0) + experts / expert_shards(setup, stage=1.0))


def master_bytes(dense: Array, experts: Array, setup: SetupColumns) -> Array:
    """fp32 master copy of 16-bit weights.

    `dense`, `experts` [parameters] -> [bytes].
    """
    here = 1.0 - setup.offload_optimizer
    return here * setup.master_bytes * (dense / _shards(setup, stage=1.0) + experts / expert_shards(setup, stage=1.0))


def step_scratch_bytes(dense: Array, experts: Array, setup: SetupColumns) -> Array:
    """Scratch of the optimizer step: torch's foreach AdamW makes one temporary of the size of a
    state, for all parameters at once; DeepSpeed takes `scratch_limit` elements at a time
    (sub_group_size).

    `dense`, `experts` [parameters] -> [bytes].
    """
    here = 1.0 - setup.offload_optimizer
    elements = dense / _shards(setup, stage=1.0) + experts / expert_shards(setup, stage=1.0)
    at_once = np.where(setup.scratch_limit > 0, np.minimum(elements, setup.scratch_limit), elements)
    return here * setup.optimizer_temporary_bytes * at_once


def _shards(setup: SetupColumns, *, stage: float) -> Array:
    return np.where(setup.shard_stage >= stage, np.maximum(setup.shard_degree, 1.0), 1.0)


def expert_shards(setup: SetupColumns, *, stage: float) -> Array:
    """Ranks over which ZeRO divides routed experts: those that hold the same experts.

    `stage` [code] -> [GPUs].
    """
    return np.maximum(_shards(setup, stage=stage) / np.where(setup.shard_stage >= stage, setup.expert, 1.0), 1.0)


@dataclass(frozen=True, slots=True)
class LayerActivations:
    """Bytes per token that one layer keeps, by part; shape (N,) each. `scores` are the parts that
    grow with the square of the length.

    Units: `norms`, `attention`, `scores`, `feed_forward`, `adapters` [bytes/token].
    """

    norms: Array
    attention: Array
    scores: Array
    feed_forward: Array
    adapters: Array

    @property
    def total(self) -> Array:
        """All parts -> [bytes/token].

        Source: Korthikanti et al. 2022; docs/decisions/memory-physics.md.
        """
        return self.norms + self.attention + self.scores + self.feed_forward + self.adapters


def layer_activations(model: ModelColumns, setup: SetupColumns) -> LayerActivations:
    """What one mean layer keeps without recomputation.

    Source: Korthikanti et al. 2022; docs/decisions/memory-physics.md.
    """
    return LayerActivations(
        norms=norm_bytes(model, setup),
        attention=attention_bytes(model, setup),
        scores=score_bytes(model, setup),
        feed_forward=feed_forward_bytes(model, setup),
        adapters=adapter_input_bytes(model, setup),
    )


def outside_divisor(setup: SetupColumns) -> Array:
    """What divides tensors outside the tensor-parallel region: the tensor degree with sequence
    parallelism, else 1 -> [1].

    Source: Korthikanti et al. 2022; docs/decisions/memory-physics.md.
    """
    return np.where(setup.sequence_parallel > 0, setup.tensor, 1.0)


def residual_bytes(setup: SetupColumns) -> Array:
    """Width of the residual stream. Layers whose weights are gathered (ZeRO-3, FSDP) get them in
    the width of the arithmetic, so that what they put out is narrow although fp32 is stored ->
    [bytes/element].

    Source: accounting (PyTorch FSDP: MixedPrecision.param_dtype); docs/decisions/memory-physics.md.
    """
    gathered = (setup.autocast > 0) & (setup.shard_stage >= ShardStage.WEIGHTS)
    return np.where(gathered, setup.activation_bytes, setup.residual_bytes)


def norm_bytes(model: ModelColumns, setup: SetupColumns) -> Array:
    """Two normalisations (three with cross attention): a fused kernel keeps its input; RMSNorm
    written out keeps an fp32 copy and, where its weight is trained, the normalised tensor as well.
    Under autocast LayerNorm runs in fp32.

    -> [bytes/token].

    Source: Korthikanti et al. 2022; docs/decisions/memory-physics.md.
    """
    width = model.hidden_size
    fused = np.where(setup.autocast > 0, FP32_BYTES, residual_bytes(setup))
    unfused = np.where(is_full(setup) > 0, setup.norm_saved_bytes + residual_bytes(setup) - 2.0, FP32_BYTES)
    each = np.where((setup.fused_kernels > 0) | (model.norm == Norm.LAYERNORM), fused, unfused)
    dropout = np.where(setup.dropout > 0, 2.0, 0.0)  # one byte of mask after attention, one after the feed-forward block
    return width * (2.0 * each + dropout) / outside_divisor(setup)


def attention_bytes(model: ModelColumns, setup: SetupColumns) -> Array:
    """Input of Q, K, V; Q, K, V themselves; the output; the log-sum-exp of flash attention; MLA's
    latents -> [bytes/token].

    Where Q, K, V come from one fused projection and rotary embedding makes new Q and K, V is a view
    that holds the old ones too.

    Source: Korthikanti et al. 2022; docs/decisions/memory-physics.md.
    """
    a = setup.activation_bytes
    query, value = transformer.query_width(model), transformer.value_width(model)
    eager = setup.attention == AttentionKernel.EAGER
    expanded = eager | ((setup.attention == AttentionKernel.SDPA) & (setup.expanded_key_value > 0))
    keys_values = np.where(expanded, query + value, 2.0 * model.num_kv_heads * model.head_dim)
    keys_values = np.where(
        transformer.is_mla(model), query + value + model.num_heads * (model.qk_nope_head_dim + model.v_head_dim), keys_values
    )
    latents = np.where(
        transformer.is_mla(model),
        2.0 * (model.q_lora_rank + model.kv_lora_rank) + FP32_BYTES * (model.q_lora_rank + model.kv_lora_rank) / a,
        0.0,
    )
    statistics = np.where(eager, 0.0, FP32_BYTES * model.num_heads)
    qk_norm = (
        model.qk_norm * (FP32_BYTES + is_full(setup) * a) * (query + model.num_kv_heads * model.head_dim) * (1.0 - setup.fused_kernels)
    )
    # Queries and keys before rotation, held by the view; eager attention copies
    # the values out of it.
    held = np.where(eager, 0.0, setup.fused_query_key_value * (query + model.num_kv_heads * model.head_dim))
    inside = a * (query + keys_values + value + held) + statistics + qk_norm
    keeps_input = keeps_attention_input(setup) + autocast_input_copies(setup) * np.where(setup.fused_query_key_value > 0, 0.0, 2.0)
    return inside / setup.tensor + a * (model.hidden_size * keeps_input + latents) / outside_divisor(setup)


def score_bytes(model: ModelColumns, setup: SetupColumns) -> Array:
    """Score matrices of eager attention: the softmax (in fp32 where it is upcast) and its 16-bit
    copy; with dropout a mask and one more copy.

    -> [bytes/token].

    Source: Korthikanti et al. 2022; docs/decisions/memory-physics.md.
    """
    a = setup.activation_bytes
    upcast = np.where(
        (setup.dropout > 0) | (setup.softmax_upcast <= 0), 0.0, FP32_BYTES
    )  # kernels with dropout keep the softmax in 16 bits
    per_pair = upcast + a + np.where(setup.dropout > 0, 1.0 + a, 0.0)
    length = setup.seq_len * setup.token_fraction
    eager = setup.attention == AttentionKernel.EAGER
    with_scores = np.where(model.num_linear_layers > 0, 1.0 - model.num_linear_layers / np.maximum(model.num_layers, 1.0), 1.0)
    return np.where(eager, per_pair * model.num_heads * length * with_scores / setup.tensor, 0.0)


def keeps_attention_input(setup: SetupColumns) -> Array:
    """1 where the input of Q, K, V is kept: full training, or an adapter that reads it without a
    cast of its own -> [flag].

    Source: Korthikanti et al. 2022; docs/decisions/memory-physics.md.
    """
    shared = (setup.adapter_on_query + setup.adapter_on_key_value > 0) & (setup.adapter_weight_bytes == setup.activation_bytes)
    kept: Array = np.maximum(keeps_inputs(setup), shared.astype(np.float64))
    return kept


def autocast_input_copies(setup: SetupColumns) -> Array:
    """1 where each product casts the fp32 output of a normalisation for itself, so that products of
    one input keep a copy each -> [flag].

    Source: Korthikanti et al. 2022; docs/decisions/memory-physics.md.
    """
    return np.where((setup.autocast > 0) & (residual_bytes(setup) == FP32_BYTES), is_full(setup), 0.0)


def keeps_inputs(setup: SetupColumns) -> Array:
    """1 where every matrix product keeps its input: its weight is trained, or its kernel keeps it
    regardless -> [flag].

    Source: Korthikanti et al. 2022; docs/decisions/memory-physics.md.
    """
    kept: Array = np.maximum(is_full(setup), setup.keeps_linear_inputs)
    return kept


def feed_forward_bytes(model: ModelColumns, setup: SetupColumns) -> Array:
    """Mean over layers of the dense block and the mixture of experts -> [bytes/token].

    Source: Korthikanti et al. 2022; docs/decisions/memory-physics.md.
    """
    layers = np.maximum(model.num_layers, 1.0)
    moe = transformer.num_moe_layers(model) / layers
    dense = _block_bytes(model, setup, model.intermediate_size, setup.tensor) + _input_bytes(model, setup)
    return (1.0 - moe) * dense + moe * moe_bytes(model, setup)


def moe_bytes(model: ModelColumns, setup: SetupColumns) -> Array:
    """Routed experts see `experts_per_token` copies of the token: gathered input, inner tensors,
    output before weighting; shared experts one.

    -> [bytes/token].

    Source: Korthikanti et al. 2022; docs/decisions/memory-physics.md.
    """
    routed = model.experts_per_token * (
        _block_bytes(model, setup, model.moe_intermediate_size, setup.tensor) + setup.routed_bytes * model.hidden_size
    )
    shared = _block_bytes(model, setup, model.moe_intermediate_size * model.num_shared_experts, setup.tensor)
    router = FP32_BYTES * 3.0 * model.num_experts
    return routed + shared + router + _input_bytes(model, setup)


def _block_bytes(model: ModelColumns, setup: SetupColumns, width: Array, divisor: Array) -> Array:
    """Inner tensors of one feed-forward block of `width`; of one tile where the block runs tile by
    tile and works each out anew in the backward pass (Bekman et al. 2025, ALST)."""
    a = setup.activation_bytes
    keeps_down = np.maximum(keeps_inputs(setup), ((setup.adapter_on_down > 0) & (setup.adapter_weight_bytes == a)).astype(np.float64))
    gated = np.where(setup.fused_kernels > 0, 2.0, 3.0) + keeps_down
    plain = np.where(model.mlp == Mlp.RELU, 1.0, np.where(setup.fused_kernels > 0, 1.0, setup.gelu_tensors) + keeps_down)
    return a * width * np.where(transformer.is_gated(model), gated, plain) / (divisor * setup.feed_forward_tiles)


def _input_bytes(model: ModelColumns, setup: SetupColumns) -> Array:
    """Input of the feed-forward block, kept for the gradients of its first matrices."""
    a = setup.activation_bytes
    keeps: Array = np.maximum(keeps_inputs(setup), ((setup.adapter_on_up > 0) & (setup.adapter_weight_bytes == a)).astype(np.float64))
    keeps = keeps + autocast_input_copies(setup) * transformer.is_gated(model)
    return a * model.hidden_size * keeps / outside_divisor(setup)


def adapter_input_bytes(model: ModelColumns, setup: SetupColumns) -> Array:
    """Inputs of LoRA's A matrices that are copies: cast to the adapter's width, or after the
    adapter's own dropout (one more byte of mask).

    -> [bytes/token].

    Source: Korthikanti et al. 2022; docs/decisions/memory-physics.md.
    """
    copies = (setup.adapter_weight_bytes != setup.activation_bytes) | (setup.adapter_dropout > 0)
    each = np.where(setup.autocast + (setup.compute_dtype > 0) > 0, setup.activation_bytes, setup.adapter_weight_bytes)
    each = each + np.where(setup.adapter_dropout > 0, 1.0, 0.0)
    on_hidden = _modules_on_hidden(setup)
    width = on_hidden * model.hidden_size + setup.adapter_on_output * transformer.value_width(model)
    width = width + setup.adapter_on_down * np.where(model.num_experts > 0, model.moe_intermediate_size, model.intermediate_size)
    modules = on_hidden + setup.adapter_on_output + setup.adapter_on_down
    inner = modules * setup.adapter_rank * setup.activation_bytes
    kept = np.where(setup.method == Method.DORA, decomposed_output_bytes(model, setup), 0.0)
    return np.where(copies, each * width / setup.tensor, 0.0) + inner + kept


def decomposed_output_bytes(model: ModelColumns, setup: SetupColumns) -> Array:
    """What DoRA keeps of one layer beside LoRA: the outputs of base and adapter, by whose sum the
    gradient of the magnitude is taken.

    -> [bytes/token].

    Source: Liu et al. 2024 (DoRA); PEFT (dora.py: (scale - 1) x base + scale x adapter).
    """
    attention = (
        setup.adapter_on_query * transformer.query_width(model) + setup.adapter_on_key_value * transformer.key_value_width(model) / 2.0
    )
    inner = np.where(model.num_experts > 0, model.moe_intermediate_size, model.intermediate_size)
    hidden = (setup.adapter_on_output + setup.adapter_on_down) * model.hidden_size
    return 2.0 * setup.activation_bytes * ((attention + setup.adapter_on_up * inner) / setup.tensor + hidden)


def decomposed_scratch_bytes(model: ModelColumns, setup: SetupColumns) -> Array:
    """The largest adapted matrix three times in the width of activations, while DoRA takes its
    norm: expanded base, product of the adapter, their sum.

    -> [bytes].

    Source: Liu et al. 2024 (DoRA); PEFT (tuners/lora/dora.py: get_weight_norm).
    """
    inner = np.where(model.num_experts > 0, model.moe_intermediate_size, model.intermediate_size)
    width = np.where(setup.adapter_on_up + setup.adapter_on_down > 0, inner, model.hidden_size)
    return np.where(setup.method == Method.DORA, 3.0 * setup.activation_bytes * model.hidden_size * width / setup.tensor, 0.0)


def _modules_on_hidden(setup: SetupColumns) -> Array:
    """Adapters that read the hidden state of a layer; one fused projection carries
    one adapter -> [1]."""
    attention = setup.adapter_on_query + setup.adapter_on_key_value
    return np.where(setup.fused_query_key_value > 0, np.minimum(attention, 1.0), attention) + setup.adapter_on_up


def checkpoint_bytes(model: ModelColumns, setup: SetupColumns) -> Array:
    """What full recomputation keeps of one layer: its input -> [bytes/token].

    Source: Korthikanti et al. 2022; docs/decisions/memory-physics.md.
    """
    return model.hidden_size * residual_bytes(setup) / outside_divisor(setup)


def selective_bytes(model: ModelColumns, setup: SetupColumns) -> Array:
    """What selective recomputation keeps of one layer -> [bytes/token].

    With eager attention (Korthikanti et al. 2022) everything but the score matrices; with fused
    attention the score matrices do not exist and stacks keep the layer's input, the outputs of
    attention and half of the matrix products (PyTorch's per-operator policy).

    Source: Korthikanti et al. 2022; docs/decisions/memory-physics.md.
    """
    a = setup.activation_bytes
    parts = layer_activations(model, setup)
    width = transformer.query_width(model) + 2.0 * model.num_kv_heads * model.head_dim + 2.0 * model.hidden_size
    width = width + np.where(transformer.is_gated(model), 2.0, 1.0) * model.intermediate_size
    policy = (
        checkpoint_bytes(model, setup) + a * (transformer.value_width(model) + 0.5 * width) / setup.tensor + FP32_BYTES * model.num_heads
    )
    eager = setup.attention == AttentionKernel.EAGER
    return np.where(eager, parts.total - parts.scores, np.minimum(policy, parts.total))


def backward_scratch_bytes(model: ModelColumns, setup: SetupColumns) -> Array:
    """Gradients of activations that live at the widest point of one layer's backward pass: the
    feed-forward block's, and the residual's.

    -> [bytes/token].

    Source: Korthikanti et al. 2022; docs/decisions/memory-physics.md.
    """
    a = setup.activation_bytes
    moe = transformer.num_moe_layers(model) > 0
    at_once = np.where(setup.expert_loop > 0, model.experts_per_token / np.maximum(model.num_experts, 1.0), model.experts_per_token)
    width = np.where(moe, model.moe_intermediate_size * np.maximum(at_once, model.num_shared_experts), model.intermediate_size)
    inner = 2.0 * a * width / (setup.tensor * setup.feed_forward_tiles)
    # When attention runs backward, the feed-forward block has been let go.
    scores = np.maximum(score_bytes(model, setup) - feed_forward_bytes(model, setup), 0.0)
    widest: Array = np.maximum(inner, scores)
    return widest + 2.0 * residual_bytes(setup) * model.hidden_size / outside_divisor(setup)


def host_bytes(model: ModelColumns, setup: SetupColumns, *, coefficients: Mapping[str, float]) -> Array:
    """Peak RAM of one node.

    `coefficients` [bytes] -> [bytes].
    Each process holds the interpreter and the CUDA libraries (`host_process_bytes`) and its
    data-loader workers. While loading, each process holds a copy of the weights as read; quantised
    models go to the GPU one file at a time (`host_file_bytes`), sharded stacks (stage 3) and model
    parallelism read one copy a node. Offloaded states and weights stay on the node that owns them;
    saving gathers the trained weights on rank 0. Known error: memory-mapped files count as used
    here although the kernel can drop them.

    Source: accounting; Ren et al. 2021 (ZeRO-Offload) for what is offloaded;
    docs/decisions/memory-physics.md.
    """
    processes = np.minimum(setup.num_gpus, setup.gpus_per_node)
    each = coefficients["host_process_bytes"] + coefficients["host_workers"] * coefficients["host_worker_bytes"]
    weights = stored_bytes(model, setup)
    one = np.where(setup.quantized > 0, np.minimum(weights, coefficients["host_file_bytes"]), weights)
    together = (setup.shard_stage >= ShardStage.WEIGHTS) | (setup.tensor * setup.pipeline > 1)
    loading = one * np.where(together, 1.0, processes)
    saving = weights * is_full(setup)
    nodes = np.maximum(np.ceil(setup.num_gpus / setup.gpus_per_node), 1.0)
    moving: Array = np.maximum(loading, saving)
    return processes * each + moving + offloaded_bytes(model, setup) / nodes


def stored_bytes(model: ModelColumns, setup: SetupColumns) -> Array:
    """Weights as they lie on disk: 16 bits a parameter, 32 where the job stores fp32 -> [bytes].
    Those that are quantised on the way to the card are read at 16 bits, whatever width their
    norms and embeddings are kept in.

    Source: accounting; Ren et al. 2021 (ZeRO-Offload) for what is offloaded;
    docs/decisions/memory-physics.md.
    """
    is_wide = (setup.other_weight_bytes >= FP32_BYTES) & (setup.quantized <= 0)
    return transformer.total_parameters(model) * np.where(is_wide, FP32_BYTES, 2.0)


def held_bytes(model: ModelColumns, setup: SetupColumns) -> Array:
    """Weights as the job holds them, all of the model: packed where they are quantised, else as
    they were read -> [bytes].

    Source: accounting; docs/decisions/memory-physics.md.
    """
    embedding = transformer.embedding_parameters(model)
    linear = np.maximum(transformer.total_parameters(model) - embedding, 0.0)
    packed = linear * setup.linear_weight_bytes + embedding * setup.other_weight_bytes
    return np.asarray(np.where(setup.quantized > 0, packed, stored_bytes(model, setup)))


def offloaded_bytes(model: ModelColumns, setup: SetupColumns) -> Array:
    """States that live in host memory instead of the GPU: fp32 master, two moments and fp32
    gradient; weights [bytes, whole job].

    -> [bytes].

    Source: accounting; Ren et al. 2021 (ZeRO-Offload) for what is offloaded;
    docs/decisions/memory-physics.md.
    """
    trained = np.where(is_full(setup) > 0, transformer.total_parameters(model), setup.adapter_params)
    each = setup.optimizer_bytes + setup.master_bytes + setup.gradient_bytes + FP32_BYTES
    kept = setup.micro_batch * setup.seq_len * model.hidden_size * model.num_layers * residual_bytes(setup) * setup.data
    states = setup.offload_optimizer * trained * each
    return states + setup.offload_params * held_bytes(model, setup) + setup.offload_activations * kept


def checkpoint_file_bytes(model: ModelColumns, setup: SetupColumns) -> Array:
    """One saved training state: what is trained, with its optimizer states (what a resume
    needs) -> [bytes].

    Source: accounting; Ren et al. 2021 (ZeRO-Offload) for what is offloaded;
    docs/decisions/memory-physics.md.
    """
    trained = np.where(is_full(setup) > 0, setup.trainable_params, setup.adapter_params)
    trained = np.where((is_full(setup) > 0) & (trained <= 0), transformer.total_parameters(model), trained)
    weight = np.where(is_full(setup) > 0, np.where(setup.other_weight_bytes >= FP32_BYTES, FP32_BYTES, 2.0), setup.adapter_weight_bytes)
    return trained * (weight + setup.master_bytes + setup.optimizer_bytes)


def disk_bytes(model: ModelColumns, setup: SetupColumns, *, kept_checkpoints: float) -> Array:
    """Base weights, saved states and one exported model.

    `kept_checkpoints` [1] -> [bytes].

    Source: accounting; Ren et al. 2021 (ZeRO-Offload) for what is offloaded;
    docs/decisions/memory-physics.md.
    """
    base = stored_bytes(model, setup)
    return base + kept_checkpoints * checkpoint_file_bytes(model, setup) + is_full(setup) * base
