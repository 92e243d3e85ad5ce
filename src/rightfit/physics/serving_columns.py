"""The columns that describe how a model is served, and the coefficients that serving physics reads.

Like SetupColumns for training: every field is an array that broadcasts with all others, categories are small integers.

Source: definition.
"""

from __future__ import annotations

from enum import IntEnum

from rightfit.physics.columns import Array, Columns, Dtype, column
from rightfit.records import dataclass


class Load(IntEnum):
    """How requests come: a fixed batch, a fixed number of users, all at once with the engine choosing the batch, or at a rate."""

    STATIC = 0
    CLOSED = 1
    OFFLINE = 2
    OPEN = 3


class Math(IntEnum):
    """Arithmetic of the matrix products; the first five as in Dtype. MX: fp4 weights by fp8 activations, in 16 bit without fp4."""

    FP32 = Dtype.FP32
    TF32 = Dtype.TF32
    FP16 = Dtype.FP16
    BF16 = Dtype.BF16
    FP8 = Dtype.FP8
    INT8 = 5
    FP4 = 6
    MX = 7


class ServingCounter(IntEnum):
    """Which memory figure is asked for: tensors of all devices or of one, or what the driver shows for one device or for all."""

    TENSORS_ALL = 0
    TENSORS_ONE = 1
    DRIVER_ONE = 2
    DRIVER_ALL = 3


@dataclass(frozen=True, slots=True)
class ServeColumns(Columns):
    """How a model is served. Sizes in bytes per parameter or element.

    `linear_bytes`, `expert_bytes`, `attention_bytes` what one parameter of the dense layers, of the routed experts and of attention takes,
    quantisation constants included; `other_bytes` the same for embeddings and head; `kv_bytes` one element of the cache.
    `quantile` of the latencies that is asked for (0 = their mean). `cached_tokens` of each prompt that are in the cache already, `token_limit_s` and
    `first_limit_s` the most that a token and the first token may take where the engine chooses how many run (0 = no limit).
    `dequantise_ops` operations to expand one stored weight. `batch` concurrent sequences (0 = the engine chooses), `requests` how many
    there are in all (0 = endless), `rate` [1/s] of an open load; `varied_lengths` 1 = answers of a finite run differ in length as those of a
    chat do, `front_end` 1 = requests come one by one through a server's front end. `tensor` x `pipeline` x `attention_data` = devices of one replica, of
    which `data` run beside each other; `expert` devices share the experts whole. `peer_access` 1 = PCIe cards of a server read one
    another's memory (0: through the host's, as in virtual machines and with GeForce cards). `layer_split` 1 = the stages of `pipeline` work
    one after the other (device_map, llama.cpp), `pipelined_prefill` 1 = they overlap on the pieces of a prompt. `chunk_tokens` of a prompt
    that are treated at a time (0 = all). `cache_tokens` slots of the cache that are reserved in advance (0 = grows). `head_copies` how
    often the output head is stored beside the embedding. `full_logits` bytes per logit kept for each prompt token. `memory_fraction` of the
    device that the engine takes, where `fraction_of_free` is 1 of what is free beside the weights; `kv_reserve` share of the output length
    for which it keeps room when it admits a request. `family` and `engine` are rows of the coefficient tables; `version` of the engine as
    major + minor / 100.
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
    """Coefficients of each row (facts/data/coefficients/serving.toml). Fractions are of the data sheet.

    `stream_fraction` of memory bandwidth that reading weights reaches in one large product; `stream_ramp_bytes` read in one product at
    which half of that is lost; `attention_stream` the same fraction for the cache; `gemm_fraction` of peak for long products, `gemm_ramp`
    tokens at which half of it is lost; `flash_fraction` of peak in fused attention; `kernel_quality` multiplies bandwidth of the engine's
    decode kernels, `gemm_quality` the rate of its products; `launch_s` host time per layer and step where the engine launches each kernel
    itself, `layer_s` time lost between the kernels of one layer on the device; `step_s` host time per step, `sequence_s` per sequence and
    step, `request_s` per request before its first token. `mla_layer_s`, `moe_layer_s`, `linear_layer_s`, `index_layer_s` further kernels of
    such layers, `moe_launch_s` host time where experts are called one by one. `prefill_launch_s` as `launch_s` for prompts, which graphs do
    not cover, `moe_prefill_launch_s` what a layer of experts adds to it; `ungraphed_s` as `launch_s` beyond the graph limit;
    `tensor_launch` the share by which launching grows where tensor ranks wait for one another.
    `front_s` of taking one of many requests in that come at once, `longest_answer` of a finite run over the mean one at most.
    `all_reduce_s` latency of one all-reduce, `link_fraction` of the link that it reaches. `cache_passes` over the cache beside the one read
    (copies of engines that grow tensors), `repeat_passes` as many more for each query head that shares a key head. `half_accumulation` 1 =
    products accumulate in 16 bit, at twice the rate on GeForce cards. `pipeline_loss` per further stage where stages overlap.
    `joules_per_flop` bounds 16-bit products by the card's power (0 = not). `expert_skew` how unequal experts are chosen: tokens that count
    as independent.
    `grouped_gemm` multiplies the rate of products of many experts, each of which wastes `expert_ramp` rows of its last tile; `desktop_host`
    the host's times where the card is a desktop's, whose processor has a higher clock; `host_staging` the PCIe link of cards that meet in
    the host's memory, `socket_crossing` that of such groups over both sockets of a server.
    `pass_bytes` activation traffic per token and hidden element of a layer's prefill. `dequantise_rate` of fp32 peak.
    Not fitted (coefficients/operators.toml): `sharpness` with which one bound takes over from another; `fp32_ratio`, `vector_ratio` of
    16-bit arithmetic over 32-bit and vector units where those are not stated; `score_bytes` that unfused attention moves per score.
    """

    stream_fraction: Array = column(1, "1")
    stream_ramp_bytes: Array = column(0, "bytes")
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
