"""One optimizer step: computation, communication, pipeline, update, composed by what can
overlap with what.

`compute_times` (physics.compute) depends on the device and the shape of the work,
`communication_times` on the links and the layout; `step_times` puts them together, so that a search
evaluates each part on its own distinct keys.

Source: Rajbhandari et al. 2020 (ZeRO), Narayanan et al. 2021; docs/decisions/speed-time-physics.md.

Preference and reinforcement tuning: the models beside the one that is trained, the passes that they
add, and the engine that answers.

An iteration of reinforcement tuning is a rollout (an engine answers the prompts), scoring (forward
passes of policy, reference, reward and value model) and training (policy, and the value model where
there is one). Preference tuning has the second and third only.

Source: Ouyang et al. 2022 (arXiv 2203.02155), Rafailov et al. 2023 (arXiv 2305.18290), Shao et al.
2024 (arXiv 2402.03300), Sheng et al. 2024 (HybridFlow, arXiv 2409.19256).
"""

from __future__ import annotations

import dataclasses
from enum import IntEnum

import numpy as np

from rightfit.physics import collectives, operators, transformer
from rightfit.physics import memory_states as states
from rightfit.physics.collectives import (
    all_reduce_s,
    all_to_all_s,
    context_group,
    data_group,
    dispatch_s,
    expert_group,
    gather_s,
    group,
    pipeline_group,
    send_s,
    tensor_group,
)
from rightfit.physics.columns import (
    Array,
    Columns,
    DeviceColumns,
    Dtype,
    IntraKind,
    LinkColumns,
    ModelColumns,
    Recompute,
    SetupColumns,
    ShardStage,
    column,
)
from rightfit.physics.compute import ComputeTimes, local_tokens
from rightfit.physics.operators import RateColumns
from rightfit.physics.transformer import attention_layers
from rightfit.records import dataclass
from rightfit.units import FP32_BYTES


class Bottleneck(IntEnum):
    """The family that takes most of a step."""

    COMPUTE = 0
    MEMORY_BANDWIDTH = 1
    LAUNCH = 2
    INTRA_NODE = 3
    INTER_NODE = 4
    PIPELINE = 5
    OFFLOAD = 6
    LOADING = 7


@dataclass(frozen=True, slots=True)
class CommunicationTimes(Columns):
    """Seconds of communication, shape (N,). Per micro-batch for all layers: tensor, expert,
    context, gathers. Per step: data, send per hop.

    `over_cards` is 1 where the GPUs of a node are PCIe cards.
    """

    tensor_s: Array = column(0, "s")
    expert_s: Array = column(0, "s")
    context_s: Array = column(0, "s")
    gather_forward_s: Array = column(0, "s")
    gather_backward_s: Array = column(0, "s")
    reduce_micro_s: Array = column(0, "s")
    data_s: Array = column(0, "s")
    regather_s: Array = column(0, "s")
    send_s: Array = column(0, "s")
    offload_s: Array = column(0, "s")
    over_cards: Array = column(0, "flag")


@dataclass(frozen=True, slots=True)
class StepTimes(Columns):
    """Seconds of one optimizer step and what it is made of, shape (N,): the terms
    add up to `step_s`."""

    gemm_s: Array = column(0, "s")
    attention_s: Array = column(0, "s")
    memory_bound_s: Array = column(0, "s")
    recompute_s: Array = column(0, "s")
    dequantise_s: Array = column(0, "s")
    adapter_s: Array = column(0, "s")
    head_s: Array = column(0, "s")
    launch_s: Array = column(0, "s")
    tensor_s: Array = column(0, "s")
    expert_s: Array = column(0, "s")
    context_s: Array = column(0, "s")
    shard_s: Array = column(0, "s")
    data_s: Array = column(0, "s")
    pipeline_s: Array = column(0, "s")
    update_s: Array = column(0, "s")
    offload_s: Array = column(0, "s")
    overhead_s: Array = column(0, "s")
    step_s: Array = column(0, "s")


TERMS = tuple(field.name for field in dataclasses.fields(StepTimes) if field.name != "step_s")


def expert_params(model: ModelColumns) -> Array:
    """Parameters in routed experts, whole model -> [parameters]."""
    return model.num_moe_layers * model.num_experts * transformer.expert_parameters(model)


def rank_params(model: ModelColumns, setup: SetupColumns) -> Array:
    """Parameters of one model-parallel rank (before sharding over data) -> [parameters]."""
    routed = expert_params(model)
    split = setup.tensor * setup.pipeline
    return np.maximum(model.params_total - routed, 0.0) / split + routed / (split * setup.expert)


def _recomputed(setup: SetupColumns) -> Array:
    return np.where(setup.recompute == Recompute.FULL, 1.0, 0.0)


def _tensor_s(model: ModelColumns, setup: SetupColumns, links: LinkColumns, rates: RateColumns) -> Array:
    buffer = local_tokens(setup) * model.hidden_size * setup.activation_bytes
    one = all_reduce_s(buffer, tensor_group(setup), links, rates)
    backward = 1.0  # input gradients are reduced even when weights are frozen
    return model.num_layers * 2.0 * one * (1.0 + backward + _recomputed(setup)) + 2.0 * one


def _expert_s(model: ModelColumns, setup: SetupColumns, links: LinkColumns, rates: RateColumns) -> Array:
    sent = local_tokens(setup) * rates.expert_imbalance * setup.routing_skew / setup.tensor
    sent = sent * transformer.expert_hidden_size(model) * setup.activation_bytes
    ranks = expert_group(setup)
    copied = all_to_all_s(sent * model.experts_per_token, ranks, links, rates)
    one = np.where(setup.server_dispatch > 0, dispatch_s(sent, model.experts_per_token, ranks, links, rates), copied)
    return model.num_moe_layers * 2.0 * one * (2.0 + _recomputed(setup))


def _context_s(model: ModelColumns, setup: SetupColumns, links: LinkColumns, rates: RateColumns) -> Array:
    full, sliding, _ = attention_layers(model)
    keys = local_tokens(setup) * 2.0 * model.num_kv_heads * model.head_dim / setup.tensor * setup.activation_bytes
    one = send_s(keys, context_group(setup), links, rates) * (setup.context - 1.0)
    return (full + sliding) * one * (3.0 + _recomputed(setup))


def _gather_bytes(setup: SetupColumns) -> Array:
    """Bytes per parameter that ZeRO-3 / FSDP gathers: the compute dtype, or the packed weight of
    frozen quantised layers."""
    half = np.where(setup.compute_dtype >= Dtype.FP16, 2.0, FP32_BYTES)
    return np.where(setup.quantized > 0, setup.linear_weight_bytes, np.minimum(half, np.maximum(setup.other_weight_bytes, 2.0)))


def _shard(model: ModelColumns, setup: SetupColumns, links: LinkColumns, rates: RateColumns) -> tuple[Array, Array, Array]:
    """Per micro-batch: gathering weights forward, backward, and reducing
    gradients (stages 2 and 3)."""
    held = rank_params(model, setup)
    degree = np.clip(setup.shard_degree, 1.0, setup.data * setup.context)
    ranks = data_group(setup, size=degree)
    gather = gather_s(held * _gather_bytes(setup), ranks, links, rates)
    share = np.minimum(operators.trained_params(model, setup) / np.maximum(model.params_total, 1.0), 1.0)
    reduce = gather_s(held * share * np.minimum(setup.gradient_bytes, FP32_BYTES), ranks, links, rates)
    third = setup.shard_stage >= ShardStage.WEIGHTS
    return np.where(third, gather, 0.0), np.where(third, gather, 0.0), np.where(setup.shard_stage >= ShardStage.GRADIENTS, reduce, 0.0)


def _data_s(model: ModelColumns, setup: SetupColumns, links: LinkColumns, rates: RateColumns) -> tuple[Array, Array]:
    """Per step: reducing gradients over the data-parallel ranks, and regathering updated
    weights (stages 1 and 2).

    Stage 0 all-reduces. Sharding over fewer ranks than there are reduces and regathers inside the
    shard group and all-reduces the shards across groups. Stages 2 and 3 reduced inside the group
    already, each micro-batch.
    """
    held = rank_params(model, setup)
    share = np.minimum(operators.trained_params(model, setup) / np.maximum(model.params_total, 1.0), 1.0)
    gradients = held * share * np.minimum(setup.gradient_bytes, FP32_BYTES)
    ranks = setup.data * setup.context
    degree = np.clip(setup.shard_degree, 1.0, ranks)
    inner = data_group(setup, size=degree)
    outer = group(ranks / degree, stride=setup.tensor * degree, gpus_per_node=setup.gpus_per_node)
    across = all_reduce_s(gradients / degree, outer, links, rates)
    sharded = np.where(setup.shard_stage < ShardStage.GRADIENTS, gather_s(gradients, inner, links, rates), 0.0) + across
    reduced = np.where(setup.shard_stage <= 0, all_reduce_s(gradients, data_group(setup), links, rates), sharded)
    regather = gather_s(held * share * 2.0, inner, links, rates)
    return reduced, np.where((setup.shard_stage >= ShardStage.STATES) & (setup.shard_stage < ShardStage.WEIGHTS), regather, 0.0)


def _offload_s(model: ModelColumns, setup: SetupColumns, links: LinkColumns, rates: RateColumns) -> Array:
    """Per step: state, weights and activations that cross the host link."""
    share = np.where(setup.shard_stage > 0, np.maximum(setup.shard_degree, 1.0), 1.0)
    trained = operators.trained_params(model, setup) / (setup.tensor * setup.pipeline * share)
    link = np.maximum(links.host_bandwidth * rates.pcie_fraction, 1.0)
    ranks_per_node = np.minimum(setup.gpus_per_node, setup.num_gpus)
    update = trained * (setup.gradient_bytes + 2.0) / link + trained * ranks_per_node / rates.host_params_per_s
    weights = setup.grad_accum * 2.0 * 2.0 * rank_params(model, setup) / share / link
    kept = local_tokens(setup) * model.hidden_size * model.num_layers / setup.pipeline * setup.activation_bytes
    activations = setup.grad_accum * 2.0 * kept / link
    return setup.offload_optimizer * update + setup.offload_params * weights + setup.offload_activations * activations


def communication_times(model: ModelColumns, setup: SetupColumns, links: LinkColumns, rates: RateColumns) -> CommunicationTimes:
    """Seconds of every kind of communication if nothing hid it, shape (N,)."""
    forward, backward, reduce = _shard(model, setup, links, rates)
    data, regather = _data_s(model, setup, links, rates)
    boundary = local_tokens(setup) * model.hidden_size * setup.activation_bytes / np.where(setup.sequence_parallel > 0, setup.tensor, 1.0)
    return CommunicationTimes(
        tensor_s=_tensor_s(model, setup, links, rates),
        expert_s=_expert_s(model, setup, links, rates),
        context_s=_context_s(model, setup, links, rates),
        gather_forward_s=forward,
        gather_backward_s=backward,
        reduce_micro_s=reduce,
        data_s=data,
        regather_s=regather,
        send_s=send_s(boundary, pipeline_group(setup), links, rates),
        offload_s=_offload_s(model, setup, links, rates),
        over_cards=np.where(links.intra_kind <= IntraKind.PCIE, 1.0, 0.0),
    )


def smooth_max(first: Array, second: Array, *, sharpness: Array) -> Array:
    """The larger of two times, a little more where they are close: queues never hide
    each other perfectly.

    `first`, `second` [s], `sharpness` [1] -> [s].
    """
    high = np.maximum(first, second)
    low = np.minimum(first, second)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(high > 0, low / high, 0.0)
    return high * (1.0 + ratio**sharpness) ** (1.0 / sharpness)


def _exposed(hidden: Array, cover: Array) -> Array:
    return np.maximum(hidden - cover, 0.0)


def step_times(
    model: ModelColumns,
    setup: SetupColumns,
    device: DeviceColumns,
    rates: RateColumns,
    *,
    compute: ComputeTimes,
    communication: CommunicationTimes,
) -> StepTimes:
    """Seconds of one optimizer step, shape (N,), composed from one micro-batch's compute
    and communication."""
    gpu = compute.forward_s + compute.backward_s
    busy_forward = smooth_max(compute.forward_s, compute.host_forward_s, sharpness=rates.queue_sharpness)
    busy_backward = smooth_max(compute.backward_s, compute.host_backward_s, sharpness=rates.queue_sharpness)
    launch = busy_forward + busy_backward - gpu
    stages = setup.pipeline
    shard_micro = _exposed(communication.gather_forward_s * stages, rates.overlap * busy_forward) + _exposed(
        (communication.gather_backward_s + communication.reduce_micro_s) * stages, rates.overlap * busy_backward
    )
    # With a pipeline, gathered weights stay until the step ends and gradients are reduced once.
    piped = stages > 1
    sharded_once = np.where(piped, communication.gather_forward_s + communication.reduce_micro_s, 0.0)
    shard_micro = np.where(piped, 0.0, shard_micro)
    tensor = communication.tensor_s * (1.0 - rates.tensor_overlap)
    expert = communication.expert_s * (1.0 - rates.expert_overlap)
    context = _exposed(communication.context_s, rates.context_overlap * compute.attention_s)
    body = busy_forward + busy_backward + shard_micro + tensor + expert + context
    busy, idle = collectives.step_parts(
        body_s=body,
        head_s=compute.head_s,
        stages=stages,
        micro_batches=setup.grad_accum,
        chunks=setup.virtual_pipeline,
        layers=model.num_layers,
    )
    # Layers placed on several GPUs without micro-batches (device_map): one works, the others wait.
    idle = np.where(setup.naive_pipeline > 0, setup.grad_accum * (body + compute.head_s) - busy, idle)
    sends = np.where(
        stages > 1,
        2.0 * communication.send_s * setup.virtual_pipeline * (setup.grad_accum * (1 - rates.pipeline_overlap) + stages - 1),
        0.0,
    )
    backward_cover = rates.overlap * (busy_backward + shard_micro) / stages
    # Updated weights can only be gathered behind the next forward pass.
    forward_cover = rates.regather_overlap * busy_forward / stages
    data = _exposed(communication.data_s + sharded_once, backward_cover) + _exposed(communication.regather_s, forward_cover)
    share = np.where(setup.shard_stage > 0, np.maximum(setup.shard_degree, 1.0), 1.0)
    trained = operators.trained_params(model, setup) / np.maximum(model.params_total, 1.0) * rank_params(model, setup) / share
    held = operators.trained_params(model, setup) / np.maximum(model.params_total, 1.0) * rank_params(model, setup)
    adding = operators.accumulate_s(setup, device, rates, trained_params=held)
    update = np.where(setup.offload_optimizer > 0, 0.0, operators.update_s(setup, device, rates, trained_params=trained))
    update = update * setup.weight_update + setup.grad_accum * adding
    sync = setup.weight_sync * (rates.weight_sync_s + 2.0 * operators.trained_params(model, setup) / rates.weight_sync_bandwidth)
    overhead = setup.grad_accum * rates.step_cpu_s + rates.update_cpu_s * setup.weight_update + sync
    per = setup.grad_accum / stages
    terms = {
        "gemm_s": compute.gemm_s * per,
        "attention_s": compute.attention_s * per,
        "memory_bound_s": compute.memory_bound_s * per,
        "recompute_s": compute.recompute_s * per,
        "dequantise_s": compute.dequantise_s * per,
        "adapter_s": compute.adapter_s * per,
        "head_s": compute.head_s * per,
        "launch_s": launch * per,
        "tensor_s": tensor * per,
        "expert_s": expert * per,
        "context_s": context * per,
        "shard_s": shard_micro * per,
        "data_s": data,
        "pipeline_s": idle + sends,
        "update_s": update,
        "offload_s": communication.offload_s,
        "overhead_s": overhead,
    }
    nodes = np.maximum(setup.num_gpus / setup.gpus_per_node, 1.0)
    local = np.minimum(setup.num_gpus, setup.gpus_per_node)
    shared = rates.local_straggler + np.where(communication.over_cards > 0, rates.card_straggler, 0.0)
    slower = 1.0 + rates.straggler * np.log2(nodes) + shared * np.log2(local)
    scaled = {name: value * slower for name, value in terms.items()}
    return StepTimes(**scaled, step_s=np.asarray(sum(scaled.values())))


def bottleneck(times: StepTimes, setup: SetupColumns) -> Array:
    """`Bottleneck` code of each row: the family of terms that takes most time -> [code]."""
    crosses = setup.num_gpus > setup.gpus_per_node
    network = times.shard_s + times.data_s + times.expert_s
    local = times.tensor_s + times.context_s
    families = [
        times.gemm_s + times.attention_s + times.recompute_s + times.head_s,
        times.memory_bound_s + times.dequantise_s + times.adapter_s + times.update_s,
        times.launch_s + times.overhead_s,
        local + np.where(crosses, 0.0, network),
        np.where(crosses, network, 0.0),
        times.pipeline_s,
        times.offload_s,
    ]
    shape = np.broadcast_shapes(*(family.shape for family in families))
    return np.asarray(np.argmax(np.stack([np.broadcast_to(family, shape) for family in families]), axis=0), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class StateBytes:
    """What the trainer of one model holds between steps, per GPU; each an array of
    shape (N,) [bytes].

    Units: `weights`, `trained`, `gradients` [bytes]. `gradients` come and go with a step; `trained`
    is all else that training adds.
    """

    weights: Array
    trained: Array
    gradients: Array

    @property
    def kept(self) -> Array:
        """What stays while another model works: all but the gradients -> [bytes].

        Source: Ouyang et al. 2022 (arXiv 2203.02155), Rafailov et al. 2023 (arXiv 2305.18290), Shao
        et al. 2024 (arXiv 2402.03300), Sheng et al. 2024 (HybridFlow, arXiv 2409.19256).
        """
        return self.weights + self.trained


def state_bytes(model: ModelColumns, setup: SetupColumns) -> StateBytes:
    """Weights, and the adapters, gradients, optimizer state and master weights of what is trained:
    2 P / s for 16-bit weights in s shards, and 16 bytes a trained parameter under mixed-precision
    AdamW (Rajbhandari et al. 2020, section 3.1).

    Source: Ouyang et al. 2022 (arXiv 2203.02155), Rafailov et al. 2023 (arXiv 2305.18290), Shao et
    al. 2024 (arXiv 2402.03300), Sheng et al. 2024 (HybridFlow, arXiv 2409.19256).
    """
    share = states.parameter_share(model, setup, first=True, last=True)
    dense, experts = states.trained_share(share, model, setup)
    here = 1.0 - setup.offload_params
    trained = (
        states.adapter_bytes(dense, setup) + states.optimizer_bytes(dense, experts, setup) + states.master_bytes(dense, experts, setup)
    )
    return StateBytes(states.weights_bytes(share, setup) * here, trained, states.gradients_bytes(dense, experts, setup))


def frozen_bytes(model: ModelColumns, setup: SetupColumns, *, weight_bytes: float) -> Array:
    """Weights of a frozen copy of the model, laid out (and at ZeRO stage 3 sharded)
    as the trained one.

    `weight_bytes` [bytes/parameter] -> [bytes].

    Source: Ouyang et al. 2022 (arXiv 2203.02155), Rafailov et al. 2023 (arXiv 2305.18290), Shao et
    al. 2024 (arXiv 2402.03300), Sheng et al. 2024 (HybridFlow, arXiv 2409.19256).
    """
    share = states.parameter_share(model, setup, first=True, last=True)
    width = np.array([weight_bytes])
    kept = states.weights_bytes(share, setup.replace(linear_weight_bytes=width, other_weight_bytes=width))
    return kept * (1.0 - setup.offload_params)


def frozen_logits_bytes(model: ModelColumns, setup: SetupColumns, *, logit_bytes: float) -> Array:
    """Logits of one micro-batch of a forward pass without gradients, beside what the trained model
    keeps for its backward pass.

    `logit_bytes` [bytes/logit] -> [bytes].

    Source: Ouyang et al. 2022 (arXiv 2203.02155), Rafailov et al. 2023 (arXiv 2305.18290), Shao et
    al. 2024 (arXiv 2402.03300), Sheng et al. 2024 (HybridFlow, arXiv 2409.19256).
    """
    tokens = setup.micro_batch * setup.seq_len / setup.context
    return tokens * model.vocab_size / setup.tensor * logit_bytes * model.has_lm_head


def engine_gpus(model: ModelColumns, setup: SetupColumns, *, most: float) -> Array:
    """Accelerators of one engine: as many of a server as the trainer spreads one copy of the
    weights over, a power of two that divides the heads.

    `most` [GPUs] -> [GPUs].

    Source: Ouyang et al. 2022 (arXiv 2203.02155), Rafailov et al. 2023 (arXiv 2305.18290), Shao et
    al. 2024 (arXiv 2402.03300), Sheng et al. 2024 (HybridFlow, arXiv 2409.19256).
    """
    spread = np.where(setup.shard_stage >= ShardStage.WEIGHTS, setup.shard_degree, 1.0) * setup.tensor * setup.pipeline
    wanted = np.minimum(np.minimum(spread, setup.gpus_per_node), most)
    degree = 2.0 ** np.floor(np.log2(np.maximum(wanted, 1.0)))
    for _ in range(int(np.log2(most))):
        fits = (np.mod(np.maximum(model.num_heads, 1.0), degree) == 0) & (np.mod(setup.gpus_per_node, degree) == 0)
        degree = np.where(fits, degree, np.maximum(degree / 2.0, 1.0))
    return np.asarray(degree)


def engine_stages(setup: SetupColumns, *, tensor: Array, weights_bytes: Array, most_bytes: float) -> Array:
    """Servers that one engine spans, a stage of its layers on each: as few, of powers of two, as
    leave a GPU at most `most_bytes` of weights, and no more than the trainer spreads a copy over.

    `tensor` [GPUs], `weights_bytes` [bytes] of a whole copy, `most_bytes` [bytes] on one GPU
    -> [servers].

    Source: Sheng et al. 2024 (HybridFlow, arXiv 2409.19256); vLLM, "Parallelism and scaling":
    tensor parallel within a server, pipeline parallel over servers. Mixtures may spread experts
    instead, whose exchange between servers is slower than the hand-over that is counted here.
    """
    spread = np.where(setup.shard_stage >= ShardStage.WEIGHTS, setup.shard_degree, 1.0) * setup.tensor * setup.pipeline
    wanted = np.ceil(np.log2(np.maximum(weights_bytes / (tensor * most_bytes), 1.0)))
    most = np.floor(np.log2(np.maximum(spread / setup.gpus_per_node, 1.0)))
    return np.asarray(2.0 ** np.minimum(wanted, most))


def forward_s(setup: SetupColumns, rates: RateColumns, *, compute: ComputeTimes, communication: CommunicationTimes) -> Array:
    """One forward pass without gradients over all sequences of a step: 2 P FLOPs a token, a third
    of the 6 P of training.

    `compute`, `communication` of the same set-up -> [s].
    Collectives of a forward pass are one of the two (with full recomputation three) that a step of
    training has; with a pipeline of p stages and m micro-batches the fill costs (p - 1) / m more
    (Narayanan et al. 2021).

    Source: Ouyang et al. 2022 (arXiv 2203.02155), Rafailov et al. 2023 (arXiv 2305.18290), Shao et
    al. 2024 (arXiv 2402.03300), Sheng et al. 2024 (HybridFlow, arXiv 2409.19256).
    """
    again = np.where(setup.recompute == Recompute.FULL, 1.0, 0.0)
    busy = smooth_max(compute.forward_s, compute.host_forward_s, sharpness=rates.queue_sharpness)
    exposed = np.maximum(communication.gather_forward_s * setup.pipeline - rates.overlap * busy, 0.0)
    shared = communication.tensor_s * (1.0 - rates.tensor_overlap) / (2.0 + again)
    experts = communication.expert_s * (1.0 - rates.expert_overlap) / (2.0 + again)
    one = busy + exposed + shared + experts + compute.head_s / 3.0
    fill = 1.0 + (setup.pipeline - 1.0) / np.maximum(setup.grad_accum, 1.0)
    return one * setup.grad_accum / setup.pipeline * fill
