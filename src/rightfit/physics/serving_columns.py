"""The columns that describe how a model is served, and the coefficients that serving physics reads.

Like SetupColumns for training: every field is an array that broadcasts with all others, categories
are small integers.

Source: definition.

Memory of serving: weights by format, key-value cache by architecture, workspace, and how
many sequences fit.

All functions take columns of shape (N,) or (1,) and return bytes or counts of the broadcast shape.

Source: accounting; Kwon et al. 2023 (PagedAttention), DeepSeek-AI 2024 (DeepSeek-V2);
docs/decisions/serving-physics.md.

LoRA adapters served beside one another over the same weights.

Source: Chen et al. 2024 (Punica, MLSys) and Sheng et al. 2024 (S-LoRA, MLSys); Hu et al. 2021
(LoRA) for the sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

import numpy as np

from rightfit.physics import transformer
from rightfit.physics.columns import Array, AttentionKind, Columns, DeviceColumns, Dtype, ModelColumns, column, remembered
from rightfit.records import dataclass
from rightfit.units import FP32_BYTES


class Load(IntEnum):
    """How requests come: a fixed batch, a fixed number of users, all at once with the engine
    choosing the batch, or at a rate."""

    STATIC = 0
    CLOSED = 1
    OFFLINE = 2
    OPEN = 3


class Math(IntEnum):
    """Arithmetic of the matrix products; the first five as in Dtype. MX: fp4 weights by fp8
    activations, in 16 bit without fp4."""

    FP32 = Dtype.FP32
    TF32 = Dtype.TF32
    FP16 = Dtype.FP16
    BF16 = Dtype.BF16
    FP8 = Dtype.FP8
    INT8 = 5
    FP4 = 6
    MX = 7


class ServingCounter(IntEnum):
    """Which memory figure is asked for: tensors of all devices or of one, or what the driver shows
    for one device or for all."""

    TENSORS_ALL = 0
    TENSORS_ONE = 1
    DRIVER_ONE = 2
    DRIVER_ALL = 3


@dataclass(frozen=True, slots=True)
class ServeColumns(Columns):
    """How a model is served. Sizes in bytes per parameter or element.

    `linear_bytes`, `expert_bytes`, `attention_bytes` what one parameter of the dense layers, of the
    routed experts and of attention takes, quantisation constants included; `other_bytes` the same
    for embeddings and head; `kv_bytes` one element of the cache.
    `quantile` of the latencies that is asked for (0 = their mean). `cached_tokens` of each prompt
    that are in the cache already, `token_limit_s` and `first_limit_s` the most that a token and the
    first token may take where the engine chooses how many run (0 = no limit).
    `dequantise_ops` operations to expand one stored weight. `batch` concurrent sequences (0 = the
    engine chooses), `requests` how many there are in all (0 = endless), `rate` [1/s] of an open
    load; `varied_lengths` 1 = answers of a finite run differ in length as those of a chat do,
    `front_end` 1 = requests come one by one through a server's front end. `tensor` x `pipeline` x
    `attention_data` = devices of one replica, of which `data` run beside each other; `expert`
    devices share the experts whole. `peer_access` 1 = PCIe cards of a server read one another's
    memory (0: through the host's, as in virtual machines and with GeForce cards). `layer_split` 1 =
    the stages of `pipeline` work one after the other (device_map, llama.cpp), `pipelined_prefill`
    1 = they overlap on the pieces of a prompt. `chunk_tokens` of a prompt that are treated at a
    time (0 = all). `cache_tokens` slots of the cache that are reserved in advance (0 = grows).
    `head_copies` how often the output head is stored beside the embedding. `full_logits` bytes per
    logit kept for each prompt token. `memory_fraction` of the device that the engine takes, where
    `fraction_of_free` is 1 of what is free beside the weights; `graph_bytes` of captured graphs
    that lie outside that share; `expert_tile` to whose multiples the kernels pad the width of an
    expert (0 = not); `longest_tokens` of one request that the engine must hold to start (0 = those
    of a request). `kv_reserve` share of the output length for which it keeps room when it admits a
    request. `family` and `engine` are rows of the
    coefficient tables; `version` of the engine as major + minor / 100.
    """

    linear_bytes: Array = column(2, "bytes/parameter")
    expert_bytes: Array = column(2, "bytes/parameter")
    attention_bytes: Array = column(2, "bytes/parameter")
    other_bytes: Array = column(2, "bytes/parameter")
    kv_bytes: Array = column(2, "bytes/element")
    activation_bytes: Array = column(2, "bytes/element")
    math: Array = column(Math.BF16, "code")
    dequantise_ops: Array = column(0, "operations/parameter")
    weight_format: Array = column(0, "code")
    tensor: Array = column(1, "GPUs")
    pipeline: Array = column(1, "GPUs")
    expert: Array = column(1, "GPUs")
    data: Array = column(1, "GPUs")
    attention_data: Array = column(1, "GPUs")
    layer_split: Array = column(0, "flag")
    pipelined_prefill: Array = column(0, "flag")
    gpus_per_node: Array = column(8, "GPUs")
    peer_access: Array = column(0, "flag")
    load: Array = column(Load.STATIC, "code")
    batch: Array = column(1, "sequences")
    requests: Array = column(0, "requests")
    rate: Array = column(0, "requests/s")
    quantile: Array = column(0, "1")
    cached_tokens: Array = column(0, "tokens")
    first_limit_s: Array = column(0, "s")
    token_limit_s: Array = column(0, "s")
    varied_lengths: Array = column(0, "flag")
    front_end: Array = column(0, "flag")
    input_tokens: Array = column(0, "tokens")
    output_tokens: Array = column(1, "tokens")
    max_batch: Array = column(256, "sequences")
    chunk_tokens: Array = column(0, "tokens")
    cache_tokens: Array = column(0, "tokens")
    head_copies: Array = column(0, "1")
    full_logits: Array = column(0, "bytes/logit")
    memory_fraction: Array = column(0.9, "1")
    fraction_of_free: Array = column(0, "flag")
    graph_bytes: Array = column(0, "bytes")
    expert_tile: Array = column(0, "elements")
    longest_tokens: Array = column(0, "tokens")
    kv_reserve: Array = column(1, "1")
    kv_block: Array = column(16, "tokens")
    engine: Array = column(0, "code")
    family: Array = column(0, "code")
    version: Array = column(0, "code")
    counter: Array = column(ServingCounter.DRIVER_ONE, "code")
    eager_attention: Array = column(0, "flag")
    graph_limit: Array = column(0, "sequences")
    continuous: Array = column(1, "flag")
    weight_copies: Array = column(1, "1")
    offload_bandwidth: Array = column(0, "bytes/s")

    @property
    def num_devices(self) -> Array:
        """Devices of all replicas -> [GPUs]."""
        return self.data * self.tensor * self.pipeline * self.attention_data


@dataclass(frozen=True, slots=True)
class ServeRates(Columns):
    """Coefficients of each row (facts/data/coefficients/serving.toml). Fractions are
    of the data sheet.

    `stream_fraction` of memory bandwidth that reading weights reaches in one large product;
    `stream_ramp_s` before a product streams at it; `attention_stream` the
    same fraction for the cache; `gemm_fraction` of peak for long products, `gemm_ramp` tokens at
    which half of it is lost; `flash_fraction` of peak in fused attention; `kernel_quality`
    multiplies bandwidth of the engine's decode kernels, `gemm_quality` the rate of its products;
    `launch_s` host time per layer and step where the engine launches each kernel itself, `layer_s`
    time lost between the kernels of one layer on the device; `step_s` host time per step,
    `sequence_s` per sequence and step, `request_s` per request before its first token.
    `mla_layer_s`, `moe_layer_s`, `linear_layer_s`, `index_layer_s` further kernels of such layers,
    `moe_launch_s` host time where experts are called one by one. `prefill_launch_s` as `launch_s`
    for prompts, which graphs do not cover, `moe_prefill_launch_s` what a layer of experts adds to
    it; `ungraphed_s` as `launch_s` beyond the graph limit; `tensor_launch` the share by which
    launching grows where tensor ranks wait for one another.
    `front_s` of taking one of many requests in that come at once, `longest_answer` of a finite run
    over the mean one at most. `all_reduce_s` latency of one all-reduce, `link_fraction` of the link
    that it reaches. `cache_passes` over the cache beside the one read (copies of engines that grow
    tensors), `repeat_passes` as many more for each query head that shares a key head.
    `half_accumulation` 1 = products accumulate in 16 bit, at twice the rate on GeForce cards.
    `pipeline_loss` per further stage where stages overlap. `joules_per_flop` bounds 16-bit products
    by the card's power (0 = not). `expert_skew` how unequal experts are chosen: tokens that count
    as independent. `grouped_gemm` multiplies the rate of products of many experts, each of which
    wastes `expert_ramp` rows of its last tile; `desktop_host` the host's times where the card is a
    desktop's, whose processor has a higher clock; `host_staging` the PCIe link of cards that meet
    in the host's memory, `socket_crossing` that of such groups over both sockets of a server.
    `pass_bytes` activation traffic per token and hidden element of a layer's prefill.
    `dequantise_rate` of fp32 peak.
    Not fitted (coefficients/operators.toml): `sharpness` with which one bound takes over from
    another; `fp32_ratio`, `vector_ratio` of 16-bit arithmetic over 32-bit and vector units where
    those are not stated; `score_bytes` that unfused attention moves per score.
    """

    stream_fraction: Array = column(1, "1")
    stream_ramp_s: Array = column(0, "s")
    attention_stream: Array = column(1, "1")
    gemm_fraction: Array = column(1, "1")
    gemm_ramp: Array = column(0, "tokens")
    flash_fraction: Array = column(1, "1")
    kernel_quality: Array = column(1, "1")
    gemm_quality: Array = column(1, "1")
    format_stream: Array = column(1, "1")
    format_gemm: Array = column(1, "1")
    launch_s: Array = column(0, "s")
    layer_s: Array = column(0, "s")
    step_s: Array = column(0, "s")
    sequence_s: Array = column(0, "s")
    request_s: Array = column(0, "s")
    prompt_token_s: Array = column(0, "s")
    mla_layer_s: Array = column(0, "s")
    moe_layer_s: Array = column(0, "s")
    linear_layer_s: Array = column(0, "s")
    index_layer_s: Array = column(0, "s")
    all_reduce_s: Array = column(0, "s")
    link_fraction: Array = column(1, "1")
    cache_passes: Array = column(0, "1")
    repeat_passes: Array = column(0, "1")
    moe_launch_s: Array = column(0, "s")
    prefill_launch_s: Array = column(0, "s")
    moe_prefill_launch_s: Array = column(0, "s")
    ungraphed_s: Array = column(0, "s")
    format_launch: Array = column(1, "1")
    tensor_launch: Array = column(0, "1")
    half_accumulation: Array = column(0, "flag")
    pipeline_loss: Array = column(0, "1")
    joules_per_flop: Array = column(0, "J/FLOP")
    expert_skew: Array = column(1, "1")
    pass_bytes: Array = column(0, "bytes/element")
    dequantise_rate: Array = column(1, "1")
    interference: Array = column(1, "1")
    burst: Array = column(0, "1")
    front_s: Array = column(0, "s")
    longest_answer: Array = column(1, "1")
    grouped_gemm: Array = column(1, "1")
    expert_ramp: Array = column(0, "tokens")
    desktop_host: Array = column(1, "1")
    socket_crossing: Array = column(1, "1")
    host_staging: Array = column(1, "1")
    sharpness: Array = column(1, "1")
    fp32_ratio: Array = column(1, "1")
    vector_ratio: Array = column(1, "1")
    score_bytes: Array = column(0, "bytes")


STATE_HEAD = 64.0  # elements; Dao and Gu 2024 (Mamba-2): the usual head of a state-space layer


def attention_layers(model: ModelColumns) -> Array:
    """Layers that attend to the whole context: those stated, else all that are neither sliding nor
    linear -> [layers].

    Source: accounting; Kwon et al. 2023 (PagedAttention), DeepSeek-AI 2024 (DeepSeek-V2);
    docs/decisions/serving-physics.md.
    """
    rest = model.num_layers - model.num_sliding_layers - model.num_linear_layers
    return np.where(model.num_full_attention_layers > 0, model.num_full_attention_layers, np.maximum(rest, 0.0))


def sliding_layers(model: ModelColumns) -> Array:
    """Layers whose attention spans `sliding_window` tokens; a purely sliding model has no
    other -> [layers].

    Source: accounting; Kwon et al. 2023 (PagedAttention), DeepSeek-AI 2024 (DeepSeek-V2);
    docs/decisions/serving-physics.md.
    """
    only = np.equal(model.attention_kind, AttentionKind.SLIDING) & (model.num_sliding_layers == 0) & (model.sliding_window > 0)
    return np.where(only, model.num_layers, model.num_sliding_layers)


def kv_bytes_per_token_layer(model: ModelColumns, kv_bytes: Array) -> Array:
    """Cache of one token in one attention layer: 2 x kv heads x head size, or MLA's
    latent and rope key.

    `kv_bytes` [bytes/element] -> [bytes].

    Source: accounting; Kwon et al. 2023 (PagedAttention), DeepSeek-AI 2024 (DeepSeek-V2);
    docs/decisions/serving-physics.md.
    """
    return transformer.key_value_width(model) * kv_bytes


def attended_tokens(model: ModelColumns, context: Array) -> Array:
    """Sum over layers of the tokens that a new one attends to: context in full layers, at most the
    window in sliding ones.

    `context` [tokens] -> [tokens].

    Source: accounting; Kwon et al. 2023 (PagedAttention), DeepSeek-AI 2024 (DeepSeek-V2);
    docs/decisions/serving-physics.md.
    """
    windowed = sliding_layers(model)
    full = np.where((windowed >= model.num_layers) & (model.num_full_attention_layers == 0), 0.0, attention_layers(model))
    full = np.minimum(full, np.maximum(model.num_layers - windowed, 0.0))
    window = np.where(model.sliding_window > 0, np.minimum(context, model.sliding_window), context)
    chosen = model.sparse_layers + model.pooled_layers
    return np.maximum(full - chosen, 0.0) * context + windowed * window + chosen_entries(model, context)


def chosen_entries(model: ModelColumns, context: Array) -> Array:
    """Sum over sparse and pooled layers of the entries that a new token attends to: those that the
    indexer chooses of every `sparse_stride` tokens, all of every `pooled_stride`, and the window.

    `context` [tokens] -> [1].

    Source: DeepSeek-AI 2025 (DeepSeek-V3.2: sparse attention), 2026 (DeepSeek-V4: compressed).
    """
    beside = np.minimum(context, model.cache_window)
    sparse = np.minimum(context / model.sparse_stride, np.where(model.sparse_most > 0, model.sparse_most, np.inf))
    return np.asarray(model.sparse_layers * (sparse + beside) + model.pooled_layers * (context / model.pooled_stride + beside))


def read_bytes(model: ModelColumns, kv_bytes: Array, context: Array) -> Array:
    """What a new token reads of the cache over all layers, the indexers' keys included.

    `kv_bytes` [bytes/element], `context` [tokens] -> [bytes].

    Source: accounting; facts/data/attention_kinds.csv where bytes were counted.
    """
    each = kv_bytes_per_token_layer(model, kv_bytes) * model.key_value_share
    by_formula = attended_tokens(model, context) * each + context * model.index_bytes * kv_bytes / 2.0
    counted = (context * model.cache_bytes + np.minimum(context, model.cache_window) * model.window_bytes) * kv_bytes / 2.0
    return np.where((model.cache_bytes > 0) & (model.sparse_layers == 0), counted, by_formula)


def index_flops(model: ModelColumns, keys: Array) -> Array:
    """Operations of all indexers.

    `keys` [1] pairs of a query and a token of its context -> [FLOP].

    Source: DeepSeek-AI 2025 (DeepSeek-V3.2: sparse attention), by counting.
    """
    return 2.0 * keys / model.sparse_stride * model.num_index_layers * model.index_heads * model.index_width


def kv_cache_bytes(model: ModelColumns, serve: ServeColumns, *, tokens: Array) -> Array:
    """Cache of one sequence of `tokens` [bytes, all devices, without replication],
    rounded up to blocks.

    `tokens` [tokens] -> [bytes].
    State-space layers hold a state of fixed size, counted as 16 bytes x hidden x
    head size per layer.

    Source: accounting; Kwon et al. 2023 (PagedAttention), DeepSeek-AI 2024 (DeepSeek-V2);
    docs/decisions/serving-physics.md.
    """
    block = np.maximum(serve.kv_block, 1.0)
    rounded = np.ceil(tokens / block) * block
    state = model.num_linear_layers * model.hidden_size * np.maximum(model.head_dim, STATE_HEAD) * 2.0 * 2.0
    state = np.where(model.state_bytes > 0, model.state_bytes, state)
    plain = model.replace(sparse_layers=np.zeros(1), pooled_layers=np.zeros(1))
    by_formula = attended_tokens(plain, rounded) * kv_bytes_per_token_layer(model, serve.kv_bytes)
    held = rounded * (model.cache_bytes + model.index_bytes) + np.minimum(rounded, model.cache_window) * model.window_bytes
    return np.where(model.cache_bytes > 0, held * serve.kv_bytes / 2.0, by_formula) + state


def kv_replication(model: ModelColumns, serve: ServeColumns) -> Array:
    """How many tensor ranks hold the same part of the cache: all of them for MLA's latent, tensor /
    kv heads where heads are fewer.

    -> [1].

    Source: accounting; Kwon et al. 2023 (PagedAttention), DeepSeek-AI 2024 (DeepSeek-V2);
    docs/decisions/serving-physics.md.
    """
    heads = np.where(transformer.is_mla(model), 1.0, np.maximum(model.num_kv_heads, 1.0))
    return np.maximum(serve.tensor / heads, 1.0)


@remembered
def attention_layer_parameters(model: ModelColumns) -> Array:
    """Parameters of all attention blocks, at most what the body holds beside the
    experts -> [parameters].

    Source: accounting; Kwon et al. 2023 (PagedAttention), DeepSeek-AI 2024 (DeepSeek-V2);
    docs/decisions/serving-physics.md.
    """
    rest = np.maximum(transformer.linear_parameters(model) - transformer.routed_expert_parameters(model), 0.0)
    return np.minimum(model.num_layers * transformer.attention_parameters(model), rest)


@remembered
def dense_layer_parameters(model: ModelColumns) -> Array:
    """Parameters of dense feed-forward blocks and shared experts -> [parameters].

    Source: accounting; Kwon et al. 2023 (PagedAttention), DeepSeek-AI 2024 (DeepSeek-V2);
    docs/decisions/serving-physics.md.
    """
    rest = transformer.linear_parameters(model) - transformer.routed_expert_parameters(model) - attention_layer_parameters(model)
    return np.maximum(rest, 0.0)


def head_and_embedding_parameters(model: ModelColumns) -> Array:
    """Token embedding, output head when it is its own, norms and routers -> [parameters].

    Source: accounting; Kwon et al. 2023 (PagedAttention), DeepSeek-AI 2024 (DeepSeek-V2);
    docs/decisions/serving-physics.md.
    """
    return np.maximum(transformer.total_parameters(model) - transformer.linear_parameters(model) - model.params_vision, 0.0)


def weights_bytes(model: ModelColumns, serve: ServeColumns) -> Array:
    """All weights once, each part in its format; the vision tower in 16 bit -> [bytes].

    Source: accounting; Kwon et al. 2023 (PagedAttention), DeepSeek-AI 2024 (DeepSeek-V2);
    docs/decisions/serving-physics.md.
    """
    return (
        attention_layer_parameters(model) * serve.attention_bytes
        + dense_layer_parameters(model) * serve.linear_bytes
        + transformer.routed_expert_parameters(model) * serve.expert_bytes
        + head_and_embedding_parameters(model) * serve.other_bytes
        + model.params_vision * 2.0
    )


def expert_padding(model: ModelColumns, serve: ServeColumns) -> Array:
    """What the experts take on devices over what they hold: kernels of block formats pad the part
    of an expert's width that one device has to whole tiles.

    -> [1]. gpt-oss on one card: 2,880 of 3,072 rows, 1.067; on eight: 360 of 512, 1.42.

    Source: vLLM 2025 (layers/quantization/mxfp4.py: round_up of the intermediate size).
    """
    ways = np.where(serve.expert > 1, 1.0, serve.tensor)
    width = np.maximum(model.moe_intermediate_size / ways, 1.0)
    tile = np.maximum(serve.expert_tile, 1.0)
    return np.where((serve.expert_tile > 0) & (model.moe_intermediate_size > 0), np.ceil(width / tile) * tile / width, 1.0)


def weights_bytes_per_device(model: ModelColumns, serve: ServeColumns) -> Array:
    """Weights of one device: cut by tensor and pipeline; experts also by attention-data ranks;
    attention is replicated over those.

    -> [bytes].

    Source: accounting; Kwon et al. 2023 (PagedAttention), DeepSeek-AI 2024 (DeepSeek-V2);
    docs/decisions/serving-physics.md.
    """
    experts = transformer.routed_expert_parameters(model) * serve.expert_bytes
    shared = weights_bytes(model, serve) - experts
    return (shared + experts * expert_padding(model, serve) / serve.attention_data) / (serve.tensor * serve.pipeline)


def prompt_workspace_bytes(
    model: ModelColumns, serve: ServeColumns, *, tokens: Array, sequences: Array, block_share: Array | float = 1.0
) -> Array:
    """Largest temporary tensors of a prompt pass of `tokens` [bytes on one device].

    `tokens` [tokens], `sequences` [sequences], `block_share` [1] -> [bytes].
    The larger of a feed-forward block's tensors (gate, up, product and residual; `block_share` of
    them live at once) and the logits, each with its copies.

    Source: accounting; Kwon et al. 2023 (PagedAttention), DeepSeek-AI 2024 (DeepSeek-V2);
    docs/decisions/serving-physics.md.
    """
    width = np.where(model.num_experts > 0, model.moe_intermediate_size * (model.experts_per_token + 1.0), model.intermediate_size)
    block = block_share * tokens * (3.0 * width / serve.tensor + 4.0 * model.hidden_size) * serve.activation_bytes
    heads = serve.eager_attention * tokens**2 * model.num_heads / serve.tensor * (serve.activation_bytes + FP32_BYTES)
    logits = np.where(serve.full_logits > 0, tokens * serve.full_logits, sequences * (serve.activation_bytes + FP32_BYTES))
    logits = logits * model.vocab_size
    return np.maximum(np.maximum(block, heads), logits)


def kv_room_bytes(
    model: ModelColumns, serve: ServeColumns, device: DeviceColumns, *, overhead_bytes: Array, coefficients: Mapping[str, float]
) -> Array:
    """What is left for the cache on one device: its share of memory less weights, workspace and
    overheads, or that share of what is free beside those (TensorRT-LLM: free_gpu_memory_fraction;
    LMDeploy: cache_max_entry_count).

    `overhead_bytes` [bytes], `coefficients` [coefficients] -> [bytes].

    Source: accounting; Kwon et al. 2023 (PagedAttention), DeepSeek-AI 2024 (DeepSeek-V2);
    docs/decisions/serving-physics.md.
    """
    taken = reserved_bytes(model, serve, overhead_bytes=overhead_bytes, coefficients=coefficients)
    return np.maximum(usable_bytes(serve, device, taken_bytes=taken, coefficients=coefficients) - taken, 0.0)


def reserved_bytes(model: ModelColumns, serve: ServeColumns, *, overhead_bytes: Array, coefficients: Mapping[str, float]) -> Array:
    """What lies in an engine's share of one device beside the cache: weights, workspace, and
    `overhead_bytes` but for the graphs, which it captures in what the share leaves.

    `overhead_bytes` [bytes], `coefficients` [coefficients] -> [bytes].

    Source: accounting; vLLM (gpu_worker.py: the cache is sized before graphs are captured).
    """
    workspace = engine_workspace_bytes(model, serve, coefficients=coefficients)
    return weights_bytes_per_device(model, serve) + workspace + np.maximum(overhead_bytes - serve.graph_bytes, 0.0)


def engine_workspace_bytes(model: ModelColumns, serve: ServeColumns, *, coefficients: Mapping[str, float]) -> Array:
    """Temporary tensors that an engine keeps room for on one device: those of its
    longest piece of prompts.

    `coefficients` [coefficients]: `longest_piece_tokens` where it does not cut prompts,
    `most_prompts` at once -> [bytes].

    Source: accounting; Kwon et al. 2023 (PagedAttention), DeepSeek-AI 2024 (DeepSeek-V2);
    docs/decisions/serving-physics.md.
    """
    tokens = np.where(
        serve.chunk_tokens > 0, serve.chunk_tokens, np.minimum(serve.input_tokens + 1.0, coefficients["longest_piece_tokens"])
    )
    return prompt_workspace_bytes(model, serve, tokens=tokens, sequences=np.minimum(serve.max_batch, coefficients["most_prompts"]))


def visible_bytes(device: DeviceColumns, *, coefficients: Mapping[str, float]) -> Array:
    """What of a device's nominal memory software can fill: less what the driver keeps, and the
    sixteenth in which cards with GDDR6 hold their error correction.

    `coefficients` [coefficients]: `visible_share`, `inline_ecc_share` -> [bytes].

    Source: nvidia-smi totals of 2024 (A100-80: 79.1 GiB, A10G: 22.0, T4: 14.7).
    """
    return device.memory_bytes * coefficients["visible_share"] * (1.0 - coefficients["inline_ecc_share"] * device.inline_ecc)


def usable_bytes(serve: ServeColumns, device: DeviceColumns, *, taken_bytes: Array, coefficients: Mapping[str, float]) -> Array:
    """What an engine may fill of a device, cache included, where weights, workspace and overheads
    take `taken_bytes` of it: its share, and never what its graphs need.

    `taken_bytes` [bytes], `coefficients` [coefficients] -> [bytes].

    Source: accounting; Kwon et al. 2023 (PagedAttention), DeepSeek-AI 2024 (DeepSeek-V2);
    docs/decisions/serving-physics.md.
    """
    visible = visible_bytes(device, coefficients=coefficients)
    of_free = taken_bytes + (visible - taken_bytes) * serve.memory_fraction
    share = np.where(serve.fraction_of_free > 0, of_free, visible * serve.memory_fraction)
    return np.minimum(share, visible - serve.graph_bytes)


def kv_bytes_per_device(model: ModelColumns, serve: ServeColumns, *, tokens: Array) -> Array:
    """Cache of one sequence on the fullest device, replication counted; attention-data ranks each
    hold their own sequences.

    `tokens` [tokens] -> [bytes].

    Source: accounting; Kwon et al. 2023 (PagedAttention), DeepSeek-AI 2024 (DeepSeek-V2);
    docs/decisions/serving-physics.md.
    """
    whole = kv_cache_bytes(model, serve, tokens=tokens)
    return whole * kv_replication(model, serve) / (serve.tensor * serve.pipeline * serve.attention_data)


def max_sequences(
    model: ModelColumns, serve: ServeColumns, device: DeviceColumns, *, overhead_bytes: Array, coefficients: Mapping[str, float]
) -> Array:
    """Sequences that fit at once, at least one: cache room over the cache of a request with the
    share of its output that is kept free.

    `overhead_bytes` [bytes], `coefficients` [coefficients] -> [sequences].

    Source: accounting; Kwon et al. 2023 (PagedAttention), DeepSeek-AI 2024 (DeepSeek-V2);
    docs/decisions/serving-physics.md.
    """
    tokens = serve.input_tokens + serve.output_tokens * serve.kv_reserve
    one = kv_bytes_per_device(model, serve, tokens=np.maximum(tokens, 1.0))
    room = kv_room_bytes(model, serve, device, overhead_bytes=overhead_bytes, coefficients=coefficients)
    return np.clip(np.floor(room / np.maximum(one, 1.0)), 1.0, serve.max_batch * serve.attention_data)


_ONE, _TWO, _NONE = np.ones(1), np.full(1, 2.0), np.zeros(1)
#: Matrices of a layer that an adapter of all linear layers changes: q, k, v, o, gate, up, down.
ADAPTED_MATRICES = 7.0


def adapter_bytes(model: ModelColumns, *, rank: Array, bytes_each: float = 2.0) -> Array:
    """One adapter of all linear layers.

    `rank` [1], `bytes_each` [bytes/parameter] -> [bytes]. Llama-3-8B at rank 16: 41.9 M parameters,
    84 MB. Of experts only shared ones are adapted.

    Source: Chen et al. 2024 (Punica, MLSys) and Sheng et al. 2024 (S-LoRA, MLSys); Hu et al. 2021
    (LoRA) for the sizes.
    """
    count = transformer.adapter_parameters(
        model,
        rank=rank,
        query=_ONE,
        key_value=_TWO,
        output=_ONE,
        up=np.where(transformer.is_gated(model), 2.0, 1.0),
        down=_ONE,
        experts=_NONE,
    )
    return count * bytes_each


def adapters_touched(adapters: Array, *, batch: Array) -> Array:
    """Different adapters that `batch` sequences use when each is as likely: A (1 -
    (1 - 1 / A)^B), (N,).

    `adapters` [adapters], `batch` [sequences] -> [adapters].

    Source: Chen et al. 2024 (Punica, MLSys) and Sheng et al. 2024 (S-LoRA, MLSys); Hu et al. 2021
    (LoRA) for the sizes.
    """
    return np.where(adapters > 0, adapters * -np.expm1(batch * np.log1p(-1.0 / np.maximum(adapters, 1.0 + 1e-9))), 0.0)


def adapter_step_s(
    model: ModelColumns, *, adapters: Array, rank: Array, batch: Array, kernel_s: Array, bandwidth: Array, devices: Array
) -> Array:
    """What adapters add to a step.

    `adapters` [adapters] served at once, `rank` [1], `batch` [sequences], `kernel_s` [s] of the
    small products of one adapted matrix, `bandwidth` [bytes/s] of one device as reached, `devices`
    [GPUs] that share each layer -> [s].
    The longer of launching all small products and of reading the adapters that the batch touches.
    Known error: Punica's 2 ms a token on Llama-2-7B is what `kernel_s` was taken from; engines that
    fuse the products of a layer need half of it.

    Source: Chen et al. 2024 (Punica, MLSys) and Sheng et al. 2024 (S-LoRA, MLSys); Hu et al. 2021
    (LoRA) for the sizes.
    """
    launching = model.num_layers * ADAPTED_MATRICES * kernel_s
    reading = adapters_touched(adapters, batch=batch) * adapter_bytes(model, rank=rank) / (bandwidth * devices)
    return np.where(adapters > 0, np.maximum(launching, reading), 0.0)
