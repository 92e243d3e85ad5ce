"""Spellings of engines, formats, devices and lengths that no shared table uses must
still be understood."""

from __future__ import annotations

import pytest

from rightfit import facts
from rightfit.facts.engines import device_count, engine_class, find_device, version_number, weight_format
from rightfit.physics.serving_columns import Load
from rightfit.proof.cases.serving import architecture, number_in, serving_cases

ROW = {"metric": "output_tok_per_s_total", "model": "Llama 3.1 8B", "weights_dtype": "bf16", "engine": "vLLM 0.9", "device": "H100"}
ENGINES = {
    "generic": ("an engine that nobody knows",),
    "eager": ("hf-pt", "Optimum", "LitGPT", "lit-gpt", "torchao", "unsloth", "GLM transformers", "ONNX Runtime GenAI", "NeMo"),
    "ungraphed": ("DeepSpeed-FastGen", "DeepSpeed-MII"),
    "fused": ("DeepSpeed-Inference", "FasterTransformer", "AutoAWQ 0.2", "CTranslate2"),
    "graph": ("vllm 0.6.3.post1", "sglang v0.3.2", "TGI v3", "LMDeploy (PyTorch engine)", "LoRAX", "OpenLLM", "Anyscale", "llm-d"),
    "async": ("vllm-openai", "vLLM V1", "NVIDIA Dynamo (vLLM)", "Ray Serve (vLLM)", "Triton Inference Server (vLLM backend)"),
    "sglang": ("sgl-project/sglang", "AITER sglang", "SGL 0.5"),
    "vendor": ("TRT-LLM v0.12", "TensorRT LLM 0.10", "tensorrt_llm 0.9.0", "TurboMind", "Triton", "NVIDIA NIM"),
    "vendor-torch": ("TensorRT-LLM 1.0", "trtllm-serve", "TensorRT LLM"),
    "native": ("llama-bench", "llama-server", "llama_cpp", "Ollama 0.3", "mistral.rs", "candle", "chatglm.cpp", "mlx-lm"),
    "compiled": ("MLC LLM", "torch.compile", "pytorch (CUDA graphs)", "tinygrad"),
    "cpu": ("OpenVINO GenAI", "IPEX-LLM", "bigdl-llm", "xFasterTransformer", "neural-speed", "DeepSparse"),
    "xla": ("Optimum Habana", "vLLM Gaudi", "PyTorch/XLA", "JetStream MaxText", "Saxml", "MindIE"),
    "exllama": ("ExLlamaV3", "TabbyAPI", "text-generation-webui (exllama)"),
}
FORMATS = {
    "fp16": ("F16", "16-bit", "half"),
    "bf16": ("bf16-true", "BFloat16", "bf16 + fp8 kv"),
    "fp8": ("w8a8-fp8", "fp8_e5m2", "FP8 dynamic", "OCP FP8"),
    "int8-w8a8": ("W8A8", "INT8 SmoothQuant", "w8a8 int8"),
    "int8": ("INT8 WoQ", "WINT8", "EETQ", "int8wo"),
    "int8-bnb": ("bnb.int8", "bitsandbytes int8", "LLM.int8()"),
    "nf4": ("bnb-nf4", "BnB NF4", "bnb.fp4", "bnb.nf4-dq", "bnb 4bit"),
    "nvfp4": ("FP4", "NVFP4", "W4A4"),
    "int4": ("4-bit", "INT4 WoQ", "w4a8", "QoQ", "SqueezeLLM", "q4f16_1", "HQQ 4bit"),
    "int4-awq": ("W4A16 AWQ", "AWQ INT4", "AWQ-Marlin", "awq 4bit"),
    "int4-gptq": ("gptq-4bit-128g", "GPTQ-Marlin", "gptq.int4", "INT4-GPTQ"),
    "gguf-q4_k_m": ("gguf q4", "Q4_K_S", "GGUF Q4_K_M"),
    "gguf-q4_0": ("Q4_0", "IQ4_XS"),
    "exl2": ("4.65bpw", "EXL2 4.0bpw"),
}
DEVICES = {
    "H100-SXM-80GB": ("8xH100", "H100 x 8", "H100*8", "DGX H100", "p5.48xlarge", "Standard_ND96isr_H100_v5"),
    "A100-SXM-80GB": ("A100 80G", "A100 (80 GB)", "NVIDIA A100-SXM4-80GB", "p4de.24xlarge"),
    "A10G": ("g5.12xlarge",),
    "L40S": ("g6e.xlarge",),
    "TPU-v4": ("TPU v4-8",),
    "TPU-v6e": ("Trillium",),
    "Trainium2": ("trn2.48xlarge",),
    "RTX-4090-Laptop": ("RTX 4090 Laptop GPU", "GeForce RTX 4090 Mobile"),
    "RTX-3090": ("2x RTX 3090", "RTX3090", "RTX 3090 x2"),
    "RTX-4070-Ti-SUPER": ("RTX 4070 Ti SUPER",),
    "Apple-M1-8core": ("M1", "Apple M1"),
    "Apple-M4-plain": ("M4",),
    "Xeon-EMR": ("Emerald Rapids 8592+", "Xeon Platinum 8592+"),
    "Xeon-ICX": ("Intel Xeon Gold 6338",),
    "EPYC-Milan": ("EPYC 7763",),
    "Desktop-CPU-DDR5": ("i9-14900K", "Ryzen 9 7950X"),
    "Radeon-MI50": ("MI50",),
    "Arc-B580": ("Arc B580",),
}
NUMBERS = {
    "1k": 1024,
    "1.5k": 1500,
    "1,024": 1024,
    "~500 tokens": 500,
    "128-256": 192,
    "32 users": 32,
    "bs=8": 8,
    "-1": 0,
    "inf": 0,
    "1e3": 1000,
}


def pairs(table: dict[str, tuple[str, ...]]) -> list[tuple[str, str]]:
    return [(word, key) for key, words in table.items() for word in words]


def serve(**changes: str):  # type: ignore[no-untyped-def]
    cases = serving_cases([ROW | changes])
    assert not cases.refused, cases.refused
    return cases


@pytest.mark.parametrize(("word", "expected"), pairs(ENGINES))
def test_engines(word: str, expected: str) -> None:
    assert engine_class(word, version_number(word)).name == expected


@pytest.mark.parametrize(("word", "expected"), pairs(FORMATS))
def test_formats(word: str, expected: str) -> None:
    found = weight_format(word)
    assert found is not None
    assert found.name == expected


@pytest.mark.parametrize(("word", "expected"), pairs(DEVICES))
def test_devices(word: str, expected: str) -> None:
    assert find_device(word)[0].name == expected


@pytest.mark.parametrize(("text", "value"), NUMBERS.items())
def test_numbers(text: str, value: float) -> None:
    assert number_in(text) == value


def test_device_counts() -> None:
    assert [device_count(name) for name in ("8x H100", "A100 x 4", "H100*8", "L4", "RTX 3090 + RTX 4090")] == [8, 4, 8, 0, 0]
    assert serve(device="4 x A100").serve.num_devices[0] == 4


@pytest.mark.parametrize(
    ("batch", "rate", "load", "value"),
    [
        ("max", "", Load.OFFLINE, 0),
        ("offline", "", Load.OFFLINE, 0),
        ("auto", "", Load.OFFLINE, 0),
        ("1000 prompts", "inf", Load.OFFLINE, 0),
        ("64 users", "", Load.CLOSED, 64),
        ("concurrency=32", "inf", Load.CLOSED, 32),
        ("", "4 req/s", Load.OPEN, 0),
        ("", "unlimited", Load.OFFLINE, 0),
    ],
)
def test_loads(batch: str, rate: str, load: Load, value: float) -> None:
    columns = serve(batch_or_concurrency=batch, request_rate=rate, input_tokens="512", output_tokens="128").serve
    assert (columns.load[0], columns.batch[0]) == (load, value)


def test_rate_per_minute() -> None:
    assert serve(request_rate="120/min", input_tokens="512", output_tokens="128").serve.rate[0] == 2.0


def test_lengths_in_one_cell() -> None:
    columns = serve(input_tokens="8k/1k").serve
    assert (columns.input_tokens[0], columns.output_tokens[0]) == (8192, 1024)


@pytest.mark.parametrize("flags", ["fp8 KV cache", "kv_cache_dtype=fp8", "--kv-cache-dtype fp8"])
def test_cache_format_in_flags(flags: str) -> None:
    assert serve(flags=flags).serve.kv_bytes[0] == 1.0
    assert serve(flags="fp8 weights").serve.kv_bytes[0] == 2.0


def test_engines_of_chips_that_compile() -> None:
    """vLLM on a TPU runs compiled graphs, but batches continuously as elsewhere."""
    cases = serve(device="TPU v6e", batch_or_concurrency="16")
    codes = {row["code"]: row["class"] for row in facts.table("engines")}
    assert codes[str(int(cases.serve.engine[0]))] == "xla"
    assert cases.serve.load[0] == Load.CLOSED
    assert codes[str(int(serve(device="EPYC 9654").serve.engine[0]))] == "cpu"


def test_lengths_of_data_sets() -> None:
    assert serve(dataset="ShareGPT").serve.input_tokens[0] == 220
    mlperf = serve(model="llama2-70b-99.9", engine="TensorRT-LLM", batch_or_concurrency="offline max", dataset="MLPerf").serve
    assert (mlperf.input_tokens[0], mlperf.output_tokens[0]) == (290, 294)
    assert serve(dataset="random lengths").serve.input_tokens[0] == 128


@pytest.mark.parametrize(
    ("name", "size", "record"),
    [
        ("gemma-3-4b-it-qat", 3.88, "google/gemma-3-4b-pt"),
        ("DeepSeek-R1 671B", 671, "deepseek-ai/DeepSeek-R1"),
        ("Llama-3 70B", 70, "meta-llama/Meta-Llama-3-70B"),
        ("Qwen3-14B-FP8", 14.8, "Qwen/Qwen3-14B"),
        ("vllm-ascend/Qwen3-8B-W8A8", 8.2, "Qwen/Qwen3-8B"),
        ("Meta-Llama-3.1-8B-Instruct-Q4_K_M", 8, "meta-llama/Llama-3.1-8B"),
        ("Meta-Llama-3.1-8B-Instruct-AWQ-INT4", 8, "meta-llama/Llama-3.1-8B"),
    ],
)
def test_names_with_sizes_and_formats_mean_their_model(name: str, size: float, record: str) -> None:
    assert getattr(architecture(name, size)[0], "name", "") == record


def test_a_size_alone_stays_a_usual_shape() -> None:
    assert "671B" in getattr(architecture("671B", 0)[0], "name", "")


def test_llama_cpp_keeps_what_is_not_an_expert_in_8_bits() -> None:
    row = {"model": "openai/gpt-oss-20b", "device": "DGX Spark", "metric": "tpot_ms", "weights_dtype": "fp4-mxfp4", "output_tokens": "32"}
    cases = serving_cases([{**row, "engine": "llama.cpp"}, {**row, "engine": "vLLM"}])
    assert list(cases.serve.other_bytes) == [1.0625, 2.0]
    assert list(cases.serve.expert_bytes) == [0.53125, 0.53125]
