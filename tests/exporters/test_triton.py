"""config.pbtxt by Triton's own protobuf, as its server reads it."""

from __future__ import annotations

import pytest
from jobs import HOSTILE, files, hostile, job, taken

text_format = pytest.importorskip("google.protobuf.text_format")
grpc = pytest.importorskip("tritonclient.grpc", reason="tritonclient is not installed (pip install 'tritonclient[grpc]')")
PATH = "models/model/config.pbtxt"


def read(text: str):  # type: ignore[no-untyped-def]
    from tritonclient.grpc import model_config_pb2

    return text_format.Parse(text, model_config_pb2.ModelConfig())


@pytest.mark.parametrize("name", taken("triton"))
def test_the_configuration_is_the_plan_s(name: str) -> None:
    found, option = read(files("triton", name)[PATH]), job(name).option
    assert found.max_batch_size == option.layout.max_batch
    assert list(found.dynamic_batching.preferred_batch_size) == [option.layout.max_batch]
    assert 0 < found.dynamic_batching.max_queue_delay_microseconds <= 20_000
    assert list(found.instance_group[0].gpus) == list(range(option.accelerator.count_per_node))
    assert found.parameters["rightfit_plan"].string_value == job(name).plan_id
    if option.layout.engine == "TensorRT":
        [kind] = found.optimization.execution_accelerators.gpu_execution_accelerator
        assert kind.name == "tensorrt"


@pytest.mark.parametrize("name", taken("triton"))
def test_hostile_names_stay_text(name: str) -> None:
    assert read(hostile("triton", name)[PATH]).parameters["rightfit_model"].string_value == HOSTILE


def test_the_protobuf_would_find_a_wrong_field() -> None:
    text = files("triton", taken("triton")[0])[PATH]
    with pytest.raises(text_format.ParseError, match="max_queue_delay"):
        read(text.replace("max_queue_delay_microseconds", "max_queue_delay"))
