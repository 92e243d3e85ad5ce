"""Which accelerators the usual software runs on, and which layouts a training stack has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rightfit import facts
from rightfit.errors import ContradictionError
from rightfit.physics.columns import Method
from rightfit.planner.given import estimate_one, why
from rightfit.planner.plan import plan, search
from rightfit.search.criteria import splits_models, stack_of
from rightfit.workload import Workload

LLAMA = "meta-llama/Meta-Llama-3-8B"


def _workload(**options: Any) -> Workload:
    return Workload(**{"model": LLAMA, "data": "50Mtok", **options})


@pytest.mark.parametrize(
    ("name", "stack"),
    [
        ("H100-SXM-80GB", "CUDA"),
        ("MI300X", "ROCm"),
        ("Trainium1", ""),
        ("TPU-v5e", ""),
        ("Gaudi1", ""),
        ("Ascend-910B", ""),
        ("ALI-PPU-810-96GB", ""),
        ("ALI-L20N-48GB", "CUDA"),  # the cloud's own name of a card that it equals
    ],
)
def test_stack_of_an_accelerator(name: str, stack: str) -> None:
    assert stack_of(facts.accelerators()[name]) == stack


def test_other_stacks_are_left_out_unless_named() -> None:
    found = search(_workload(method="lora"))
    feasible = np.unique(found.market.offers.server_index[(found.bits == 0).any(axis=1)])
    names = {found.market.offers.servers.accelerator_name[server] for server in feasible}
    assert not names & {"Trainium1", "Trainium2", "TPU-v5e", "TPU-v6e", "Gaudi1"}
    assert "H100-SXM-80GB" in names
    assert "MI300X" in names
    named = plan(_workload(method="lora", gpu="Trainium1"))
    assert named.best is not None
    assert named.best.accelerator.name == "Trainium1"
    assert "gpu" not in {assumption.field for assumption in named.assumptions}


def test_what_was_left_out_is_said() -> None:
    found = plan(_workload(method="lora"))
    assert {assumption.field: assumption.value for assumption in found.assumptions}["gpu"] == "CUDA, ROCm"
    refused = next(rejection for rejection in found.rejected if rejection.criterion == "software")
    assert refused.count > 10
    assert refused.nearest is not None
    assert refused.nearest.change.key == "change_software"


def test_a_server_given_by_name_runs_its_own_software() -> None:
    given = estimate_one(_workload(method="lora"), on="aws/trn1.32xlarge")
    assert given.best is not None
    assert not given.rejected
    standing = why(_workload(method="lora"), "aws/trn1.32xlarge").standing
    assert standing[0].params["criterion"] == "software"


@pytest.mark.parametrize("name", ["Trainium1", "TPU-v5e", "Gaudi1"])
def test_bitsandbytes_runs_on_nvidia_and_amd_only(name: str) -> None:
    found = plan(_workload(method="qlora", gpu=name))
    assert found.best is None
    assert {rejection.needed for rejection in found.rejected if rejection.criterion == "capability"} == {"nf4"}


@pytest.mark.parametrize(
    ("options", "splits"),
    [
        ({"task": "finetune", "method": "full"}, False),
        ({"task": "finetune", "method": "full", "framework": "megatron"}, True),
        ({"task": "finetune", "method": "full", "framework": "torchtitan"}, True),
        ({"task": "finetune", "method": "full", "framework": "axolotl"}, False),
        ({"task": "finetune", "method": "full", "tensor_parallel": 4}, True),
        ({"task": "train"}, True),
        ({"task": "train", "framework": "transformers"}, False),
        ({"method": "lora"}, False),
        ({"method": "lora", "framework": "nemo"}, True),
        ({"method": "lora", "framework": "torchtitan"}, False),
        ({"method": "lora", "framework": "nemo", "quantization": "int8"}, False),
        ({"method": "qlora", "framework": "nemo"}, False),
    ],
)
def test_who_can_split_a_model(options: dict[str, Any], splits: bool) -> None:
    workload = _workload(**options)
    assert splits_models(workload, Method[(workload.method or "full").upper()]) is splits


def test_layouts_keep_to_what_the_stack_can_do() -> None:
    adapters = search(_workload(method="qlora")).space.setups
    assert int(adapters.tensor.max()) == int(adapters.pipeline.max()) == int(adapters.expert.max()) == 1
    whole = search(Workload(model="mistralai/Mixtral-8x7B-v0.1", task="train", data="1Gtok")).space.setups
    assert int(whole.tensor.max()) > 1
    assert int(whole.pipeline.max()) > 1
    assert int(whole.expert.max()) > 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "qlora", "tensor_parallel": 2}, "bitsandbytes"),
        ({"method": "lora", "pipeline_parallel": 4}, "--framework nemo"),
        ({"method": "full", "framework": "trl", "tensor_parallel": 2}, "trl supports only"),
    ],
)
def test_a_split_that_the_stack_lacks_is_a_contradiction(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ContradictionError, match=words):
        plan(_workload(**options))


def test_the_figures_are_those_of_the_framework_that_is_assumed() -> None:
    """What is not named is the same as naming what is assumed."""
    for options, name in (({"method": "lora"}, "transformers"), ({"method": "full"}, "transformers")):
        assumed, named = (estimate_one(_workload(**options, **more), on="gcp/a3-highgpu-8g").best for more in ({}, {"framework": name}))
        assert assumed is not None
        assert named is not None
        assert assumed.estimate["step_s"].mid == named.estimate["step_s"].mid
        assert assumed.estimate["peak_memory_bytes"].mid == named.estimate["peak_memory_bytes"].mid
