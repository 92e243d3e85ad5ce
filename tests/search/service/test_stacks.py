"""Which engine runs which weights on which card, and how a wrong pair is refused."""

from __future__ import annotations

import pytest

from rightfit import facts
from rightfit.errors import ContradictionError, UnknownNameError
from rightfit.facts.engines import published_format
from rightfit.search.service.space import family_of
from rightfit.search.service.stacks import StackRequest, is_packed, read_stack_wish, refuse_unknown_class, refuse_wrong_pair, stacks_of


def _wish(engine: str = "", quantization: str = "", precision: str = "", model: str = "") -> StackRequest:
    return read_stack_wish(engine=engine, quantization=quantization, precision=precision, model=model)


def _stacks(card: str, wish: StackRequest) -> list[tuple[str, str]]:
    accelerator = facts.accelerators()[card]
    return [(stack.name, stack.format) for stack in stacks_of(accelerator, family_of(accelerator), wish)[0]]


@pytest.mark.parametrize(
    ("card", "stack"),
    [
        ("H100-SXM-80GB", ("vLLM", "bf16")),
        ("T4", ("vLLM", "fp16")),  # no bf16 on Turing
        ("V100-SXM-16GB", ("vLLM", "fp16")),
        ("P100-PCIe-16GB", ("llama.cpp", "gguf-f16")),  # vLLM needs compute capability 7.0
        ("MI300X", ("vLLM", "bf16")),
        ("TPU-v5e", ("vLLM on TPU", "bf16")),
        ("Trainium1", ("vLLM on Neuron", "bf16")),
    ],
)
def test_usual_stack_of_each_card(card: str, stack: tuple[str, str]) -> None:
    assert _stacks(card, _wish()) == [stack]


@pytest.mark.parametrize("card", ["K80", "M60", "FirePro-S7150"])
def test_cards_that_no_engine_runs_on(card: str) -> None:
    assert _stacks(card, _wish()) == []


def test_no_fp8_on_ampere_but_on_hopper_and_ada() -> None:
    wish = _wish(quantization="fp8")
    assert _stacks("A100-SXM-80GB", wish) == []
    assert _stacks("H100-SXM-80GB", wish) == _stacks("L4", wish) == [("vLLM", "fp8")]


def test_awq_needs_turing() -> None:
    assert _stacks("V100-SXM-16GB", _wish(quantization="awq")) == []
    assert _stacks("T4", _wish(quantization="awq")) == [("vLLM", "int4-awq")]
    assert _stacks("V100-SXM-16GB", _wish(quantization="gptq")) == [("vLLM", "int4-gptq")]


def test_gguf_means_llama_cpp() -> None:
    assert _stacks("T4", _wish(quantization="gguf-q4-k-m")) == [("llama.cpp", "gguf-q4_k_m")]


def test_free_quantisation_offers_the_published_weights_too() -> None:
    assert {form for _, form in _stacks("H100-SXM-80GB", _wish(quantization="any"))} == {"bf16", "fp8", "int4-awq"}


def test_models_published_in_fp8_are_served_so_where_the_card_can() -> None:
    wish = _wish(model="deepseek-ai/DeepSeek-V3")
    assert _stacks("H200-SXM-141GB", wish) == [("vLLM", "fp8")]
    assert _stacks("A100-SXM-80GB", wish) == [("vLLM", "fp8")]  # it widens them in its kernels
    assert _stacks("T4", wish) == [("vLLM", "fp16")]
    assert _stacks("H100-SXM-80GB", _wish(model="nvidia/Llama-3.1-8B-Instruct-NVFP4")) == [("vLLM", "nvfp4")]
    assert _stacks("H100-SXM-80GB", _wish(model="nvidia/Llama-3.1-8B-Instruct-NVFP4", engine="sglang")) == [("SGLang", "bf16")]
    assert published_format("deepseek-ai/DeepSeek-R1") == "fp8"
    assert published_format("deepseek-ai/DeepSeek-V3.1-Base") == "fp8"
    assert published_format("deepseek-ai/DeepSeek-R1-Distill-Llama-8B") == ""


def test_named_engine_is_taken() -> None:
    assert _stacks("H100-SXM-80GB", _wish(engine="sglang")) == [("SGLang", "bf16")]
    assert _stacks("H100-SXM-80GB", _wish(engine="trt-llm")) == [("TensorRT-LLM", "bf16")]


def test_unknown_engine_and_format_name_what_is_allowed() -> None:
    with pytest.raises(UnknownNameError, match="SGLang"):
        _wish(engine="foo")
    with pytest.raises(UnknownNameError, match="gguf-q4_k_m"):
        _wish(quantization="q9")


@pytest.mark.parametrize(
    ("card", "engine", "quantization", "says"),
    [
        ("A100-SXM-80GB", "", "fp8", "A100-SXM-80GB does not support fp8"),
        ("K80", "vllm", "", "vLLM does not support bf16"),
        ("K80", "", "", "no supported serving engine runs"),
    ],
)
def test_wrong_pairs_are_refused_with_the_reason(card: str, engine: str, quantization: str, says: str) -> None:
    accelerator = facts.accelerators()[card]
    with pytest.raises(ContradictionError, match=says) as caught:
        refuse_wrong_pair(_wish(engine=engine, quantization=quantization), ((accelerator, family_of(accelerator)),))
    assert "\n" not in str(caught.value)


def test_one_good_card_of_several_is_enough() -> None:
    cards = tuple((facts.accelerators()[name], family_of(facts.accelerators()[name])) for name in ("A100-SXM-80GB", "H100-SXM-80GB"))
    refuse_wrong_pair(_wish(quantization="fp8"), cards)


def test_a_class_that_no_engine_has_on_the_card_is_refused_before_the_search() -> None:
    a100 = facts.accelerators()["A100-SXM-80GB"]
    sparse = read_stack_wish(engine="", quantization="", precision="", names=("deepseek-ai/DeepSeek-V4-Flash",))
    assert stacks_of(a100, family_of(a100), sparse) == ((), "class")
    with pytest.raises(ContradictionError, match=r"DeepseekV4ForCausalLM on A100-SXM-80GB \(it needs vllm 0.20.0"):
        refuse_wrong_pair(sparse, ((a100, family_of(a100)),))
    h100 = facts.accelerators()["H100-SXM-80GB"]
    assert stacks_of(h100, family_of(h100), sparse)[0][0].name == "vLLM"


@pytest.mark.parametrize(
    ("model", "engine", "says"),
    [
        ("meta-models/Muse-Spark-Open-816B-A42B", "tgi", "TGI.*MuseSparkForConditionalGeneration.*--framework vLLM, SGLang"),
        ("THUDM/glm-130b", "", "supports GLMModel"),
        ("google/recurrentgemma-2b", "vllm", "--framework Transformers"),
    ],
)
def test_a_model_that_no_released_engine_knows_is_refused_with_its_class(model: str, engine: str, says: str) -> None:
    with pytest.raises(ContradictionError, match=says):
        refuse_unknown_class(read_stack_wish(engine=engine, quantization="", precision="", names=(model,)), model)


def test_a_model_of_ones_own_is_never_refused_for_its_class() -> None:
    refuse_unknown_class(_wish(), "layers=32,hidden=4096")


QUANTISED = sorted(row["hub_id"] for row in facts.table("engine_models") if is_packed(published_format(row["hub_id"])))
COPIES = [
    *QUANTISED,
    "hugging-quants/Meta-Llama-3.1-70B-Instruct-AWQ-INT4",
    "Qwen/Qwen2.5-72B-Instruct-GPTQ-Int4",
    "neuralmagic/Meta-Llama-3.1-8B-Instruct-quantized.w8a8",
]


@pytest.mark.parametrize("name", COPIES)
def test_a_quantised_checkpoint_stays_what_it_is(name: str) -> None:
    """No engine makes fp8 of AWQ or GPTQ: any of fewer bits leaves the checkpoint's own format, and
    another format by name is refused."""
    published = published_format(name)
    for told in ({}, {"quantization": "any"}, {"quantization": "none"}, {"precision": "bf16"}, {"precision": "fp16"}):
        found = _wish(model=name, **told)
        assert found.formats == (published,), told
        assert {form for _, form in _stacks("H100-SXM-80GB", found)} <= {published}
    for other in {"awq", "gptq", "fp8", "nf4", "int8", "gguf-q4_k_m"}:
        if published not in _wish(quantization=other).formats:
            with pytest.raises(ContradictionError, match=f"published in {published}"):
                _wish(model=name, quantization=other)
    with pytest.raises(ContradictionError, match="fp8"):
        _wish(model=name, precision="fp8")


def test_a_published_checkpoint_of_wide_or_native_weights_may_be_narrowed() -> None:
    assert _wish(model="Qwen/Qwen2.5-72B-Instruct", quantization="fp8").formats == ("fp8",)
    assert _wish(model="deepseek-ai/DeepSeek-V3", quantization="awq").formats == ("int4-awq",)
