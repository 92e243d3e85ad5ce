"""What an answer prints as the format of weights can be given back as the option."""

from __future__ import annotations

import pytest

from rightfit.workload import Workload


@pytest.mark.parametrize(
    ("printed", "option"), [("int4-awq", "awq"), ("int4-gptq", "gptq"), ("gguf-q4_k_m", "gguf-q4-k-m"), ("fp8", "fp8")]
)
def test_a_printed_format_is_an_option(printed: str, option: str) -> None:
    assert Workload(model="8B", task="serve", quantization=printed).quantization == option
