"""The columns that describe how a model is served, and the coefficients that serving physics reads.

Like SetupColumns for training: every field is an array that broadcasts with all others, categories are small integers.
"""

from __future__ import annotations

import dataclasses
from enum import IntEnum

from rightfit.physics.columns import Array, Columns, Dtype, column


class Load(IntEnum):
    """How requests come: a fixed batch, a fixed number of users, all at once with the engine choosing the batch, or at a rate."""

    STATIC = 0
    CLOSED = 1
    OFFLINE = 2
    OPEN = 3


class Math(IntEnum):
    """Arithmetic of the matrix products; the first five as in Dtype. MX: fp4 weights by fp8 activations, on devices without fp4 in 16 bit."""

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


@dataclasses.dataclass(frozen=True, slots=True)
class ServeColumns(Columns):
    """How a model is served. Sizes in bytes per parameter or element.

    `linear_bytes`, `expert_bytes`, `attention_bytes` what one parameter of the dense layers, of the routed experts and of attention takes,
    quantisation constants included; `other_bytes` the same for embeddings and head; `kv_bytes` one element of the cache.
    `dequantise_ops` operations to expand one stored weight. `batch` concurrent sequences (0 = the engine chooses), `requests` how many
    there are in all (0 = endless), `rate` [1/s] of an open load. `tensor` x `pipeline` x `attention_data` = devices of one replica, of which
    `data` run beside each other; `expert` devices share the experts whole. `peer_access` 1 = PCIe cards of a server read one another's memory (0: through the
    host's, as in virtual machines and with GeForce cards). `layer_split` 1 = the stages of `pipeline` work one after
    the other (device_map, llama.cpp), `pipelined_prefill` 1 = they overlap on the pieces of a prompt. `chunk_tokens` of a prompt that are treated at a time
    (0 = all). `cache_tokens` slots of the cache that are reserved in advance (0 = grows). `head_copies` how often the output head is stored beside the embedding. `full_logits` bytes per logit kept for each prompt
    token. `memory_fraction` of the device that the engine takes, where `fraction_of_free` is 1
    of what is free beside the weights; `kv_reserve` share of the output length for which it keeps room
    when it admits a request. `family` and `engine` are rows of the coefficient tables; `version` of the engine as major + minor / 100.
    """

    linear_bytes: Array = column(2)
    expert_bytes: Array = column(2)
    attention_bytes: Array = column(2)
    other_bytes: Array = column(2)
    kv_bytes: Array = column(2)
    activation_bytes: Array = column(2)
    math: Array = column(Math.BF16)
    dequantise_ops: Array = column(0)
    weight_format: Array = column(0)
    tensor: Array = column(1)
    pipeline: Array = column(1)
    expert: Array = column(1)
    data: Array = column(1)
    attention_data: Array = column(1)
    layer_split: Array = column(0)
    pipelined_prefill: Array = column(0)
    gpus_per_node: Array = column(8)
    peer_access: Array = column(0)
    load: Array = column(Load.STATIC)
    batch: Array = column(1)
    requests: Array = column(0)
    rate: Array = column(0)
    input_tokens: Array = column(0)
    output_tokens: Array = column(1)
    max_batch: Array = column(256)
    chunk_tokens: Array = column(0)
    cache_tokens: Array = column(0)
    head_copies: Array = column(0)
    full_logits: Array = column(0)
    memory_fraction: Array = column(0.9)
    fraction_of_free: Array = column(0)
    kv_reserve: Array = column(1)
    kv_block: Array = column(16)
    engine: Array = column(0)
    family: Array = column(0)
    version: Array = column(0)
    counter: Array = column(ServingCounter.DRIVER_ONE)
    eager_attention: Array = column(0)
    graph_limit: Array = column(0)
    continuous: Array = column(1)
    weight_copies: Array = column(1)
    offload_bandwidth: Array = column(0)

    @property
    def num_devices(self) -> Array:
        """Devices of all replicas."""
        return self.data * self.tensor * self.pipeline * self.attention_data


@dataclasses.dataclass(frozen=True, slots=True)
class ServeRates(Columns):
    """Coefficients of each row (facts/data/coefficients/serving.toml). Fractions are of the data sheet.

    `stream_fraction` of memory bandwidth that reading weights reaches in one large product; `stream_ramp_bytes` read in one product at
    which half of that is lost; `attention_stream` the same fraction for the cache; `gemm_fraction` of peak for long products, `gemm_ramp` tokens at
    which half of it is lost; `flash_fraction` of peak in fused attention; `kernel_quality` multiplies bandwidth of the engine's decode
    kernels, `gemm_quality` the rate of its products; `launch_s` host time per layer and step where the engine launches each kernel itself,
    `layer_s` time lost between the kernels of one layer on the device; `step_s` host time per step, `sequence_s` per sequence and step,
    `request_s` per request before its first token. `mla_layer_s`, `moe_layer_s`, `linear_layer_s`, `index_layer_s` further kernels of such layers, `moe_launch_s` host time where experts are called one by one. `prefill_launch_s` as
    `launch_s` for prompts, which graphs do not cover, `moe_prefill_launch_s` what a layer of experts adds to it; `ungraphed_s` as `launch_s` beyond the graph limit; `tensor_launch` the share by which launching
    grows where tensor ranks wait for one another.
    `all_reduce_s` latency of one all-reduce, `link_fraction` of the link that it reaches. `cache_passes` over the cache beside the one read
    (copies of engines that grow tensors), `repeat_passes` as many more for each query head that shares a key head. `half_accumulation` 1 = products
    accumulate in 16 bit, at twice the rate on GeForce cards. `pipeline_loss` per further stage where stages overlap.
    `joules_per_flop` bounds 16-bit products by the card's power (0 = not). `expert_skew` how unequal experts are chosen: tokens that count as independent.
    `grouped_gemm` multiplies the rate of products of many experts, each of which
    wastes `expert_ramp` rows of its last tile; `desktop_host` the host's times where the card is a desktop's, whose processor has
    a higher clock; `host_staging` the PCIe link of cards that meet in the host's memory, `socket_crossing` that of such groups over both sockets of a server.
    `pass_bytes` activation traffic per token and hidden element of a layer's prefill. `dequantise_rate` of fp32 peak.
    """

    stream_fraction: Array = column(0.85)
    stream_ramp_bytes: Array = column(0)
    attention_stream: Array = column(0.7)
    gemm_fraction: Array = column(0.7)
    gemm_ramp: Array = column(64)
    flash_fraction: Array = column(0.5)
    kernel_quality: Array = column(1)
    gemm_quality: Array = column(1)
    format_stream: Array = column(1)
    format_gemm: Array = column(1)
    launch_s: Array = column(0)
    layer_s: Array = column(0)
    step_s: Array = column(0)
    sequence_s: Array = column(0)
    request_s: Array = column(0)
    prompt_token_s: Array = column(0)
    mla_layer_s: Array = column(0)
    moe_layer_s: Array = column(0)
    linear_layer_s: Array = column(0)
    index_layer_s: Array = column(0)
    all_reduce_s: Array = column(0)
    link_fraction: Array = column(0.7)
    cache_passes: Array = column(0)
    repeat_passes: Array = column(0)
    moe_launch_s: Array = column(0)
    prefill_launch_s: Array = column(0)
    moe_prefill_launch_s: Array = column(0)
    ungraphed_s: Array = column(0)
    format_launch: Array = column(1)
    tensor_launch: Array = column(0)
    half_accumulation: Array = column(0)
    pipeline_loss: Array = column(0)
    joules_per_flop: Array = column(0)
    expert_skew: Array = column(1)
    pass_bytes: Array = column(30)
    dequantise_rate: Array = column(0.5)
    interference: Array = column(1)
    burst: Array = column(0)
    grouped_gemm: Array = column(1)
    expert_ramp: Array = column(16)
    desktop_host: Array = column(1)
    socket_crossing: Array = column(1)
    host_staging: Array = column(1)
