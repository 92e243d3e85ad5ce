"""What hardware and software achieve of the data sheet: the coefficient columns that the time physics reads.

The values live in facts/data (coefficients/compute.toml, coefficients/network.toml, architecture_rates.csv, speed_frameworks.csv) with
their sources; `estimate.speed.rate_columns` gathers them for each row. Physics holds none of them.
"""

from __future__ import annotations

import dataclasses

from rightfit.physics.columns import Array, Columns, column


@dataclasses.dataclass(frozen=True, slots=True)
class RateColumns(Columns):
    """Coefficients of each row. Fractions are of the data sheet's dense peak or bandwidth.

    Accelerator: `gemm_fraction` of peak reached by a very large matrix product; `vector_fraction` the same for fp32 without tensor
    cores; `joules_per_flop` bounds the rate by the card's power; `ramp_k` is the depth [elements] lost to filling and draining a tile;
    `bandwidth_fraction` of memory bandwidth for streaming kernels; `flash_forward`, `flash_backward` fraction of peak of a fused attention
    kernel of this stack; `eager_attention` the same for the batched products of unfused attention.

    Software: `gemm_quality` multiplies the reachable rate (stalls between kernels, clocks, fused epilogues);
    `layer_forward_cpu_s` host time to launch one layer forward, `backward_cpu_ratio` times that backward; `adapter_cpu_s` that of one adapter module;
    `fsdp_layer_cpu_s` that of gathering one sharded unit, `adapter_units` of which each adapter module adds `step_cpu_s` per micro-batch, `update_cpu_s` per optimizer step;
    `overlap` the share of compute time that can hide communication; `norm_passes` ... are memory passes of an operator over its tensor,
    `pass_factor` times what counting finds.

    Links: fractions of the data sheet that collectives reach; `socket_fraction` is what remains of it when more than four PCIe cards, hence
    two processor sockets, are in one ring; `straggler` slows a step per doubling of nodes, `local_straggler` per doubling of GPUs in one
    node (shared processors, power and cooling), `card_straggler` as much again for PCIe cards.
    """

    gemm_fraction: Array = column(0.8)
    vector_fraction: Array = column(0.85)
    joules_per_flop: Array = column(0.0)
    fp32_energy_ratio: Array = column(7.0)
    ramp_k: Array = column(128)
    bandwidth_fraction: Array = column(0.8)
    flash_forward: Array = column(0.5)
    flash_backward: Array = column(0.4)
    eager_attention: Array = column(0.3)
    gemm_quality: Array = column(1.0)
    layer_forward_cpu_s: Array = column(3e-4)
    backward_cpu_ratio: Array = column(1.0)
    adapter_cpu_s: Array = column(0)
    fsdp_layer_cpu_s: Array = column(0)
    step_cpu_s: Array = column(0)
    update_cpu_s: Array = column(0)
    overlap: Array = column(0.8)
    regather_overlap: Array = column(0.0)
    pass_factor: Array = column(1.0)
    norm_passes: Array = column(2)
    rope_passes: Array = column(2)
    residual_passes: Array = column(3)
    activation_passes: Array = column(3)
    softmax_passes: Array = column(4)
    backward_passes: Array = column(2)
    loss_bytes: Array = column(14)
    update_passes: Array = column(1.2)
    accumulate_passes: Array = column(3.0)
    adapter_units: Array = column(0)
    dequantise_fraction: Array = column(0.7)
    quantised_gemm: Array = column(1.0)
    expert_gemm: Array = column(0.8)
    expert_imbalance: Array = column(1.1)
    expert_cpu_s: Array = column(0)
    fp8_overhead_passes: Array = column(2)
    weight_sync_bandwidth: Array = column(3.5e9)
    weight_sync_s: Array = column(0.4)
    selective_share: Array = column(0.1)
    switch_fraction: Array = column(0.75)
    mesh_fraction: Array = column(0.75)
    pcie_fraction: Array = column(0.5)
    socket_fraction: Array = column(0.4)
    inter_fraction: Array = column(0.8)
    tensor_overlap: Array = column(0)
    expert_overlap: Array = column(0)
    context_overlap: Array = column(0.5)
    pipeline_overlap: Array = column(0.5)
    straggler: Array = column(0.0)
    local_straggler: Array = column(0.0)
    card_straggler: Array = column(0.0)
