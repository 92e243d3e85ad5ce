"""Spellings of engines, formats, devices, models and loads that no shared table uses must
still be understood."""

from __future__ import annotations

import math

import pytest

from rightfit import facts
from rightfit.estimation.forward import DTYPES, ENGINES, Engine
from rightfit.estimation.pass_records import SILICON, card_device
from rightfit.proof.cases.forward import arithmetic_of, batch_of, engine_of, forward_rows, is_forward, wish_of
from rightfit.proof.cases.reader import forward_device
from rightfit.proof.family_predict import predict_forward

ROW = {"metric": "images_per_s", "model": "resnet50", "weights_dtype": "fp16", "engine": "TensorRT 8.6", "device": "T4"}
CLASSES = {
    "tensorrt": ("TensorRT 10.0", "TRT", "torch-tensorrt 2.1", "TF-TRT", "ONNX Runtime TensorRT EP", "Triton + TensorRT", "DeepStream 6.3"),
    "onnxruntime": ("onnxruntime-gpu 1.16", "ORT CUDA EP", "Triton (ONNX)", "DirectML", "TFLite", "ncnn", "MNN", "Core ML", "FastEmbed"),
    "openvino": ("OpenVINO 2024.1", "Optimum Intel", "DeepSparse 1.5", "IPEX 2.1", "Intel Extension for PyTorch", "oneDNN"),
    "compiled": ("torch.compile (inductor)", "PyTorch CUDA graphs", "JAX 0.4", "PyTorch/XLA", "optimum-habana", "BetterTransformer"),
    "fused": ("AITemplate", "stable-fast", "text-embeddings-inference 1.2", "MIGraphX", "Apache TVM", "vLLM", "xDiT"),
    "eager": (
        "PyTorch 2.1",
        "TorchScript",
        "transformers 4.40",
        "sentence-transformers",
        "ROCm PyTorch",
        "an engine that nobody knows",
        "",
    ),
    "tensorflow": ("TensorFlow 2.12", "TF 2.10", "Keras"),
    "tensorflow_xla": ("TensorFlow 2.12 XLA",),
    "paddle": ("Paddle Inference 2.5",),
    "ctranslate2": ("faster-whisper 1.0", "WhisperX", "CTranslate2"),
    "ggml": ("whisper.cpp 1.5", "stable-diffusion.cpp"),
    "webui": ("ComfyUI", "A1111", "Fooocus"),
    "neuron": ("Optimum Neuron",),
}
FORMATS = {
    "fp16": ("FP16", "half", "float16", "w4a16", "nf4"),
    "bf16": ("bfloat16", "BF16"),
    "amp": ("AMP", "mixed precision", "amp-fp16", "BF16-AMP"),
    "tf32": ("TF32",),
    "fp32": ("FP32", "float32", "float", "single"),
    "int8": ("INT8", "i8", "int8 (QDQ)", "W8A8", "uint8", "INT8+FP16"),
    "fp8": ("FP8", "e4m3", "fp8_e4m3fn", "NVFP4"),
    "": ("",),
}
CHIPS = {
    "volta": ("Tesla V100 SXM2 32GB", "p3.2xlarge", "Titan V"),
    "turing": ("Tesla T4 16GB", "g4dn.xlarge", "RTX 2080 Ti", "Quadro RTX 8000"),
    "ampere": ("A100 80GB PCIe", "A800", "NVIDIA A30", "A100-SXM-40GB (MIG 1g.5gb)"),
    "ampere_small": ("A10G", "g5.2xlarge", "RTX 3060 12GB", "Jetson Orin Nano 8GB", "A16"),
    "ada": ("NVIDIA GeForce RTX 4060 Laptop GPU", "L4", "RTX 6000 Ada", "RTX 4090 D"),
    "hopper": ("H100 NVL", "GH200", "H20"),
    "blackwell": ("B200",),
    "blackwell_small": ("RTX 5090", "RTX PRO 6000 Blackwell", "DGX Spark"),
    "old": ("GTX 1080 Ti", "Tesla P40", "K80", "M60"),
    "neuron": ("Inferentia2",),
    "other": ("MI300X", "Radeon RX 7900 XTX", "Gaudi2", "HPU Gaudi2", "TPU v5e", "Intel Arc A770", "Ascend 910B", "Apple M2 Ultra"),
    "cpu": (
        "CPU",
        "Xeon Platinum 8380",
        "2x Xeon 8480+",
        "AMD EPYC 9654",
        "Ryzen 9 5950X",
        "c7g.4xlarge",
        "n2-standard-8",
        "Raspberry Pi 4",
    ),
}
LOADS = {
    ("bs=32", ""): (32.0, "batch"),
    ("batch_size=16", ""): (16.0, "batch"),
    ("concurrency 16", ""): (16.0, "batch"),
    ("64 (per GPU)", ""): (64.0, "batch"),
    ("server", ""): (0.0, "server"),
    ("", "open"): (0.0, "server"),
    ("Offline", ""): (0.0, "offline"),
    ("SingleStream", ""): (1.0, "single"),
    ("8", "single"): (8.0, "single"),
    ("batch size 128", ""): (128.0, "batch"),
    ("auto", ""): (0.0, "offline"),
}
MODELS = (
    *(
        "YOLOv8n",
        "yolov5s",
        "PP-YOLOE-l",
        "ssd_mobilenet_v2",
        "MobileNet-v3-large",
        "DenseNet-121",
        "VGG-19",
        "ResNeXt-50 32x4d",
        "AlexNet",
    ),
    *(
        "ViT-L/14",
        "Swin Transformer Base",
        "DINOv2 ViT-L/14",
        "CLIP ViT-B/32",
        "RegNetY-16GF",
        "NASNet Mobile",
        "segment-anything",
        "SegFormer B5",
    ),
    *("MiniLM-L6", "jina-embeddings-v2", "ms-marco-MiniLM-L-12-v2", "bge-large-en", "splade", "nomic-embed-text-v1", "ModernBERT-base"),
    *("openai/whisper-medium.en", "distil-whisper large-v2", "wav2vec2-base", "NLLB-200", "Conformer-CTC", "RNN-T", "T5-base"),
    *("SDXL-Turbo", "dreamshaper", "RealVisXL", "SD3.5 Large Turbo", "FLUX.1 [dev]", "Wan2.1 T2V 14B", "StableDiffusion", "DLRM-v2"),
)


def case_of(**cells: str) -> dict[str, float]:
    found = forward_rows([ROW | cells])
    assert not found.refused
    return {name: float(column[0]) for name, column in found.columns.case.items()}


@pytest.mark.parametrize(("engine", "text"), [(name, text) for name, texts in CLASSES.items() for text in texts])
def test_engines(engine: str, text: str) -> None:
    assert engine_of(text, "", "A100") == engine
    assert ENGINES[int(case_of(engine=text)["engine"])] == engine


@pytest.mark.parametrize(("dtype", "text"), [(name, text) for name, texts in FORMATS.items() for text in texts])
def test_formats(dtype: str, text: str) -> None:
    assert (arithmetic_of(text) or "") == dtype


@pytest.mark.parametrize(("silicon", "text"), [(name, text) for name, texts in CHIPS.items() for text in texts])
def test_devices(silicon: str, text: str) -> None:
    device = forward_device(text)
    assert device is not None
    assert device.silicon == silicon
    assert device.peak("fp16") > 0
    assert SILICON[int(case_of(device=text)["silicon"])] == silicon


@pytest.mark.parametrize(("cells", "load"), LOADS.items())
def test_loads(cells: tuple[str, str], load: tuple[float, str]) -> None:
    assert (batch_of({"batch_or_concurrency": cells[0], "arrival": cells[1], "metric": "images_per_s"})) == load


@pytest.mark.parametrize("model", MODELS)
def test_models_get_a_figure(model: str) -> None:
    row = ROW | {"model": model, "metric": "latency_ms", "device": "A100-SXM4-80GB", "input_tokens": "128", "batch_or_concurrency": "1"}
    assert is_forward(row)
    found = predict_forward([row])[0]
    assert found.value is not None
    assert math.isfinite(found.value)
    assert 0.05 < found.value < 2e7


def test_a_slice_of_a_card_is_a_seventh() -> None:
    whole, part = forward_device("A100-SXM-40GB"), forward_device("A100-SXM-40GB (MIG 2g.10gb)")
    assert whole is not None
    assert part is not None
    assert part.fp16 == pytest.approx(whole.fp16 * 2 / 7)
    assert part.bandwidth == pytest.approx(whole.bandwidth * 2 / 7)


def test_unstated_arithmetic_is_that_of_the_engine() -> None:
    eager = ROW | {"engine": "PyTorch", "weights_dtype": ""}
    assert DTYPES[int(case_of(**(eager | {"device": "Xeon Platinum 8380"}))["dtype"])] == "fp32"
    assert DTYPES[int(case_of(**(eager | {"device": "A100"}))["dtype"])] == "tf32"  # cuDNN's convolutions
    assert DTYPES[int(case_of(weights_dtype="", device="A100")["dtype"])] == "fp16"


def test_pytorch_in_int8_on_a_processor_is_a_graph_library() -> None:
    assert ENGINES[int(case_of(engine="PyTorch", weights_dtype="int8", device="Xeon Platinum 8380")["engine"])] == "openvino"


def test_sockets_of_processors() -> None:
    counted = {"device": "Xeon Platinum 8480+", "n_devices": "4", "engine": "OpenVINO"}
    assert case_of(**counted)["parallel"] == 4
    assert case_of(**counted, sockets="2")["parallel"] == 2
    assert case_of(device="CPU: Apple M1 Pro", n_devices="10", engine="onnxruntime")["parallel"] == 1


@pytest.mark.parametrize(
    ("engine", "notes", "device", "expected"),
    [
        ("PyTorch (timm)", "input 224px; torch.compile", "RTX 5090", "compiled"),
        ("PyTorch (timm)", "", "RTX 5090", "eager"),
        ("TensorFlow1 (NGC)", "XLA; section", "T4", "tensorflow_xla"),
        ("TensorFlow1 (NGC)", "", "T4", "tensorflow"),
        ("TensorRT 8.6", "", "L4", "tensorrt"),
        ("ONNX Runtime", "", "T4", "onnxruntime"),
        ("faster-whisper", "", "T4", "ctranslate2"),
        ("PyTorch 2.5", "", "Inferentia2", "neuron"),
        ("", "", "", "eager"),
        ("never heard of", "", "T4", "eager"),
    ],
)
def test_engine(engine: str, notes: str, device: str, expected: str) -> None:
    assert engine_of(engine, notes, device) == expected


@pytest.mark.parametrize(
    ("text", "computed", "expected"),
    [
        ("amp-fp16", "", "amp"),
        ("fp32", "", "fp32"),
        ("fp32", "bf16", "bf16"),
        ("int8 and bf16", "", "int8"),
        ("", "", ""),
        ("awq 4-bit", "", "fp16"),
    ],
)
def test_dtype(text: str, computed: str, expected: str) -> None:
    assert (arithmetic_of(text, computed) or "") == expected


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ("512", (512, 512, 0)),
        ("512px", (512, 512, 0)),
        ("224x224", (224, 224, 0)),
        ("720p 129 frames", (720, 1280, 129)),
        ("R5350G6_A30x10_TRT", (0, 0, 0)),
        ("Resolution=572x572x1", (572, 572, 0)),
        ("", (0, 0, 0)),
    ],
)
def test_sizes_of_pictures(size: str, expected: tuple[float, float, float]) -> None:
    wish = wish_of({"model": "x", "image_size": size})
    assert (wish.height, wish.width, wish.frames) == pytest.approx(expected)


def test_steps_audio_and_beams() -> None:
    wish = wish_of({"model": "x", "denoise_steps": "28", "frames": "129", "audio_s": "780", "beams": "5", "latency_scope": "step"})
    assert (wish.steps, wish.frames, wish.audio_s, wish.beams, wish.denoise_only) == (28, 129, 780, 5, True)


def test_batches() -> None:
    assert batch_of({"batch_or_concurrency": "8"}) == (8, "batch")
    assert batch_of({"batch_or_concurrency": "offline max"}) == (0, "offline")
    assert batch_of({"request_rate": "max under SLO"}) == (0, "server")
    assert batch_of({"metric": "latency_ms"}) == (1, "offline")


def test_processors_by_cores_and_units() -> None:
    sapphire = forward_device("CPU: Intel(R) Xeon(R) Platinum 8480+")
    assert sapphire is not None
    assert sapphire.int8 == pytest.approx(56 * 2.4e9 * 2048)
    eight = forward_device("CPU: Core i7-12700K (8 threads)")
    assert eight is not None
    assert eight.fp32 == pytest.approx(8 * 4.5e9 * 32)
    quarter = forward_device("CPU: c6i.4xlarge")
    assert quarter is not None
    assert quarter.units == 8


def test_devices_without_an_arithmetic_fall_to_the_next_wider() -> None:
    v100, t4 = forward_device("V100-16GB"), forward_device("T4")
    assert v100 is not None
    assert t4 is not None
    assert v100.peak("int8") == v100.fp16
    assert v100.peak("bf16") == v100.fp16
    assert t4.peak("tf32") == t4.fp32
    assert forward_device("Abacus 9000") is None


def test_every_line_of_the_tables_names_a_class_of_engines() -> None:
    for table, column in (("forward_engines", "engine"), ("forward_stacks", "engine_class")):
        assert {row[column] for row in facts.table(table)} <= set(Engine)
    for row in facts.table("forward_stacks"):
        assert row["engine_class"] == engine_of(row["engine"], "", "")


def test_a_card_is_the_same_by_its_name_in_a_row_and_by_its_record() -> None:
    assert all(forward_device(name) == card_device(record) for name, record in facts.accelerators().items())
