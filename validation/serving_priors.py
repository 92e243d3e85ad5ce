"""Write the priors of facts/data/coefficients/serving.toml: values that physics and documentation suggest before any fit.

    python validation/serving_priors.py

Run once when a coefficient is added; the fit (validation/fit_serving.py) then moves the values and leaves the priors.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

FILE = Path(__file__).parents[1] / "src/rightfit/facts/data/coefficients/serving.toml"
MEMORY = "engineering judgement"

PRIORS: dict[str, tuple[str, dict[str, float], str]] = {
    "stream_fraction": (
        "1",
        {
            "default": 0.8,
            "volta": 0.8,
            "turing": 0.78,
            "ampere-hbm": 0.85,
            "ampere-gddr": 0.88,
            "ada": 0.9,
            "hopper": 0.82,
            "blackwell-hbm": 0.78,
            "blackwell-gddr": 0.88,
            "cdna2": 0.6,
            "cdna3": 0.6,
            "cdna4": 0.6,
            "gaudi": 0.6,
            "tpu": 0.7,
            "neuron": 0.6,
            "apple": 0.8,
            "cpu": 0.7,
        },
        "share of the data sheet's bandwidth that copy kernels reach (STREAM-like tests of vendors)",
    ),
    "stream_ramp_bytes": (
        "bytes",
        {
            "default": 1e6,
            "ampere-hbm": 3e6,
            "hopper": 6e6,
            "blackwell-hbm": 12e6,
            "ada": 1.5e6,
            "ampere-gddr": 1.5e6,
            "volta": 2e6,
            "turing": 1e6,
            "cdna2": 3e6,
            "cdna3": 8e6,
            "gaudi": 4e6,
            "tpu": 2e6,
            "neuron": 3e6,
            "apple": 5e5,
            "cpu": 1e5,
        },
        "bandwidth times the 1-2 microseconds that a kernel needs to fill the memory pipeline",
    ),
    "attention_stream": (
        "1",
        {
            "default": 0.65,
            "ampere-hbm": 0.7,
            "hopper": 0.6,
            "blackwell-hbm": 0.5,
            "cdna2": 0.35,
            "cdna3": 0.35,
            "gaudi": 0.4,
            "neuron": 0.3,
            "apple": 0.5,
            "cpu": 0.4,
        },
        MEMORY,
    ),
    "gemm_fraction": (
        "1",
        {
            "default": 0.7,
            "volta": 0.7,
            "turing": 0.6,
            "ampere-hbm": 0.8,
            "ampere-gddr": 0.85,
            "ada": 0.9,
            "hopper": 0.68,
            "blackwell-hbm": 0.5,
            "blackwell-gddr": 0.8,
            "cdna2": 0.45,
            "cdna3": 0.4,
            "cdna4": 0.4,
            "gaudi": 0.6,
            "tpu": 0.7,
            "neuron": 0.4,
            "apple": 0.7,
            "cpu": 0.5,
        },
        "as facts/data/coefficients/compute.toml",
    ),
    "flash_fraction": (
        "1",
        {
            "default": 0.4,
            "ampere-hbm": 0.55,
            "ampere-gddr": 0.55,
            "ada": 0.6,
            "hopper": 0.5,
            "blackwell-hbm": 0.35,
            "cdna2": 0.2,
            "cdna3": 0.25,
            "neuron": 0.15,
            "gaudi": 0.3,
            "apple": 0.3,
            "cpu": 0.2,
        },
        "as facts/data/coefficients/compute.toml",
    ),
    "dequantise_rate": ("1", {"default": 0.5, "cpu": 1.0}, MEMORY),
    "kernel_quality": (
        "1",
        {
            "default": 0.95,
            "eager": 0.9,
            "fused": 0.9,
            "graph": 1.0,
            "vendor": 1.0,
            "compiled": 0.95,
            "native": 0.95,
            "xla": 0.9,
            "cpu": 0.9,
            "offload": 0.8,
        },
        MEMORY,
    ),
    "gemm_quality": (
        "1",
        {
            "default": 0.8,
            "eager": 0.75,
            "fused": 0.7,
            "graph": 0.85,
            "vendor": 1.0,
            "compiled": 0.8,
            "native": 0.6,
            "xla": 0.8,
            "cpu": 0.7,
            "offload": 0.6,
        },
        MEMORY,
    ),
    "gemm_ramp": ("tokens", {"default": 64.0}, "tile height of tensor-core products"),
    "launch_s": (
        "s",
        {
            "default": 2e-4,
            "eager": 7e-4,
            "fused": 2e-4,
            "graph": 1e-6,
            "vendor": 1e-6,
            "compiled": 1e-6,
            "native": 1e-6,
            "xla": 1e-6,
            "cpu": 1e-5,
            "offload": 5e-4,
        },
        "15 to 25 kernels of a layer launched from Python at 15 to 30 microseconds",
    ),
    "layer_s": (
        "s",
        {
            "default": 2e-5,
            "eager": 5e-5,
            "fused": 4e-5,
            "graph": 2e-5,
            "vendor": 1.5e-5,
            "compiled": 1.2e-5,
            "native": 3e-5,
            "xla": 4e-5,
            "cpu": 5e-5,
            "offload": 5e-5,
        },
        "8 to 12 kernels of a layer, each 1 to 3 microseconds to start and drain",
    ),
    "step_s": (
        "s",
        {
            "default": 2e-3,
            "eager": 2e-3,
            "fused": 1e-3,
            "graph": 1.5e-3,
            "vendor": 6e-4,
            "compiled": 2e-4,
            "native": 3e-4,
            "xla": 1e-3,
            "cpu": 1e-3,
            "offload": 5e-3,
        },
        "scheduling, sampling and detokenising of one step",
    ),
    "sequence_s": (
        "s",
        {
            "default": 1e-5,
            "eager": 1e-6,
            "fused": 1e-5,
            "graph": 2e-5,
            "vendor": 3e-6,
            "compiled": 1e-6,
            "native": 1e-5,
            "xla": 1e-5,
            "cpu": 1e-5,
            "offload": 1e-5,
        },
        "per-sequence Python work of the scheduler",
    ),
    "request_s": (
        "s",
        {
            "default": 1e-2,
            "eager": 1e-2,
            "fused": 5e-3,
            "graph": 1.5e-2,
            "vendor": 5e-3,
            "compiled": 1e-3,
            "native": 1e-3,
            "xla": 5e-3,
            "cpu": 5e-3,
            "offload": 1e-2,
        },
        "HTTP, tokenising and scheduling of one request",
    ),
    "prompt_token_s": ("s", {"default": 1e-6, "eager": 1e-7, "native": 1e-7, "vendor": 1e-7, "graph": 1e-6}, MEMORY),
    "mla_layer_s": ("s", {"default": 2e-5}, "further projections and concatenations of latent attention"),
    "moe_layer_s": ("s", {"default": 3e-5, "eager": 2e-3, "vendor": 2.5e-5}, "routing, permuting and combining kernels"),
    "linear_layer_s": ("s", {"default": 2e-5}, "convolution and state kernels of linear attention"),
    "cache_passes": (
        "1",
        {"default": 0.05, "eager": 3.0, "graph": 0.02, "vendor": 0.02, "native": 0.3, "fused": 0.5},
        "concatenation writes and reads the cache again, repeated heads once more",
    ),
    "pass_bytes": ("bytes", {"default": 60.0, "eager": 120.0, "vendor": 40.0}, "about 20 to 60 passes over 16-bit activations of a layer"),
    "interference": ("1", {"default": 1.0, "eager": 1.0}, "each prompt that is treated stalls the running sequences once"),
    "burst": ("1", {"default": 0.1}, "users of a closed load arrive partly together"),
    "all_reduce_s": (
        "s",
        {"default": 8e-6, "none": 8e-6, "pcie": 1.6e-5, "nvlink": 7e-6, "switch": 5e-6},
        "custom all-reduce kernels: 10 to 20 microseconds over eight GPUs",
    ),
    "all_reduce_quality": ("1", {"default": 1.0, "eager": 2.0, "fused": 1.5, "xla": 1.5}, MEMORY),
    "link_fraction": (
        "1",
        {"default": 0.6, "none": 0.6, "pcie": 0.5, "nvlink": 0.6, "switch": 0.65},
        "as facts/data/coefficients/network.toml",
    ),
    "attention_quality": ("1", {"default": 1.0, "eager": 0.7, "native": 0.6, "fused": 0.8, "xla": 0.8}, MEMORY),
    "flash_quality": ("1", {"default": 1.0, "native": 0.3, "fused": 0.7, "xla": 0.7}, MEMORY),
    "repeat_passes": ("1", {"default": 0.01, "eager": 4.0}, "repeating keys for grouped queries writes and reads them again for each query head"),
    "moe_launch_s": ("s", {"default": 1e-6, "eager": 3e-3, "fused": 5e-4}, "Transformers calls each chosen expert from Python"),
    "prefill_launch_s": ("s", {"default": 2e-4, "graph": 3e-4, "vendor": 1e-4, "native": 5e-5, "xla": 1e-6, "compiled": 5e-5}, "15 to 25 kernels of a layer launched at 8 to 15 microseconds"),
    "ungraphed_s": ("s", {"default": 4e-4}, "Qwen2 tables: vLLM 0.4 loses its graphs beyond 8,192 tokens"),
    "half_accumulation": ("1", {"default": 1e-3, "native": 0.8, "exllama": 0.8}, "llama.cpp and ExLlama ask cuBLAS for 16-bit sums, which GeForce cards run at twice the rate"),
    "pipeline_loss": ("1", {"default": 0.05}, "copies between cards and unequal stages"),
    "expert_skew": ("1", {"": 0.9}, "experts are not chosen independently"),
    "context_bytes": (
        "bytes",
        {"default": 1.2e9, "graph": 3e9, "vendor": 2.5e9, "native": 5e8, "fused": 8e8, "eager": 6e8, "cpu": 5e8},
        "CUDA context, libraries, graphs",
    ),
    "group_bytes": ("bytes", {"default": 8e8}, "communication buffers"),
    "workspace_bytes": ("bytes", {"default": 1e8}, "library workspaces"),
    "workspace_factor": ("1", {"default": 1.0}, MEMORY),
    "cache_growth": ("1", {"default": 1.0, "eager": 1.1}, "an engine that concatenates holds the old and new cache of a layer at once"),
}
PORTS = {
    "port_stream": {"cdna2.graph": 0.6, "cdna3.graph": 0.7, "cdna2.native": 0.45, "cdna3.native": 0.5, "intel-gpu.graph": 0.3, "intel-gpu.native": 0.2, "hopper.native": 0.9, "gaudi.xla": 1.0, "apple.native": 1.0},
    "port_gemm": {"cdna2.graph": 0.6, "cdna3.graph": 0.6, "cdna2.native": 0.4, "cdna3.native": 0.4, "intel-gpu.graph": 0.4, "intel-gpu.native": 0.2, "hopper.native": 0.6, "blackwell-hbm.native": 0.5, "gaudi.xla": 1.0, "cdna4.graph": 0.6},
    "port_layer": {"cdna2.graph": 1.6, "cdna3.graph": 1.6, "cdna2.native": 3.0, "cdna3.native": 3.0, "intel-gpu.graph": 5.0, "intel-gpu.native": 10.0},
}
FORMATS = {
    "format_launch": {"int4-awq.eager": 1.25, "int8-gptq.eager": 1.25, "int4-gptq.eager": 1.0, "int8-bnb.eager": 3.0, "nf4.eager": 1.7, "int4.eager": 1.7, "int8.eager": 2.5},
    "format_stream": {
        "int4-awq": 0.8,
        "int4-gptq": 0.8,
        "int8-gptq": 0.8,
        "int8": 0.85,
        "int8-bnb": 0.3,
        "nf4": 0.5,
        "int4": 0.7,
        "exl2": 0.85,
        "nvfp4": 0.7,
        "nvfp4-deepseek": 0.7,
        "mxfp4": 0.7,
        "fp8": 0.9,
        "gguf-q4_k_m": 0.85,
        "gguf-q4_0": 0.85,
        "gguf-q8_0": 0.9,
        "int4-awq.eager": 0.5,
        "int4-gptq.eager": 0.5,
        "int8-gptq.eager": 0.5,
    },
    "format_gemm": {
        "int4-awq": 0.7,
        "int4-gptq": 0.7,
        "int8-gptq": 0.7,
        "int8": 0.8,
        "int8-bnb": 0.4,
        "nf4": 0.5,
        "int4": 0.7,
        "exl2": 0.7,
        "nvfp4": 0.5,
        "nvfp4-deepseek": 0.5,
        "mxfp4": 0.5,
        "fp8": 0.8,
        "gguf-q4_k_m": 0.8,
    },
}


def main() -> None:
    """Merge the priors into the file: values that are there stay, priors are refreshed."""
    old = tomllib.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    entries: list[tuple[str, float, str, str]] = []
    for name, (unit, values, source) in PRIORS.items():
        entries += [(f"{name}.{key}" if key else name, value, unit, source) for key, value in values.items()]
    for name, values in PORTS.items():
        entries += [(f"{name}.{key}", value, "1", "engineering judgement: kernels written for CUDA tensor cores of one generation, carried to other devices") for key, value in values.items()]
    for name, values in FORMATS.items():
        entries += [
            (f"{name}.{key}", value, "1", "engineering judgement: kernels that expand weights reach less than plain ones")
            for key, value in values.items()
        ]
    lines = [
        "# Coefficients of the serving physics. `value` was fitted from `prior` by: python validation/fit_serving.py TRUTH_DIR --fit",
        "",
    ]
    for key, prior, unit, source in entries:
        value = old.get(key, {}).get("value", prior)
        lines += [
            f"[{json.dumps(key)}]",
            f"value = {value:.6g}",
            f"prior = {prior:.6g}",
            f"unit = {json.dumps(unit)}",
            f"source = {json.dumps(source)}",
            "",
        ]
    FILE.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
