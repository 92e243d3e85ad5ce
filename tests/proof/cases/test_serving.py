"""Rows of the inference table as columns: engines, formats, devices, loads, layouts."""

from __future__ import annotations

import pytest

from rightfit.facts.engines import engine_class, engine_classes, family_names, find_device, format_names, weight_format
from rightfit.physics.columns import IntraKind
from rightfit.physics.serving_columns import Load, Math, ServingCounter
from rightfit.proof.cases.serving import architecture, serving_cases

ROW = {
    "metric": "tpot_ms",
    "model": "meta-llama/Meta-Llama-3-8B",
    "weights_dtype": "bf16",
    "engine": "vLLM",
    "engine_version": "0.6.3",
    "device": "A100-SXM-80GB",
    "n_devices": "1",
    "input_tokens": "1024",
    "output_tokens": "256",
    "batch_or_concurrency": "16",
}


def serve(**changes: str):  # type: ignore[no-untyped-def]
    cases = serving_cases([ROW | changes])
    assert not cases.refused, cases.refused
    return cases.serve


@pytest.mark.parametrize(
    ("name", "version", "date", "expected"),
    [
        ("vLLM", 0.0603, "", "graph"),
        ("vLLM", 0.18, "", "async"),
        ("vLLM", 0.0, "2024-05", "graph"),
        ("vLLM", 0.0, "2023-08", "ungraphed"),
        ("vLLM", 0.0, "", "async"),
        ("SGLang", 0.0509, "", "sglang"),
        ("TGI", 0.0, "2023-09", "ungraphed"),
        ("TensorRT-LLM", 0.17, "", "vendor"),
        ("TensorRT-LLM", 1.02, "", "vendor-torch"),
        ("TensorRT-LLM", 0.07, "", "vendor-mmha"),
        ("TensorRT-LLM", 0.0, "2023-11", "vendor-mmha"),
        ("TensorRT-LLM", 0.08, "", "vendor"),
        ("DeepSpeed-MII", 0.0, "", "ungraphed"),
        ("LMDeploy TurboMind", 0.0, "", "vendor"),
        ("llama.cpp", 0.0, "", "native"),
        ("HF transformers", 4.46, "", "eager"),
        ("DeepSpeed (optimum-habana)", 0.0, "", "xla"),
        ("ExLlamaV2", 0.0, "", "exllama"),
        ("Triton + vLLM", 0.06, "", "graph"),
        ("an engine of tomorrow", 0.0, "", "generic"),
        ("", 0.0, "", "generic"),
    ],
)
def test_engines_by_name_version_and_date(name: str, version: float, date: str, expected: str) -> None:
    assert engine_class(name, version, date).name == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bf16", "bf16"),
        ("int4-awq", "int4-awq"),
        ("GPTQ-Int4", "int4-gptq"),
        ("int8-gptq", "int8-gptq"),
        ("Q4_K_M", "gguf-q4_k_m"),
        ("gguf-q8_0", "gguf-q8_0"),
        ("fp4-nvfp4", "nvfp4"),
        ("exl2-4.0bpw", "exl2"),
        ("nf4", "nf4"),
        ("w8a8", "int8-w8a8"),
        ("bnb-4bit", "nf4"),
        ("hqq-4bit", "int4"),
        ("GPTQ-Int8", "int8-gptq"),
    ],
)
def test_formats_by_name(text: str, expected: str) -> None:
    found = weight_format(text)
    assert found is not None
    assert found.name == expected


def test_unknown_format_is_assumed_and_said() -> None:
    cases = serving_cases([ROW | {"weights_dtype": "fp7"}])
    assert cases.serve.linear_bytes[0] == 2
    assert any("fp7" in text for text in cases.assumptions[0])


def test_stated_bits_per_weight() -> None:
    assert serve(weights_dtype="exl2-4.0bpw", engine="ExLlamaV2").linear_bytes[0] == pytest.approx(0.51)


@pytest.mark.parametrize(
    ("name", "gib", "expected", "family"),
    [
        ("A100-80GB", 80.0, "A100-SXM-80GB", "ampere-hbm"),
        ("RTX 4090", 24.0, "RTX-4090", "ada"),
        ("Apple M2 Ultra 76-Core GPU", 192.0, "Apple-M2-Ultra-76", "apple"),
        ("CPU: Xeon 4th Gen (48c SPR)", 0.0, "Xeon-SPR-48c", "cpu"),
        ("MI250", 128.0, "MI250-1GCD", "cdna2"),
        ("8xH100", 80.0, "H100-SXM-80GB", "hopper"),
        ("NVIDIA H100 80GB HBM3", 80.0, "H100-SXM-80GB", "hopper"),
        ("GB200 NVL72", 186.0, "GB200", "blackwell-hbm"),
        ("TPU v5e-8", 16.0, "TPU-v5e", "tpu"),
        ("RTX 3060", 12.0, "RTX-3060", "ampere-gddr"),
        ("Inferentia2", 0.0, "Inferentia2", "neuron"),
    ],
)
def test_devices_by_name(name: str, gib: float, expected: str, family: str) -> None:
    card, found, _ = find_device(name, gib)
    assert (card.name, found) == (expected, family)
    assert card.memory_bandwidth > 0


def test_families_are_those_of_training_first() -> None:
    assert family_names()[5] == "ampere-hbm"


def test_unknown_device_is_refused_with_the_nearest() -> None:
    cases = serving_cases([ROW | {"device": "H900-XYZ"}])
    assert "H900" in cases.refused[0]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, Load.CLOSED),
        ({"arrival": "batch"}, Load.STATIC),
        ({"batch_or_concurrency": "1"}, Load.STATIC),
        ({"batch_or_concurrency": "max"}, Load.OFFLINE),
        ({"batch_or_concurrency": "offline 200 prompts"}, Load.OFFLINE),
        ({"batch_or_concurrency": "", "request_rate": "4"}, Load.OPEN),
        ({"batch_or_concurrency": "", "request_rate": "inf"}, Load.OFFLINE),
        ({"engine": "HF transformers"}, Load.STATIC),
    ],
)
def test_loads(changes: dict[str, str], expected: Load) -> None:
    assert serve(**changes).load[0] == expected


def test_number_of_requests() -> None:
    assert serve(batch_or_concurrency="", request_rate="8", num_requests="500", dataset="ShareGPT").requests[0] == 500


def test_layouts() -> None:
    assert serve(n_devices="8").tensor[0] == 8
    split = serve(n_devices="4", engine="llama.cpp", weights_dtype="gguf-f16")
    assert (split.tensor[0], split.pipeline[0], split.layer_split[0]) == (1, 4, 1)
    both = serve(n_devices="8", tp="4", pp="2")
    assert (both.tensor[0], both.pipeline[0], both.num_devices[0]) == (4, 2, 8)
    replicas = serve(n_devices="16", tp="4", pp="1")
    assert (replicas.data[0], replicas.num_devices[0]) == (4, 16)


def test_a_card_of_two_dies_is_two_devices_where_its_memory_says_so() -> None:
    """70B in 16 bit takes 141 GB: two cards of 128 GB hold it, two dies of 64 do not."""
    cards = serve(device="MI250", device_mem_gib="128", n_devices="2", tp="2")
    assert (cards.tensor[0], cards.num_devices[0]) == (4, 4)
    layers = serve(device="MI250", device_mem_gib="128", n_devices="2", pp="2", engine="llama.cpp")
    assert (layers.tensor[0], layers.pipeline[0]) == (1, 4)
    dies = serve(device="MI250", device_mem_gib="64", n_devices="2", tp="2")
    assert dies.num_devices[0] == 2
    assert serve(device="H100-SXM-80GB", device_mem_gib="80", n_devices="2").num_devices[0] == 2


def test_degrees_of_copies_and_experts() -> None:
    """Copies are those of the attention in a mixture of experts, and of the
    whole model otherwise."""
    mixture = serve(model="mistralai/Mixtral-8x7B-v0.1", n_devices="8", tp="1", dp="8", ep="8")
    assert (mixture.num_devices[0], mixture.attention_data[0], mixture.tensor[0], mixture.expert[0]) == (8, 8, 1, 8)
    dense = serve(n_devices="8", dp="4")
    assert (dense.num_devices[0], dense.attention_data[0], dense.tensor[0], dense.data[0]) == (8, 1, 2, 4)
    copies = serve(n_devices="8", replicas="4")
    assert (copies.tensor[0], copies.data[0]) == (2, 4)
    assert serve(n_devices="8", tp="8", ep="2").num_devices[0] == 8


def test_exllama_reserves_its_cache_and_knows_bits_only() -> None:
    exl = serve(engine="ExLlamaV2", weights_dtype="int4", model="mistralai/Mistral-7B-Instruct-v0.1")
    assert exl.cache_tokens[0] == 32768
    assert format_names()[int(exl.weight_format[0])] == "exl2"
    assert exl.linear_bytes[0] == pytest.approx(0.51)
    assert serve(engine="ExLlama", weights_dtype="int4-gptq", cache_tokens="1550").cache_tokens[0] == 1550


@pytest.mark.parametrize(
    ("model", "weights", "version", "copies"),
    [
        ("Qwen/Qwen2-0.5B-Instruct", "int4-awq", "4.38", 1),
        ("Qwen/Qwen2.5-0.5B-Instruct", "int4-awq", "4.46", 1),
        ("Qwen/Qwen2-0.5B-Instruct", "int4-gptq", "4.38", 1),
        ("Qwen/Qwen2.5-0.5B-Instruct", "int4-gptq", "4.46", 0),
        ("Qwen/Qwen2-0.5B-Instruct", "bf16", "4.38", 0),
        ("Qwen/Qwen2-7B-Instruct", "int4-awq", "4.38", 0),
    ],
)
def test_heads_that_quantised_checkpoints_untie(model: str, weights: str, version: str, copies: float) -> None:
    row = serve(model=model, weights_dtype=weights, engine="HF transformers", engine_version=version)
    assert row.head_copies[0] == copies


def test_cores_of_a_chip_are_not_devices() -> None:
    cores = serve(device="Trainium1", n_devices="16", tp="32", engine="Transformers NeuronX", flags="")
    assert cores.tensor[0] == 16


def test_graphs_of_old_vllm_end_at_8192_tokens() -> None:
    assert serve(engine_version="0.4.2").graph_limit[0] == 8192
    assert serve(engine_version="0.6.3").graph_limit[0] == 0


def test_a_version_in_the_engine_name_counts() -> None:
    assert serve(engine="vLLM v0.4.2", engine_version="").graph_limit[0] == 8192


def test_counters() -> None:
    memory = {"metric": "peak_mem_gib", "engine": "HF transformers", "engine_version": "4.46.0"}
    assert serve(**memory, counter="allocator", counter_scope="sum").counter[0] == ServingCounter.TENSORS_ALL
    assert serve(**memory, counter_scope="sum").counter[0] == ServingCounter.DRIVER_ALL
    assert serve(**memory).counter[0] == ServingCounter.DRIVER_ONE


def test_old_transformers_keep_logits_of_the_whole_prompt() -> None:
    assert serve(engine="HF transformers", engine_version="4.38.2").full_logits[0] == 6
    assert serve(engine="HF transformers", engine_version="4.46.0").full_logits[0] == 0


def test_fp8_arithmetic_and_cache_of_tensorrt_llm() -> None:
    found = serve(engine="TensorRT-LLM", engine_version="0.17", weights_dtype="fp8")
    assert (found.math[0], found.kv_bytes[0], found.linear_bytes[0]) == (Math.FP8, 1, 1)


def test_unknown_model_with_a_size_gets_a_usual_shape() -> None:
    record, assumption = architecture("BAAI/Aquila-7B", 7.3)
    assert "7.3" in assumption
    assert record.params_total == pytest.approx(7.3e9, rel=0.1)  # type: ignore[attr-defined]


def test_a_bare_mistral_has_no_window() -> None:
    cases = serving_cases([ROW | {"model": "Mistral 7B"}, ROW | {"model": "mistralai/Mistral-7B-v0.1"}])
    assert list(cases.model.sliding_window) == [0, 4096]


def test_bad_cells_never_raise() -> None:
    cases = serving_cases([{}, {"model": ""}, ROW | {"n_devices": "many", "tp": "-3", "input_tokens": "1e99", "batch_or_concurrency": "?"}])
    assert set(cases.refused) == {0, 1}
    assert cases.serve.tensor[0] == 1


@pytest.mark.parametrize(
    ("engine", "version", "device", "expected"),
    [
        ("TensorRT-LLM", "1.2", "B200-SXM-180GB", "vendor-pdl"),
        ("TensorRT-LLM", "1.2", "H200-SXM-141GB", "vendor-torch"),
        ("AutoAWQ", "0.1.6", "Xeon-SPR-48c", "eager"),
        ("AutoAWQ", "0.1.6", "RTX-4090", "fused"),
        ("CTranslate2", "", "Xeon-SPR-48c", "fused"),
    ],
)
def test_the_class_of_an_engine_depends_on_the_device(engine: str, version: str, device: str, expected: str) -> None:
    found = serve(engine=engine, engine_version=version, device=device, device_mem_gib="")
    assert engine_classes()[int(found.engine[0])] == expected


@pytest.mark.parametrize(
    ("engine", "version", "expected"),
    [("vLLM", "0.4.2", "int4-awq"), ("vLLM", "0.6.3", "int4-awq-marlin"), ("AutoAWQ", "", "int4-awq"), ("LMDeploy", "", "int4-awq-marlin")],
)
def test_awq_runs_on_its_own_kernels_or_on_faster_ones(engine: str, version: str, expected: str) -> None:
    """Ten instructions a weight in the kernels of AWQ's project, three in Marlin's, which
    vLLM took with 0.5.3."""
    found = serve(engine=engine, engine_version=version, weights_dtype="int4-awq")
    assert format_names()[int(found.weight_format[0])] == expected
    assert found.dequantise_ops[0] == (10.0 if expected == "int4-awq" else 3.0)


@pytest.mark.parametrize(
    ("device", "host", "expected"),
    [("L40S", "", 1.0), ("L40S", "g6e.48xlarge", 0.0), ("A10G", "", 0.0), ("RTX-4090", "", 0.0)],
)
def test_cards_of_virtual_machines_and_desktops_do_not_read_one_another(device: str, host: str, expected: float) -> None:
    assert serve(device=device, device_mem_gib="", n_devices="8", host=host).peer_access[0] == expected


@pytest.mark.parametrize(
    ("number", "requests", "load"),
    [
        ("1000", 1000.0, Load.OFFLINE),
        ("984", 984.0, Load.OFFLINE),
        ("100", 100.0, Load.OFFLINE),
        ("64", 0.0, Load.CLOSED),
        ("256", 0.0, Load.CLOSED),
    ],
)
def test_a_number_beside_an_endless_rate_is_of_prompts_or_of_users(number: str, requests: float, load: Load) -> None:
    row = {"model": "Qwen/Qwen3-8B", "device": "H100-SXM-80GB", "engine": "vLLM", "request_rate": "inf", "batch_or_concurrency": number}
    cases = serving_cases([{**row, "metric": "output_tok_per_s_total", "input_tokens": "219", "output_tokens": "201"}])
    assert (cases.serve.requests[0], cases.serve.load[0]) == (requests, load)
    assert any("number of requests" in text for text in cases.assumptions[0]) is (requests > 0)


@pytest.mark.parametrize(("prompt", "answer"), [("219", "201"), ("214", "200"), ("128", "4"), ("3998", "136"), ("1000", "2000")])
def test_no_digits_of_lengths_make_them_means(prompt: str, answer: str) -> None:
    row = {"model": "Qwen/Qwen3-8B", "device": "H100-SXM-80GB", "engine": "vLLM", "request_rate": "inf", "metric": "tpot_ms"}
    row |= {"batch_or_concurrency": "1000", "input_tokens": prompt, "output_tokens": answer}
    cases = serving_cases([row, row | {"dataset": "ShareGPT"}])
    assert cases.serve.varied_lengths.tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("model", "devices", "tensor", "data"),
    [("meta-llama/Llama-2-70b-hf", "72", 4.0, 18.0), ("Qwen/Qwen3-8B", "8", 1.0, 8.0), ("meta-llama/Llama-3.1-405B", "16", 16.0, 1.0)],
)
def test_devices_without_a_layout_are_replicas_of_the_smallest_group(model: str, devices: str, tensor: float, data: float) -> None:
    row = {"model": model, "device": "H100-SXM-80GB", "engine": "vLLM", "metric": "output_tok_per_s_total", "weights_dtype": "bf16"}
    cases = serving_cases([{**row, "n_devices": devices, "batch_or_concurrency": "max", "input_tokens": "200", "output_tokens": "200"}])
    assert (cases.serve.tensor[0], cases.serve.data[0]) == (tensor, data)


def test_users_of_one_token_wait_for_all_prompts() -> None:
    row = {"model": "Qwen/Qwen3-8B", "device": "H100-SXM-80GB", "engine": "vLLM", "metric": "ttft_ms", "batch_or_concurrency": "16"}
    cases = serving_cases([{**row, "input_tokens": "1024", "output_tokens": answer} for answer in ("1", "128")])
    assert list(cases.serve.load) == [Load.STATIC, Load.CLOSED]


@pytest.mark.parametrize(("device", "chunk", "most"), [("A100-SXM-80GB", 2048, 256), ("H100-SXM-80GB", 8192, 1024), ("L4", 2048, 256)])
def test_engines_take_their_defaults_by_card(device: str, chunk: float, most: float) -> None:
    cases = serving_cases([{"model": "Qwen/Qwen3-8B", "device": device, "engine": "vLLM", "engine_version": "0.11.0", "metric": "tpot_ms"}])
    assert (cases.serve.chunk_tokens[0], cases.serve.max_batch[0]) == (chunk, most)


@pytest.mark.parametrize(
    ("date", "kind"), [("2023-06", "ungraphed"), ("2024", "graph"), ("2024-07", "graph"), ("2026", "async"), ("", "async")]
)
def test_a_year_alone_is_its_middle(date: str, kind: str) -> None:
    assert engine_class("vLLM", 0.0, date).name == kind


@pytest.mark.parametrize("arrival", ["burst", "closed", "open"])
@pytest.mark.parametrize("stated", [{"input_tokens": "300"}, {"output_tokens": "300"}, {}], ids=["prompt", "answer", "neither"])
def test_loads_whose_lengths_are_half_stated_are_conversations(arrival: str, stated: dict[str, str]) -> None:
    load = {"burst": {"arrival": "burst"}, "closed": {"arrival": "closed", "batch_or_concurrency": "32"}, "open": {"request_rate": "2"}}[
        arrival
    ]
    cases = serving_cases([{"model": "Llama-3.1-8B", "device": "H100-SXM-80GB", "engine": "vLLM", "metric": "tpot_ms", **load, **stated}])
    usual = {"input_tokens": 220.0, "output_tokens": 200.0} | {name: float(cell) for name, cell in stated.items()}
    assert {name: float(getattr(cases.serve, name)[0]) for name in usual} == usual


@pytest.mark.parametrize("name", ["TPU-v4", "TPU-v5e", "TPU-v5p", "TPU-v6e", "TPU-v7"])
def test_chips_of_a_slice_are_joined_by_their_own_links(name: str) -> None:
    cases = serving_cases(
        [{"model": "Llama-3.3-70B", "device": name, "n_devices": "8", "tp": "8", "engine": "vLLM (TPU)", "metric": "tpot_ms"}]
    )
    assert cases.links.intra_kind[0] == IntraKind.SWITCH
    assert cases.links.intra_bandwidth[0] >= 200e9


@pytest.mark.parametrize(
    ("engine", "version", "kind"),
    [
        ("TensorRT-LLM", "TensorRT 10.2.0, CUDA 12.4", "vendor"),
        ("TensorRT-LLM", "1.0.0 (TensorRT 10.11)", "vendor-torch"),
        ("TensorRT-LLM", "0.11.0", "vendor"),
        ("vLLM", "PyTorch 2.3.0, ROCm 6.1.2", "graph"),
        ("vLLM", "vLLM 0.9.2, PyTorch 2.7.0", "async"),
    ],
)
def test_versions_of_what_an_engine_is_built_on_are_not_its_own(engine: str, version: str, kind: str) -> None:
    cases = serving_cases([{**ROW, "engine": engine, "engine_version": version, "date": "2024-08"}])
    assert engine_classes()[int(cases.serve.engine[0])] == kind
