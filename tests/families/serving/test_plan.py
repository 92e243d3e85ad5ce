"""Serving plans end to end on the bundled catalog."""

from __future__ import annotations

import math

import pytest

import rightfit
from rightfit.errors import ContradictionError
from rightfit.facts.tables import constant_group
from rightfit.search.answer import Option, Plan
from rightfit.search.service.options import ServingCost, ServingLayout

LLAMA = "meta-llama/Meta-Llama-3-8B"
CHAT = {"task": "serve", "rate": "10/s", "input_tokens": 1024, "output_tokens": 256, "ttft": "300ms", "tpot": "30ms"}


@pytest.fixture(scope="module")
def chat() -> Plan:
    return rightfit.plan(LLAMA, **CHAT)


def _best(plan: Plan) -> tuple[Option, ServingLayout, ServingCost]:
    assert plan.best is not None
    assert isinstance(plan.best.layout, ServingLayout)
    assert isinstance(plan.best.cost, ServingCost)
    return plan.best, plan.best.layout, plan.best.cost


def test_limits_hold_at_the_percentile_for_every_option(chat: Plan) -> None:
    assert len(chat.options) == 10
    for option in chat.options:
        assert option.estimate["ttft_s"].mid <= 0.3 * 1.001
        assert option.estimate["tpot_s"].mid <= 0.03 * 1.001
        assert option.facts["utilisation"] <= 0.8 + 1e-9


def test_percentiles_are_ordered(chat: Plan) -> None:
    for name in ("ttft", "tpot", "latency"):
        values = [_best(chat)[0].estimate[f"{name}_p{share}_s"].mid for share in (50, 95, 99)]
        assert values == sorted(values)


def test_money_follows_from_price_servers_and_load(chat: Plan) -> None:
    option, _, cost = _best(chat)
    assert cost.terms["servers_usd"] == pytest.approx(cost.hourly_usd * 730)
    assert cost.monthly_usd == pytest.approx(sum(cost.terms.values()))
    requests = 10 * 730 * 3600
    assert cost.per_thousand_requests_usd == pytest.approx(cost.monthly_usd / requests * 1e3)
    assert cost.per_million_tokens_usd == pytest.approx(cost.monthly_usd / requests / 1280 * 1e6)
    assert cost.by_purchase[option.purchase] == pytest.approx(cost.terms["servers_usd"])


def test_options_are_by_rising_cost(chat: Plan) -> None:
    costs = [option.cost.total_usd * (1.25 if option.nodes > 1 else 1.0) for option in chat.options]  # one server goes before several
    assert costs[1:] == sorted(costs[1:])
    assert costs[0] <= max(1.1 * min(costs), min(costs) + 50.0)  # what costs next to nothing more may go first


def test_memory_terms_fill_what_the_engine_takes(chat: Plan) -> None:
    """Its share of the card, and beside it the graphs that vLLM captures with the cache made."""
    option, _, _ = _best(chat)
    graphs = constant_group("serving_rows", "captured_graphs")["async"]
    assert sum(option.memory_terms.values()) == pytest.approx(option.facts["capacity_bytes"] + graphs, rel=1e-6)
    assert option.memory_terms["weights"] == pytest.approx(16.06e9, rel=0.01)


def test_more_load_needs_no_fewer_replicas_and_no_less_money() -> None:
    plans = [rightfit.plan(LLAMA, **{**CHAT, "rate": f"{rate}/s"}, gpu="L40S", top=1) for rate in (1, 10, 100)]
    replicas = [_best(plan)[1].replicas for plan in plans]
    costs = [_best(plan)[2].total_usd for plan in plans]
    assert replicas == sorted(replicas)
    assert costs == sorted(costs)
    assert replicas[-1] > replicas[0]


def test_tighter_limits_are_never_cheaper() -> None:
    costs = [_best(rightfit.plan(LLAMA, **{**CHAT, "tpot": tpot}, top=1))[2].total_usd for tpot in ("100ms", "30ms", "12ms")]
    assert costs == sorted(costs)


def test_large_model_is_cut_over_cards() -> None:
    plan = rightfit.plan("meta-llama/Meta-Llama-3-70B", task="serve", users=50, gpu="A100-SXM-80GB", top=1)
    option, layout, _ = _best(plan)
    assert layout.tensor * layout.pipeline >= 2  # 141 GB of weights
    assert option.memory_terms["weights"] == pytest.approx(141.1e9 / layout.tensor / layout.pipeline, rel=0.02)
    assert layout.replicas * layout.max_batch >= 50


def test_deepseek_is_served_in_fp8_over_eight_cards_or_more() -> None:
    plan = rightfit.plan("deepseek-ai/DeepSeek-V3", task="serve", rate="5/s", top=3)
    for option in plan.options:
        assert isinstance(option.layout, ServingLayout)
        assert option.layout.weight_format == "fp8"
        assert option.memory_terms["weights"] * option.layout.tensor * option.layout.pipeline == pytest.approx(673e9, rel=0.03)


@pytest.mark.parametrize(
    ("model", "gpu", "stored", "gib"),
    [
        ("neuralmagic/Meta-Llama-3.1-8B-Instruct-FP8", "A100", "fp8", 8.46),
        ("nvidia/Llama-3.1-8B-Instruct-NVFP4", "H100", "nvfp4", 5.61),
        ("Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf", "L4", "gguf-q4_k_m", 4.54),
        ("nvidia/Llama-3.1-8B-Instruct-NVFP4", "T4", "fp16", 15.0),
    ],
)
def test_a_quantised_checkpoint_is_sized_as_it_is_stored_or_says_that_it_is_widened(model: str, gpu: str, stored: str, gib: float) -> None:
    best = rightfit.plan(model, task="serve", rate="2/s", gpu=gpu, top=1).options[0]
    assert isinstance(best.layout, ServingLayout)
    assert best.layout.weight_format == stored
    assert best.memory_terms["weights"] * best.layout.tensor * best.layout.pipeline / 2**30 == pytest.approx(gib, rel=0.01)
    widened = [warning.params for warning in best.warnings if warning.key == "serve_widened"]
    assert bool(widened) is (stored == "fp16")
    assert all(params["accelerator"] == best.accelerator.name and params["format"] == "nvfp4" for params in widened)


def test_fewer_bits_cost_no_more_and_carry_a_warning() -> None:
    whole = rightfit.plan(LLAMA, **CHAT, top=1)
    free = rightfit.plan(LLAMA, **CHAT, quantization="any", top=10)
    assert _best(free)[2].total_usd <= _best(whole)[2].total_usd
    reduced = [option for option in free.options if option.layout.precision not in ("bf16", "fp16", "gguf-f16")]
    assert reduced
    assert all(any(warning.key == "serve_quality" for warning in option.warnings) for option in reduced)


def test_impossible_token_time_names_weights_over_bandwidth() -> None:
    plan = rightfit.plan("meta-llama/Meta-Llama-3-70B", task="serve", rate="1/s", tpot="1ms")
    assert plan.best is None
    bound = next(reason for reason in plan.advice if reason.key == "serve_bound_tpot")
    assert 1e-3 < bound.params["bound_s"] < bound.params["least_s"]
    # 140 GB of weights through eight cards of 8 TB/s.
    assert bound.params["bound_s"] == pytest.approx(141.1e9 / 8 / 8e12, rel=0.1)
    assert any("tpot" in group for group in plan.blame)


def test_impossible_first_token_names_arithmetic() -> None:
    plan = rightfit.plan("meta-llama/Meta-Llama-3-70B", task="serve", rate="1/s", input_tokens=8000, output_tokens=10, ttft="5ms")
    bound = next(reason for reason in plan.advice if reason.key == "serve_bound_ttft")
    assert 0 < bound.params["bound_s"] < bound.params["least_s"]


def test_budget_and_server_limit_refuse() -> None:
    poor = rightfit.plan(LLAMA, **CHAT, budget="10usd/month")
    assert poor.best is None
    assert {rejection.criterion for rejection in poor.rejected} >= {"budget"}
    few = rightfit.plan("deepseek-ai/DeepSeek-V3", task="serve", rate="5/s", gpu="A100", max_nodes=1, quantization="none")
    assert few.best is None
    assert any(rejection.criterion == "max_nodes" for rejection in few.rejected)


def test_every_offer_is_accounted_for(chat: Plan) -> None:
    assert sum(rejection.count for rejection in chat.rejected) < chat.counts.offers
    impossible = rightfit.plan(LLAMA, **{**CHAT, "tpot": "100us"})
    assert sum(rejection.count for rejection in impossible.rejected) == impossible.counts.offers


def test_context_over_the_limit_of_the_model() -> None:
    with pytest.raises(ContradictionError, match="exceeds the limit"):
        rightfit.plan(LLAMA, task="serve", rate="1/s", input_tokens=20000)


def test_advice_has_redundancy(chat: Plan) -> None:
    advice = {reason.key: reason.params for reason in chat.advice}
    assert advice["serve_n_plus_one"]["servers"] == _best(chat)[0].nodes + 1


def test_commitment_is_advised_where_it_saves() -> None:
    plan = rightfit.plan(LLAMA, **CHAT, cloud="aws", top=1)
    saving = next(reason for reason in plan.advice if reason.key == "serve_commit")
    assert saving.params["saving_usd"] > 0
    assert saving.params["monthly_usd"] + saving.params["saving_usd"] == pytest.approx(_best(plan)[2].terms["servers_usd"])


def test_corpus_by_a_deadline_at_least_cost() -> None:
    # At list prices: quotes of spot servers are ranked by what they may be by now, and shown
    # as they were listed.
    day = rightfit.plan(LLAMA, task="batch", data="1Msamples", deadline="24h", purchase="on-demand", top=3)
    hour = rightfit.plan(LLAMA, task="batch", data="1Msamples", deadline="2h", purchase="on-demand", top=3)
    for plan, limit in ((day, 86400.0), (hour, 7200.0)):
        assert all(option.estimate["total_time_s"].mid <= limit for option in plan.options)
    assert _best(day)[2].total_usd <= _best(hour)[2].total_usd
    _, _, cost = _best(day)
    assert cost.monthly_usd is None
    assert cost.per_thousand_requests_usd == pytest.approx(cost.total_usd / 1e3)


def test_tokens_of_a_corpus_are_cut_into_prompts() -> None:
    plan = rightfit.plan(LLAMA, task="batch", data="1.024Gtok", input_tokens=1024, output_tokens=64, top=1)
    assert _best(plan)[0].facts["requests"] == pytest.approx(1e6)


def test_classifier_on_cpu_when_the_load_is_small_and_on_cards_when_it_is_not() -> None:
    small = rightfit.plan("bert-base-uncased", task="serve", rate="5/s", latency="150ms", top=1)
    large = rightfit.plan("bert-base-uncased", task="serve", rate="1000/s", latency="100ms", top=1)
    assert _best(small)[0].accelerator.name == ""
    assert _best(large)[0].accelerator.name != ""
    for plan, limit in ((small, 0.15), (large, 0.1)):
        assert _best(plan)[0].estimate["latency_s"].mid <= limit


def test_images_overnight_and_speech_by_monday() -> None:
    images = rightfit.plan("stabilityai/stable-diffusion-xl-base-1.0", task="batch", data="100kimages", deadline="12h", top=1)
    speech = rightfit.plan("openai/whisper-large-v3", task="batch", data="10000hours", deadline="3d", top=1)
    assert _best(images)[0].facts["requests"] == 1e5
    assert _best(speech)[0].facts["requests"] == pytest.approx(10_000 * 3600 / 30)
    assert math.isnan(_best(images)[2].per_million_tokens_usd)


def test_vision_at_five_thousand_a_second() -> None:
    plan = rightfit.plan("resnet50", task="serve", rate="5000/s", top=1)
    assert _best(plan)[0].estimate["requests_per_s"].mid * 0.8 >= 5000


def test_token_limits_contradict_models_without_tokens() -> None:
    with pytest.raises(ContradictionError, match="use latency"):
        rightfit.plan("resnet50", task="serve", rate="10/s", ttft="100ms")


def test_int8_is_not_offered_where_the_card_lacks_it() -> None:
    plan = rightfit.plan("resnet50", task="serve", rate="5000/s", quantization="int8", top=10)
    assert all("V100" not in option.accelerator.name for option in plan.options)
    assert all(option.layout.precision == "int8" for option in plan.options)


def test_users_share_the_replicas() -> None:
    plan = rightfit.plan(LLAMA, task="serve", users=200, think="0s", gpu="L4", top=1)
    option, layout, _ = _best(plan)
    assert option.facts["batch"] * layout.replicas == pytest.approx(200, rel=0.01)
    assert option.facts["rate_per_s"] > 0


def test_spot_carries_its_warning() -> None:
    plan = rightfit.plan(LLAMA, **CHAT, purchase="spot", top=3)
    assert all(any(warning.key == "serve_spot" for warning in option.warnings) for option in plan.options)


@pytest.mark.parametrize(("tokens", "rate"), [("500", "0.02/s"), ("16k", "0.02/s"), ("100k", "0.02/s"), ("500", "0.5/s"), ("16k", "0.5/s")])
def test_a_limit_that_the_best_option_keeps_changes_nothing(tokens: str, rate: str) -> None:
    """A long prompt keeps a replica busy by itself: a request alone still waits for none."""
    wish = {"task": "serve", "rate": rate, "input_tokens": tokens, "output_tokens": "256", "gpu": "H100", "quantization": "none"}
    free = rightfit.plan("Llama-3.1-70B", ttft="10min", tpot="1s", **wish).best
    assert free is not None
    limit = 1.1 * free.estimate["ttft_s"].mid
    held = rightfit.plan("Llama-3.1-70B", ttft=f"{limit:.4g}s", tpot="1s", **wish).best
    assert held is not None
    assert held.cost.total_usd <= 1.001 * free.cost.total_usd


def test_a_prompt_of_the_whole_limit_means_prompt_and_answer() -> None:
    found = rightfit.plan("Llama-3.3-70B", task="serve", users=4, input_tokens="128k")
    assert found.best is not None
    told = {one.field: one for one in found.assumptions}
    assert told["input_tokens"].value == 131072 - told["output_tokens"].value
    with pytest.raises(ContradictionError):
        rightfit.plan("Llama-3.3-70B", task="serve", users=4, input_tokens="128k", output_tokens=10)
