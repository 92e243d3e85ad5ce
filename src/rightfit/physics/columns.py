"""The columns that every physics function reads: one struct for the model, the setup, the
device, the links.

Each field is a NumPy array that broadcasts with all others: shape (1,) when one value serves every
row, shape (N,) when rows differ. So the same formula serves one case, a table of measured cases and
a search of a million candidates. Categories are small integers named by the enumerations below;
nothing here holds a calibrated constant.

Source: definition.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from rightfit.records import dataclass

Array = NDArray[np.float64]


class Kind(IntEnum):
    """Architecture family."""

    DECODER = 0
    ENCODER = 1
    ENCODER_DECODER = 2
    MOE_DECODER = 3
    VISION_LANGUAGE = 4


class Mlp(IntEnum):
    """Feed-forward block: gated kinds have three matrices, plain ones two."""

    SWIGLU = 0
    GEGLU = 1
    GELU = 2
    RELU = 3
    RELU_SQUARED = 4


class AttentionKind(IntEnum):
    """How keys and values are shared or compressed."""

    MHA = 0
    GQA = 1
    MQA = 2
    MLA = 3
    SLIDING = 4
    SSM = 5
    HYBRID_SSM = 6


class Norm(IntEnum):
    """Normalisation layer."""

    RMSNORM = 0
    LAYERNORM = 1


class Method(IntEnum):
    """What is trained."""

    FULL = 0
    LORA = 1
    QLORA = 2
    DORA = 3
    PTUNING = 4
    PREFIX = 5
    FREEZE = 6
    GALORE = 7


class Dtype(IntEnum):
    """Arithmetic of the matrix products."""

    FP32 = 0
    TF32 = 1
    FP16 = 2
    BF16 = 3
    FP8 = 4


class Recompute(IntEnum):
    """Activation recomputation (gradient checkpointing)."""

    NONE = 0
    SELECTIVE = 1
    FULL = 2


class AttentionKernel(IntEnum):
    """EAGER stores the score matrix; SDPA is the memory-efficient kernel; FLASH
    is FlashAttention."""

    EAGER = 0
    SDPA = 1
    FLASH = 2


class ShardStage(IntEnum):
    """What ZeRO or FSDP divides over ranks, each beside what comes before it: optimizer states,
    gradients, weights."""

    NONE = 0
    STATES = 1
    GRADIENTS = 2
    WEIGHTS = 3


class IntraKind(IntEnum):
    """How the GPUs of one server see each other."""

    NONE = 0
    PCIE = 1
    NVLINK = 2
    SWITCH = 3


class Loss(IntEnum):
    """STANDARD makes full logits and an fp32 copy; FUSED computes logits and loss in chunks."""

    STANDARD = 0
    FUSED = 1


class MemoryCounter(IntEnum):
    """Which memory figure is asked for."""

    ALLOCATED = 0
    RESERVED = 1
    DRIVER = 2


@dataclass(frozen=True, slots=True)
class Columns:
    """A frozen struct of broadcastable float64 arrays."""

    @classmethod
    def of(cls, **values: Any) -> Self:
        """Build from scalars or sequences; missing fields take their default."""
        fields = {field.name: field for field in dataclasses.fields(cls)}
        unknown = set(values) - set(fields)
        if unknown:
            raise TypeError(f"{cls.__name__} has no field {sorted(unknown)}")
        return cls(**{name: np.atleast_1d(np.asarray(value, dtype=np.float64)) for name, value in values.items()})

    @classmethod
    def stack(cls, rows: Iterable[Self]) -> Self:
        """Put structs one under the other: fields of length n1, n2 ... become
        one of n1 + n2 + ..."""
        rows = list(rows)
        sizes = [row.num_rows for row in rows]
        return cls(
            **{
                field.name: np.concatenate([np.broadcast_to(getattr(row, field.name), size) for row, size in zip(rows, sizes, strict=True)])
                for field in dataclasses.fields(cls)
            }
        )

    @property
    def num_rows(self) -> int:
        """Length after broadcasting -> [rows]."""
        return int(max(getattr(self, field.name).shape[0] for field in dataclasses.fields(self)))

    def take(self, index: NDArray[np.intp]) -> Self:
        """Rows `index`; a field of length one stays as it is."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return type(self)(**{name: value if value.shape[0] == 1 else value[index] for name, value in values.items()})

    def content(self) -> tuple[bytes, ...]:
        """All that the struct holds, to be compared and hashed -> [bytes]."""
        return tuple(getattr(self, field.name).tobytes() for field in dataclasses.fields(self))

    def replace(self, **values: Any) -> Self:
        """A copy with some fields changed."""
        arrays: dict[str, Any] = {name: np.atleast_1d(np.asarray(value, dtype=np.float64)) for name, value in values.items()}
        return dataclasses.replace(self, **arrays)


_REMEMBERED = 2


Struct = TypeVar("Struct", bound=Columns)


def once(values: NDArray[Any]) -> NDArray[Any]:
    """Each of the `values` [any], none of them NaN, once and ascending -> [any].

    `np.unique` loads the masked arrays of NumPy before it says the same: a fiftieth of a plan's
    processor time.
    """
    ordered = np.sort(values, axis=None)
    is_first = np.ones(ordered.shape, dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered[is_first]


def remembered(function: Callable[[Struct], Array]) -> Callable[[Struct], Array]:
    """A function of one struct that keeps its last results: a search asks the same few counts of
    the same model hundreds of times.

    Structs never change, so the same object has the same result; callers must not write into it.
    """
    known: dict[int, tuple[Struct, Array]] = {}

    @functools.wraps(function)
    def ask(columns: Struct) -> Array:
        found = known.get(id(columns))
        if found is not None and found[0] is columns:
            return found[1]
        result = function(columns)
        if len(known) >= _REMEMBERED:
            known.clear()
        known[id(columns)] = (columns, result)
        return result

    return ask


def column(default: float, unit: str = "") -> Any:
    """A field in `unit` whose default is one value for every row: a neutral one (nothing, once,
    whole), never a calibrated one.

    `default` [any], in `unit`.
    """
    return dataclasses.field(default_factory=lambda: np.array([default], dtype=np.float64), metadata={"unit": unit})


@dataclass(frozen=True, slots=True)
class ModelColumns(Columns):
    """Architecture of a transformer. Counts are plain numbers; enumerations as above.

    For encoder-decoder models `num_layers` counts both stacks and `num_decoder_layers` the ones
    with cross attention. `params_total` counts tied heads once; `params_active` is what one token
    passes through.

    Of sparse attention: `sparse_layers` in which a token attends to `sparse_most` entries at most,
    each of `sparse_stride` tokens, chosen by `num_index_layers` indexers of `index_heads` heads
    over keys of `index_width`; `pooled_layers` that attend to all entries of `pooled_stride`
    tokens; both to the last `cache_window` tokens beside. What a token holds over all layers where
    it was counted (0: by formula): `cache_bytes`, and inside the window `window_bytes` more, in 16
    bits; `index_bytes` of the indexers' keys; `state_bytes` of a sequence. `key_value_share` 0.5 =
    keys and values are one tensor.
    """

    kind: Array = column(Kind.DECODER, "code")
    num_layers: Array = column(0, "layers")
    hidden_size: Array = column(0, "elements")
    num_heads: Array = column(0, "heads")
    num_kv_heads: Array = column(0, "heads")
    head_dim: Array = column(0, "elements")
    intermediate_size: Array = column(0, "elements")
    vocab_size: Array = column(0, "tokens")
    max_position: Array = column(0, "tokens")
    tied_embeddings: Array = column(0, "flag")
    attention_kind: Array = column(AttentionKind.MHA, "code")
    sliding_window: Array = column(0, "tokens")
    mlp: Array = column(Mlp.SWIGLU, "code")
    norm: Array = column(Norm.RMSNORM, "code")
    num_experts: Array = column(0, "experts")
    experts_per_token: Array = column(0, "experts")
    num_shared_experts: Array = column(0, "experts")
    moe_intermediate_size: Array = column(0, "elements")
    num_moe_layers: Array = column(0, "layers")
    q_lora_rank: Array = column(0, "elements")
    kv_lora_rank: Array = column(0, "elements")
    qk_nope_head_dim: Array = column(0, "elements")
    qk_rope_head_dim: Array = column(0, "elements")
    v_head_dim: Array = column(0, "elements")
    learned_positions: Array = column(0, "flag")
    qkv_bias: Array = column(0, "flag")
    attention_out_bias: Array = column(0, "flag")
    mlp_bias: Array = column(0, "flag")
    qk_norm: Array = column(0, "flag")
    num_decoder_layers: Array = column(0, "layers")
    num_full_attention_layers: Array = column(0, "layers")
    num_sliding_layers: Array = column(0, "layers")
    num_linear_layers: Array = column(0, "layers")
    num_index_layers: Array = column(0, "layers")
    sparse_layers: Array = column(0, "layers")
    sparse_stride: Array = column(1, "tokens")
    sparse_most: Array = column(0, "1")
    pooled_layers: Array = column(0, "layers")
    pooled_stride: Array = column(1, "tokens")
    index_heads: Array = column(0, "heads")
    index_width: Array = column(0, "elements")
    cache_bytes: Array = column(0, "bytes/token")
    cache_window: Array = column(0, "tokens")
    window_bytes: Array = column(0, "bytes/token")
    index_bytes: Array = column(0, "bytes/token")
    state_bytes: Array = column(0, "bytes")
    key_value_share: Array = column(1, "1")
    has_lm_head: Array = column(1, "flag")
    params_total: Array = column(0, "parameters")
    params_active: Array = column(0, "parameters")
    params_embedding: Array = column(0, "parameters")
    params_vision: Array = column(0, "parameters")
    vision_layers: Array = column(0, "layers")
    vision_hidden: Array = column(0, "elements")
    image_tokens: Array = column(0, "tokens")


@dataclass(frozen=True, slots=True)
class SetupColumns(Columns):
    """How the job is run. Sizes in bytes are per parameter or per element unless named otherwise.

    `micro_batch` is sequences per data-parallel rank and micro-step; `seq_len` tokens per sequence;
    `data` x `tensor` x `pipeline` x `context` = GPUs; `expert` divides `data`. `shard_stage` is 0
    (DDP), 1, 2, 3 (ZeRO / FSDP) over `shard_degree` ranks. Flags are 0 or 1. `adapter_params` are
    the parameters that an adapter adds and trains (whole model); `trainable_params` all that is
    trained. `linear_weight_bytes` is what one frozen linear parameter takes in memory, quantisation
    constants included; `other_weight_bytes` the same for embeddings, norms and head,
    `expert_weight_bytes` for routed experts (0 = as linear ones).

    `adapter_on_*` say which matrices carry an adapter: 0/1, and 0-2 for `key_value` (key, value)
    and `up` (gate, up). `gradient_bytes`, `master_bytes`, `optimizer_bytes`, `accumulation_bytes`
    and `optimizer_temporary_bytes` (scratch of the step) are per TRAINED parameter;
    `adapter_weight_bytes` per adapter parameter. `gather_bytes` and `reduce_bytes` are the widths
    in which shards are gathered and gradients reduced. `residual_bytes` is the width of the
    residual stream (what recomputation keeps), `logit_bytes` what one logit takes at the peak of a
    STANDARD loss, all copies together; `kept_logit_bytes` of them stay through the backward pass.
    `naive_pipeline` 1 = layers spread over GPUs that work one after the other.
    `frozen_input_copies` more copies of each layer's input are held until the backward pass
    has ended, where a wrapper of sharded layers waits for gradients that frozen weights never
    get (FSDP1).
    `keeps_linear_inputs` 1 = frozen matrix products keep their input too (bitsandbytes);
    `loads_whole` 1 = the whole model is on each GPU before it is sharded; `scratch_limit` elements
    that the optimizer treats at a time (0 = all); `layer_gradient_workspace` 1 = a layer's weight
    gradients have a standing buffer of their own (Transformer Engine); `expert_loop` 1 = experts
    run one after the other, not as one grouped product; `routed_bytes` are kept per chosen expert
    and hidden element (gathered inputs, outputs, their fp32 copies). `fused_query_key_value` 1 =
    values are a view of one fused projection, which lives as long as they do. `norm_saved_bytes`
    per element a trained normalisation written out in fp32 keeps, `gelu_tensors` inner tensors that
    the activation of a plain feed-forward block keeps (4 where GELU is written out),
    `softmax_upcast` 1 = eager attention computes its softmax in fp32, `expanded_key_value` 1 = keys
    and values are repeated for every query head before SDPA. `expandable_segments` 1 = PyTorch's
    allocator grows its segments instead of caching blocks of fixed size. `variable_length` 1 =
    sequences are not packed or padded to one length, so tensor sizes change from step to step.
    `mean_length` is the mean over the limit where samples are shorter than `seq_len` (time sees the
    mean, memory the longest). `weight_update` 0 = forward and backward only; `weight_sync` 1 =
    trained weights are sent to an inference engine each step; `attention_version` is that of
    FlashAttention (0 = not stated); `segment_share` the part of a packed sequence that attention
    spans; `server_dispatch` 1 = a token crosses the network once for each server that holds one of
    its experts (DeepEP), not once for each expert; `routing_skew` how much fuller the fullest
    expert is than usual; `dequantise_bytes` what expanding one quantised parameter moves;
    `feed_forward_tiles` pieces of a sequence that the feed-forward block takes one after the other.
    """

    method: Array = column(Method.FULL, "code")
    micro_batch: Array = column(1, "sequences")
    seq_len: Array = column(0, "tokens")
    grad_accum: Array = column(1, "micro-batches")
    data: Array = column(1, "GPUs")
    tensor: Array = column(1, "GPUs")
    pipeline: Array = column(1, "GPUs")
    virtual_pipeline: Array = column(1, "1")
    context: Array = column(1, "GPUs")
    expert: Array = column(1, "GPUs")
    sequence_parallel: Array = column(0, "flag")
    shard_stage: Array = column(0, "code")
    shard_degree: Array = column(1, "GPUs")
    offload_optimizer: Array = column(0, "flag")
    offload_params: Array = column(0, "flag")
    offload_activations: Array = column(0, "flag")
    feed_forward_tiles: Array = column(1, "1")
    recompute: Array = column(Recompute.NONE, "code")
    attention: Array = column(AttentionKernel.FLASH, "code")
    loss: Array = column(Loss.STANDARD, "code")
    compute_dtype: Array = column(Dtype.BF16, "code")
    activation_bytes: Array = column(2, "bytes/element")
    linear_weight_bytes: Array = column(2, "bytes/parameter")
    expert_weight_bytes: Array = column(0, "bytes/parameter")
    other_weight_bytes: Array = column(2, "bytes/parameter")
    gradient_bytes: Array = column(2, "bytes/parameter")
    master_bytes: Array = column(0, "bytes/parameter")
    optimizer_bytes: Array = column(8, "bytes/parameter")
    autocast: Array = column(0, "flag")
    quantized: Array = column(0, "flag")
    adapter_rank: Array = column(0, "1")
    adapter_params: Array = column(0, "parameters")
    adapter_modules: Array = column(0, "1")
    adapter_dropout: Array = column(0, "1")
    trainable_params: Array = column(0, "parameters")
    upcast_norms: Array = column(1, "flag")
    dropout: Array = column(0, "1")
    fused_kernels: Array = column(0, "flag")
    compiled: Array = column(0, "flag")
    token_fraction: Array = column(1, "1")
    gpus_per_node: Array = column(8, "GPUs")
    framework: Array = column(0, "code")
    memory_counter: Array = column(MemoryCounter.RESERVED, "code")
    adapter_weight_bytes: Array = column(4, "bytes/parameter")
    adapter_on_query: Array = column(0, "flag")
    adapter_on_key_value: Array = column(0, "1")
    adapter_on_output: Array = column(0, "flag")
    adapter_on_up: Array = column(0, "1")
    adapter_on_down: Array = column(0, "flag")
    adapter_on_experts: Array = column(0, "flag")
    trained_embeddings: Array = column(0, "flag")
    optimizer_temporary_bytes: Array = column(0, "bytes/parameter")
    accumulation_bytes: Array = column(0, "bytes/parameter")
    gather_bytes: Array = column(2, "bytes/parameter")
    reduce_bytes: Array = column(2, "bytes/parameter")
    residual_bytes: Array = column(2, "bytes/element")
    logit_bytes: Array = column(10, "bytes/logit")
    kept_logit_bytes: Array = column(0, "bytes/logit")
    frozen_input_copies: Array = column(0, "1")
    keeps_linear_inputs: Array = column(0, "flag")
    loads_whole: Array = column(0, "flag")
    scratch_limit: Array = column(0, "elements")
    layer_gradient_workspace: Array = column(0, "flag")
    expert_loop: Array = column(0, "flag")
    routed_bytes: Array = column(8, "bytes/element")
    norm_saved_bytes: Array = column(6, "bytes/element")
    gelu_tensors: Array = column(1, "1")
    softmax_upcast: Array = column(1, "flag")
    expanded_key_value: Array = column(0, "flag")
    expandable_segments: Array = column(0, "flag")
    fused_query_key_value: Array = column(0, "flag")
    naive_pipeline: Array = column(0, "flag")
    variable_length: Array = column(0, "flag")
    weight_update: Array = column(1, "flag")
    mean_length: Array = column(1, "1")
    weight_sync: Array = column(0, "flag")
    attention_version: Array = column(0, "code")
    segment_share: Array = column(1, "1")
    server_dispatch: Array = column(0, "flag")
    routing_skew: Array = column(1, "1")
    dequantise_bytes: Array = column(0, "bytes/parameter")

    @property
    def num_gpus(self) -> Array:
        """GPUs of the whole job -> [GPUs]."""
        return self.data * self.tensor * self.pipeline * self.context

    @property
    def tokens_per_step(self) -> Array:
        """Tokens of one optimizer step, whole job -> [tokens]."""
        return self.data * self.micro_batch * self.grad_accum * self.real_length

    @property
    def real_length(self) -> Array:
        """Tokens that a sequence has on average: `seq_len` less padding that is
        skipped -> [tokens]."""
        return self.seq_len * self.token_fraction * self.mean_length


@dataclass(frozen=True, slots=True)
class DeviceColumns(Columns):
    """One accelerator as software sees it. Rates per second, dense. A rate of 0 means the device
    does not have that arithmetic. `inline_ecc` 1 = error correction lies in the memory itself."""

    memory_bytes: Array = column(0, "bytes")
    memory_bandwidth: Array = column(0, "bytes/s")
    fp32_flops: Array = column(0, "FLOP/s")
    tf32_flops: Array = column(0, "FLOP/s")
    fp16_flops: Array = column(0, "FLOP/s")
    bf16_flops: Array = column(0, "FLOP/s")
    fp8_flops: Array = column(0, "FLOP/s")
    num_sms: Array = column(0, "1")
    l2_bytes: Array = column(0, "bytes")
    tdp_w: Array = column(0, "W")
    compute_capability: Array = column(0, "1")
    architecture: Array = column(0, "code")
    vendor: Array = column(0, "code")
    form: Array = column(0, "code")
    price_class: Array = column(0, "code")
    int8_ops: Array = column(0, "operations/s")
    fp4_flops: Array = column(0, "FLOP/s")
    host_bandwidth: Array = column(0, "bytes/s")
    inline_ecc: Array = column(0, "flag")

    def peak_flops(self, dtype: Array) -> Array:
        """Dense peak in the arithmetic `dtype` [code, Dtype] of each row -> [FLOP/s]; falls to fp32
        where the device lacks it."""
        rates = [self.fp32_flops, self.tf32_flops, self.fp16_flops, self.bf16_flops, self.fp8_flops]
        chosen = np.choose(dtype.astype(np.intp), rates)
        return np.where(chosen > 0, chosen, self.fp32_flops)


@dataclass(frozen=True, slots=True)
class LinkColumns(Columns):
    """What connects the GPUs. Bandwidths are bytes/s in one direction; `intra` per GPU, `inter` per
    node, latencies per message.

    `intra_kind`: 0 none, 1 PCIe, 2 NVLink pairs or partial mesh, 3 full switch (NVSwitch,
    xGMI, ICI, NeuronLink).
    `inter_kind`: 0 plain Ethernet (VPC), 1 EFA, 2 InfiniBand, 3 RoCE, 4 GPUDirect-TCPX/O, 5 eRDMA.
    """

    intra_bandwidth: Array = column(0, "bytes/s")
    inter_bandwidth: Array = column(0, "bytes/s")
    intra_latency_s: Array = column(0, "s")
    inter_latency_s: Array = column(0, "s")
    host_bandwidth: Array = column(0, "bytes/s")
    intra_kind: Array = column(0, "code")
    inter_kind: Array = column(0, "code")
