"""Which class of training software a job runs on, and the coefficients of hardware and software that the time physics reads."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.facts.devices import architecture_names
from rightfit.facts.trainers import software_names
from rightfit.physics.columns import Array, AttentionKernel, DeviceColumns, SetupColumns
from rightfit.physics.rates import RateColumns


def family_codes(device: DeviceColumns) -> NDArray[np.intp]:
    """Row of facts/data/architectures.csv for each device."""
    return device.architecture.astype(np.intp)


@functools.cache
def _by_name(field: str, names: tuple[str, ...], file: str) -> Array:
    """Values of a coefficient for each name; `field.default` where the file has none for it."""
    values = facts.coefficients(file)
    return np.array([values.get(f"{field}.{name}", values.get(f"{field}.default", np.nan)) for name in names], dtype=np.float64)


HARDWARE_FIELDS = (
    "gemm_fraction",
    "vector_fraction",
    "joules_per_flop",
    "ramp_k",
    "bandwidth_fraction",
    "eager_attention",
    "quantised_gemm",
)
SOFTWARE_FIELDS = (
    "gemm_quality",
    "layer_forward_cpu_s",
    "backward_cpu_ratio",
    "pass_factor",
    "adapter_cpu_s",
    "fsdp_layer_cpu_s",
    "step_cpu_s",
    "update_cpu_s",
    "expert_cpu_s",
    "overlap",
    "regather_overlap",
    "norm_passes",
    "rope_passes",
    "residual_passes",
    "activation_passes",
    "softmax_passes",
    "backward_passes",
    "loss_bytes",
    "update_passes",
    "accumulate_passes",
    "adapter_units",
    "expert_gemm",
    "tensor_overlap",
    "expert_overlap",
    "selective_share",
    "local_straggler",
)
GLOBAL_FIELDS = (
    "dequantise_fraction",
    "expert_imbalance",
    "fp8_overhead_passes",
    "context_overlap",
    "pipeline_overlap",
    "weight_sync_bandwidth",
    "weight_sync_s",
    "fp32_energy_ratio",
)
OPERATOR_FIELDS = (
    "attention_tile_rows",
    "reference_head",
    "head_exponent",
    "score_dropout_passes",
    "dropout_passes",
    "mixer_passes",
    "routed_passes",
    "adapter_passes",
    "expert_tile",
    "vision_quality",
    "square_tile_reuse",
    "small_tile_reuse",
    "split_depth",
    "default_multiprocessors",
    "cards_per_socket",
    "host_params_per_s",
    "queue_sharpness",
)
NETWORK_FIELDS = ("switch_fraction", "mesh_fraction", "pcie_fraction", "socket_fraction", "inter_fraction", "straggler", "card_straggler")


def rate_columns(setup: SetupColumns, device: DeviceColumns) -> RateColumns:
    """Coefficients of each row: by accelerator family, by class of software, and the global ones."""
    family = family_codes(device)
    software = setup.framework.astype(np.intp)
    hardware_names, classes = architecture_names(), software_names()
    values = {name: _by_name(name, hardware_names, "compute")[family] for name in HARDWARE_FIELDS}
    values |= {name: _by_name(name, classes, "software")[software] for name in SOFTWARE_FIELDS}
    values |= {name: np.array([facts.coefficients("compute")[name]]) for name in GLOBAL_FIELDS}
    values |= {name: np.array([facts.coefficients("network")[name]]) for name in NETWORK_FIELDS}
    values |= {name: np.array([facts.coefficients("operators")[name]]) for name in OPERATOR_FIELDS}
    values |= _attention_rates(setup, family)
    values |= _fused(setup, values)
    return RateColumns(**values)


def _attention_rates(setup: SetupColumns, family: NDArray[np.intp]) -> dict[str, Array]:
    """Fused-attention fractions: vendor stacks use the best kernel of the family, others the portable one."""
    names = architecture_names()
    vendor = (setup.framework == software_names().index("vendor")) & (setup.attention != AttentionKernel.EAGER)
    best = (setup.attention_version >= 3) | (vendor & (setup.attention_version == 0))
    first = setup.attention_version == 1
    chosen = {}
    for way in ("forward", "backward"):
        portable, tuned, oldest = (_by_name(f"{kind}flash_{way}", names, "compute")[family] for kind in ("", "best_", "first_"))
        chosen[f"flash_{way}"] = np.where(best, tuned, np.where(first, np.minimum(oldest, portable), portable))
    return chosen


def _fused(setup: SetupColumns, values: dict[str, Array]) -> dict[str, Array]:
    """Fused or compiled jobs make the passes of the fused implementation, whatever their class; a fused loss moves fewer bytes."""
    fused = (setup.fused_kernels > 0) | (setup.compiled > 0)
    classes = software_names()
    best = {
        name: _by_name(name, classes, "software")[classes.index("vendor")] for name in ("norm_passes", "rope_passes", "activation_passes")
    }
    changed = {name: np.where(fused, np.minimum(values[name], best[name]), values[name]) for name in best}
    compiled = setup.compiled > 0
    loss = _by_name("loss_bytes", classes, "software")[classes.index("vendor")]
    changed["loss_bytes"] = np.where((setup.loss > 0) | compiled, np.minimum(values["loss_bytes"], loss), values["loss_bytes"])
    launch = _by_name("layer_forward_cpu_s", classes, "software")[classes.index("compiled")]
    changed["layer_forward_cpu_s"] = np.where(compiled, np.minimum(values["layer_forward_cpu_s"], launch), values["layer_forward_cpu_s"])
    return changed
