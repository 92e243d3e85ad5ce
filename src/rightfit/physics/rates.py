"""What hardware and software achieve of the data sheet: the coefficient columns that the time physics reads.

The values live in facts/data (coefficients/compute.toml, coefficients/network.toml, architecture_rates.csv, speed_frameworks.csv) with
their sources; `estimate.speed.rate_columns` gathers them for each row. Physics holds none of them.
"""

from __future__ import annotations

from rightfit.physics.columns import Array, Columns, column
from rightfit.records import dataclass


@dataclass(frozen=True, slots=True)
class RateColumns(Columns):
    """Coefficients of each row. Fractions are of the data sheet's dense peak or bandwidth.

    Accelerator: `gemm_fraction` of peak reached by a very large matrix product; `vector_fraction` the same for fp32 without tensor
    cores; `joules_per_flop` bounds the rate by the card's power; `ramp_k` is the depth [elements] lost to filling and draining a tile;
    `bandwidth_fraction` of memory bandwidth for streaming kernels; `flash_forward`, `flash_backward` fraction of peak of a fused attention
    kernel of this stack; `eager_attention` the same for the batched products of unfused attention.

    Software: `gemm_quality` multiplies the reachable rate (stalls between kernels, clocks, fused epilogues); `layer_forward_cpu_s` host
    time to launch one layer forward, `backward_cpu_ratio` times that backward; `adapter_cpu_s` that of one adapter module;
    `fsdp_layer_cpu_s` that of gathering one sharded unit, `adapter_units` of which each adapter module adds `step_cpu_s` per micro-batch,
    `update_cpu_s` per optimizer step; `overlap` the share of compute time that can hide communication; `norm_passes` ... are memory passes
    of an operator over its tensor, `pass_factor` times what counting finds.

    Links: fractions of the data sheet that collectives reach; `socket_fraction` is what remains of it when more than four PCIe cards, hence
    two processor sockets, are in one ring; `straggler` slows a step per doubling of nodes, `local_straggler` per doubling of GPUs in one
    node (shared processors, power and cooling), `card_straggler` as much again for PCIe cards.

    Shapes of operators, not fitted (coefficients/operators.toml): rows of a fused attention kernel's tile, the head that its fraction is
    quoted for and how smaller ones fall off; passes of dropout, of state-space mixers, routed tokens and adapters; tokens of an expert's
    tile; quality of a vision tower's products; `..._reuse` what smaller tiles than 256 x 128 reach; depth of a split product;
    multiprocessors where unknown; cards on one processor; parameters that a host's Adam updates; how sharply the slower of host and
    device takes over.
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
    expert_tile: Array = column(1, "tokens")
    vision_quality: Array = column(1, "1")
    square_tile_reuse: Array = column(1, "1")
    small_tile_reuse: Array = column(1, "1")
    split_depth: Array = column(1, "elements")
    default_multiprocessors: Array = column(1, "1")
    cards_per_socket: Array = column(1, "GPUs")
    host_params_per_s: Array = column(1, "parameters/s")
    queue_sharpness: Array = column(1, "1")
