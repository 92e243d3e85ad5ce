"""The set-up that a plan shows gives the plan's figures when it is asked about by itself."""

from __future__ import annotations

from typing import Any

import pytest

import rightfit

LLAMA = "meta-llama/Meta-Llama-3-8B"
#: Services with more cards than replicas need, on one server and on several, and jobs.
WISHES: list[dict[str, Any]] = [
    {"model": LLAMA, "task": "serve", "rate": "12/s", "gpu": "L40S"},
    {"model": "Qwen/Qwen2.5-0.5B", "task": "serve", "rate": "1/s", "gpu": "L40S"},
    {"model": LLAMA, "task": "serve", "users": 300, "gpu": "L40S"},
    {"model": "openai/whisper-large-v3", "task": "serve", "rate": "3/s", "gpu": "L40S"},
    {"model": "black-forest-labs/FLUX.1-dev", "task": "serve", "rate": "1/s", "latency": "20s", "gpu": "L40S"},
    {"model": LLAMA, "task": "finetune", "method": "lora", "data": "100Mtok", "gpu": "L40S", "deadline": "6h"},
    {"model": LLAMA, "task": "batch", "data": "2000Mtok", "gpu": "L40S", "deadline": "8h"},
]


@pytest.mark.parametrize("wish", WISHES, ids=lambda wish: f"{wish['model'].rpartition('/')[2]} {wish['task']} {wish.get('rate', '')}")
def test_an_estimate_of_a_planned_set_up_is_the_plan(wish: dict[str, Any]) -> None:
    options = rightfit.plan(top=6, **wish).options
    assert options
    for option in options:
        alone = rightfit.estimate(on=f"{option.provider}/{option.instance_type}", nodes=option.nodes, **wish).best
        assert alone is not None
        assert alone.layout == option.layout
        for name, figure in option.estimate.items():
            # The time of a whole job holds the interruptions of its place.
            assert alone.estimate[name].mid == pytest.approx(figure.mid, rel=1e-3, nan_ok=True), (name, option.instance_type)


@pytest.mark.parametrize("wish", [wish for wish in WISHES if wish["task"] == "serve"], ids=lambda wish: wish["model"].rpartition("/")[2])
def test_rented_servers_are_filled(wish: dict[str, Any]) -> None:
    for option in rightfit.plan(top=6, **wish).options:
        layout = option.layout
        cards = option.nodes * option.accelerator.count_per_node
        assert layout.data * layout.tensor * layout.pipeline > cards - layout.tensor * layout.pipeline
