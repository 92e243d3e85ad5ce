"""Which engine runs which weights on which card, and how a wrong pair is refused."""

from __future__ import annotations

import pytest

from rightfit import facts
from rightfit.errors import ContradictionError, UnknownNameError
from rightfit.facts.engines import published_format
from rightfit.search.service.space import family_of
from rightfit.search.service.stacks import StackWish, read_stack_wish, refuse_wrong_pair, stacks_of


def _wish(engine: str = "", quantization: str = "", precision: str = "", model: str = "") -> StackWish:
    return read_stack_wish(engine=engine, quantization=quantization, precision=precision, model=model)


def _stacks(card: str, wish: StackWish) -> list[tuple[str, str]]:
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
        ("A100-SXM-80GB", "", "fp8", "A100-SXM-80GB has no fp8 arithmetic"),
        ("K80", "vllm", "", "vLLM does not run bf16"),
        ("K80", "", "", "no serving engine of the table runs"),
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
