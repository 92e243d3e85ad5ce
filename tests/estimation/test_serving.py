"""Latency, throughput and memory of served models: properties that must hold
whatever the coefficients."""

from __future__ import annotations

import numpy as np
import pytest

from rightfit.estimation.serving import ServingTimes, metric_values, peak_memory_bytes, served_columns
from rightfit.facts import coefficients
from rightfit.proof.cases.serving import ServingCases, serving_cases

ROW = {
    "metric": "tpot_ms",
    "model": "meta-llama/Meta-Llama-3-8B",
    "weights_dtype": "bf16",
    "engine": "vLLM",
    "engine_version": "0.10",
    "device": "A100-SXM-80GB",
    "n_devices": "1",
    "input_tokens": "1024",
    "output_tokens": "256",
    "batch_or_concurrency": "16",
}


#: Dense 16-bit operations a second of data sheets.
_PEAK = {"A100-SXM-80GB": 312e12, "H100-SXM-80GB": 989e12, "L4": 121e12}


def run(*rows: dict[str, str]) -> tuple[ServingCases, ServingTimes]:
    cases = serving_cases([ROW | row for row in rows])
    assert not cases.refused
    return cases, served_columns(cases.model, cases.serve, cases.device, cases.links)


def test_eight_billion_on_an_a100_is_bandwidth_bound() -> None:
    """Between the bound of 15.0 GB / 2.039 TB/s = 7.36 ms and half as fast again."""
    _, times = run({"batch_or_concurrency": "1"})
    assert 7.36e-3 < times.step_s[0] < 1.5 * 7.36e-3


def test_throughput_grows_and_tokens_slow_down_with_users() -> None:
    _, times = run(*({"batch_or_concurrency": str(users)} for users in (1, 4, 16, 64, 256)))
    assert np.all(np.diff(times.requests_per_s) > 0)
    assert np.all(np.diff(times.tpot_s) > 0)
    assert np.all(np.diff(times.ttft_s) > 0)


def test_littles_law_holds_in_an_open_load() -> None:
    _, times = run({"batch_or_concurrency": "", "request_rate": "2"})
    in_flight = times.requests_per_s[0] * (times.latency_s[0])
    assert times.requests_per_s[0] == pytest.approx(2)
    assert in_flight == pytest.approx(times.batch[0], rel=0.1)


@pytest.mark.parametrize("device", ["A100-SXM-80GB", "H100-SXM-80GB", "L4"])
@pytest.mark.parametrize("output", ["1", "2", "4", "16", "64"])
def test_prompts_take_their_turn_however_short_the_answers(device: str, output: str) -> None:
    """No card works through more prompt tokens than its dense rate has operations for."""
    shape = {"output_tokens": output, "device": device, "input_tokens": "60"}
    _, times = run(*(shape | {"batch_or_concurrency": users} for users in ("1", "64", "1024")))
    rate = np.max(times.requests_per_s)
    needed = 2.0 * 7.5e9 * (60.0 + float(output)) * rate
    assert needed < _PEAK[device], f"{rate:.0f} requests a second"


def test_beyond_saturation_throughput_stays() -> None:
    _, times = run(*({"batch_or_concurrency": "", "request_rate": rate} for rate in ("1", "10000", "20000")))
    assert list(times.saturated) == [False, True, True]
    assert times.requests_per_s[1] == pytest.approx(times.requests_per_s[2])
    assert times.requests_per_s[1] < 10000


def test_offline_beats_any_number_of_users() -> None:
    _, times = run({"batch_or_concurrency": "max"}, {"batch_or_concurrency": "32"})
    assert times.requests_per_s[0] > times.requests_per_s[1]


def test_quantised_weights_are_faster_for_one_stream_and_smaller() -> None:
    cases, times = run({"batch_or_concurrency": "1"}, {"batch_or_concurrency": "1", "weights_dtype": "int4-awq"})
    assert times.step_s[1] < times.step_s[0]
    memory = peak_memory_bytes(cases.model, cases.serve, cases.device)
    assert memory["weights"][1] < 0.4 * memory["weights"][0]


def test_more_devices_decode_faster() -> None:
    _, times = run(*({"batch_or_concurrency": "1", "n_devices": str(n), "model": "meta-llama/Meta-Llama-3-70B"} for n in (2, 4, 8)))
    assert np.all(np.diff(times.step_s) < 0)


def test_eager_stacks_are_bound_by_launching() -> None:
    _, times = run({"batch_or_concurrency": "1"}, {"batch_or_concurrency": "1", "engine": "HF transformers", "engine_version": "4.46.0"})
    assert times.step_s[1] > 2 * times.step_s[0]


def test_metrics_agree_with_one_another() -> None:
    cases, times = run({"batch_or_concurrency": "8", "arrival": "batch"})
    found = {name: float(np.broadcast_to(value, 1)[0]) for name, value in metric_values(cases.serve, times).items()}
    assert found["output_tok_per_s_total"] == pytest.approx(8 * 256 / (found["latency_ms"] / 1e3))
    assert found["total_tok_per_s"] == pytest.approx(found["output_tok_per_s_total"] * 5)
    assert found["latency_ms"] == pytest.approx(found["ttft_ms"] + 255 * found["tpot_ms"])
    assert found["decode_tok_per_s_single"] == pytest.approx(1e3 / found["tpot_ms"])


def test_replicas_multiply_throughput_of_an_offline_load() -> None:
    _, times = run(
        {"batch_or_concurrency": "max", "n_devices": "1", "tp": "1"},
        {"batch_or_concurrency": "max", "n_devices": "4", "tp": "1", "pp": "1"},
    )
    assert times.requests_per_s[1] == pytest.approx(4 * times.requests_per_s[0])


def test_memory_terms_by_hand() -> None:
    """Weights 16.06 GB, cache 1,280 tokens x 131,072 bytes."""
    cases, _ = run({"batch_or_concurrency": "1", "metric": "peak_mem_gib", "counter": "allocator"})
    memory = peak_memory_bytes(cases.model, cases.serve, cases.device)
    assert memory["weights"][0] == pytest.approx(2 * 8030261248, rel=1e-3)
    assert memory["kv_cache"][0] == pytest.approx(1280 * 131072, rel=0.05)


def test_a_head_of_its_own_is_counted_once() -> None:
    """Qwen2-0.5B: 151,936 x 896 parameters of the head in 16 bit."""
    row = {"model": "Qwen/Qwen2-0.5B-Instruct", "engine": "HF transformers", "engine_version": "4.38", "metric": "peak_mem_gib"}
    cases, _ = run(row | {"weights_dtype": "int4-awq"})
    weights = peak_memory_bytes(cases.model, cases.serve, cases.device)["weights"]
    tied = peak_memory_bytes(cases.model, cases.serve.replace(head_copies=np.zeros(1)), cases.device)["weights"]
    assert weights[0] - tied[0] == pytest.approx(151936 * 896 * 2.0)


def test_first_tokens_wait_longer_as_an_open_load_grows_and_never_less_than_half_a_step() -> None:
    _, times = run(*({"batch_or_concurrency": "", "request_rate": str(rate), "metric": "ttft_ms"} for rate in (0.01, 1, 4, 8)))
    assert np.all(np.diff(times.ttft_s) > 0)
    idle, busy = times.ttft_s[0], times.ttft_s[3]
    assert busy - idle > times.step_s[3] / 2.0


def test_a_fixed_batch_in_rounds_makes_the_later_ones_wait() -> None:
    """64 sequences of 4,096 tokens at 0.5 MB each do not fit beside 13.5 GB of weights on 80 GB."""
    row = {"model": "meta-llama/Llama-2-7b-hf", "input_tokens": "2048", "output_tokens": "2048", "arrival": "batch"}
    _, times = run(row | {"batch_or_concurrency": "16", "metric": "ttft_ms"}, row | {"batch_or_concurrency": "64", "metric": "ttft_ms"})
    assert times.batch[1] < 64
    assert times.ttft_s[1] > 5 * times.ttft_s[0]


def test_rows_do_not_depend_on_their_neighbours() -> None:
    rows = [
        {"batch_or_concurrency": "1"},
        {"batch_or_concurrency": "", "request_rate": "4"},
        {"batch_or_concurrency": "max", "engine": "TensorRT-LLM"},
    ]
    _, together = run(*rows)
    for position, row in enumerate(rows):
        _, alone = run(row)
        assert alone.latency_s[0] == pytest.approx(together.latency_s[position])
        assert alone.requests_per_s[0] == pytest.approx(together.requests_per_s[position])


def test_rates_measured_on_single_kernels_are_held_to_them() -> None:
    # validation/kernels/curves.csv: products of 8 bit over those of 16, fused experts over dense
    # products, on Hopper.
    found = coefficients("serving")
    assert found["format_gemm.fp8"] == pytest.approx(0.5908 / 0.8227, rel=0.1)
    for engine in ("generic", "graph", "vendor"):
        assert found[f"grouped_gemm.{engine}"] == pytest.approx(0.44 / 0.82, rel=0.15)
