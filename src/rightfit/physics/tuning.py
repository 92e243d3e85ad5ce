"""Preference and reinforcement tuning: the models beside the one that is trained, the passes that they add, and the engine that answers.

An iteration of reinforcement tuning is a rollout (an engine answers the prompts), scoring (forward passes of policy, reference, reward and
value model) and training (policy, and the value model where there is one). Preference tuning has the second and third only.

Source: Ouyang et al. 2022 (arXiv 2203.02155), Rafailov et al. 2023 (arXiv 2305.18290), Shao et al. 2024 (arXiv 2402.03300), Sheng et al.
2024 (HybridFlow, arXiv 2409.19256).
"""

from __future__ import annotations

import numpy as np

from rightfit.physics import memory_states as states
from rightfit.physics.columns import Array, ModelColumns, Recompute, SetupColumns, ShardStage
from rightfit.physics.compute import ComputeTimes
from rightfit.physics.rates import RateColumns
from rightfit.physics.step import CommunicationTimes, smooth_max
from rightfit.records import dataclass


@dataclass(frozen=True, slots=True)
class StateBytes:
    """What the trainer of one model holds between steps, per GPU; each an array of shape (N,) [bytes].

    Units: `weights`, `trained`, `gradients` [bytes]. `gradients` come and go with a step; `trained` is all else that training adds.
    """

    weights: Array
    trained: Array
    gradients: Array

    @property
    def kept(self) -> Array:
        """What stays while another model works: all but the gradients -> [bytes]."""
        return self.weights + self.trained


def state_bytes(model: ModelColumns, setup: SetupColumns) -> StateBytes:
    """Weights, and the adapters, gradients, optimizer state and master weights of what is trained: 2 P / s for 16-bit weights in s shards,
    and 16 bytes a trained parameter under mixed-precision AdamW (Rajbhandari et al. 2020, section 3.1)."""
    share = states.parameter_share(model, setup, first=True, last=True)
    dense, experts = states.trained_share(share, model, setup)
    here = 1.0 - setup.offload_params
    trained = (
        states.adapter_bytes(dense, setup) + states.optimizer_bytes(dense, experts, setup) + states.master_bytes(dense, experts, setup)
    )
    return StateBytes(states.weights_bytes(share, setup) * here, trained, states.gradients_bytes(dense, experts, setup))


def frozen_bytes(model: ModelColumns, setup: SetupColumns, *, weight_bytes: float) -> Array:
    """Weights of a frozen copy of the model, laid out (and at ZeRO stage 3 sharded) as the trained one.

    `weight_bytes` [bytes/parameter] -> [bytes].
    """
    share = states.parameter_share(model, setup, first=True, last=True)
    width = np.array([weight_bytes])
    kept = states.weights_bytes(share, setup.replace(linear_weight_bytes=width, other_weight_bytes=width))
    return kept * (1.0 - setup.offload_params)


def frozen_logits_bytes(model: ModelColumns, setup: SetupColumns, *, logit_bytes: float) -> Array:
    """Logits of one micro-batch of a forward pass without gradients, beside what the trained model keeps for its backward pass.

    `logit_bytes` [bytes/logit] -> [bytes].
    """
    tokens = setup.micro_batch * setup.seq_len / setup.context
    return tokens * model.vocab_size / setup.tensor * logit_bytes * model.has_lm_head


def engine_gpus(model: ModelColumns, setup: SetupColumns, *, most: float) -> Array:
    """Accelerators of one engine: as many of a server as the trainer spreads one copy of the weights over, a power of two that divides the
    heads.

    `most` [GPUs] -> [GPUs].
    """
    spread = np.where(setup.shard_stage >= ShardStage.WEIGHTS, setup.shard_degree, 1.0) * setup.tensor * setup.pipeline
    wanted = np.minimum(np.minimum(spread, setup.gpus_per_node), most)
    degree = 2.0 ** np.floor(np.log2(np.maximum(wanted, 1.0)))
    for _ in range(int(np.log2(most))):
        fits = (np.mod(np.maximum(model.num_heads, 1.0), degree) == 0) & (np.mod(setup.gpus_per_node, degree) == 0)
        degree = np.where(fits, degree, np.maximum(degree / 2.0, 1.0))
    return np.asarray(degree)


def forward_s(setup: SetupColumns, rates: RateColumns, *, compute: ComputeTimes, communication: CommunicationTimes) -> Array:
    """One forward pass without gradients over all sequences of a step: 2 P FLOPs a token, a third of the 6 P of training.

    `compute`, `communication` of the same set-up -> [s].
    Collectives of a forward pass are one of the two (with full recomputation three) that a step of training has; with a pipeline of p
    stages and m micro-batches the fill costs (p - 1) / m more (Narayanan et al. 2021).
    """
    again = np.where(setup.recompute == Recompute.FULL, 1.0, 0.0)
    busy = smooth_max(compute.forward_s, compute.host_forward_s, sharpness=rates.queue_sharpness)
    exposed = np.maximum(communication.gather_forward_s * setup.pipeline - rates.overlap * busy, 0.0)
    shared = communication.tensor_s * (1.0 - rates.tensor_overlap) / (2.0 + again)
    experts = communication.expert_s * (1.0 - rates.expert_overlap) / (2.0 + again)
    one = busy + exposed + shared + experts + compute.head_s / 3.0
    fill = 1.0 + (setup.pipeline - 1.0) / np.maximum(setup.grad_accum, 1.0)
    return one * setup.grad_accum / setup.pipeline * fill
