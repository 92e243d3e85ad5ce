"""Plans for a model of one's own: settled once, planned like a named one, refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from loaded import load_module

pytest.importorskip("onnx")

from rightfit import Workload, plan
from rightfit.errors import ContradictionError, InputError
from rightfit.estimation.forward_models import forward_work
from rightfit.estimation.pass_records import NetworkInput, PassInput
from rightfit.estimation.sample_work import train_work
from rightfit.search.request_checks import settle_own_model


def resnet50() -> bytes:
    """The graph of the tests of ONNX files."""
    path = Path(__file__).parents[1] / "facts" / "own" / "test_onnx_file.py"
    return load_module(path).resnet50()


@pytest.fixture
def net(tmp_path, monkeypatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("net.onnx").write_bytes(resnet50())
    return "./net.onnx"


def test_work_of_an_export_is_that_of_the_record(net) -> None:
    own, named = train_work(NetworkInput(f"{net}[3x224x224]")), train_work(NetworkInput("timm/resnet50", height=224))
    assert own.kind == named.kind
    for name in ("macs", "activations", "params", "kept"):
        assert getattr(own, name) == pytest.approx(getattr(named, name), rel=0.01)
    one_pass, record = forward_work(PassInput(f"{net}[3x224x224]")), forward_work(PassInput("timm/resnet50"))
    assert one_pass is not None
    assert record is not None
    assert one_pass.modality == record.modality
    assert one_pass.stages[0].macs == pytest.approx(record.stages[0].macs, rel=0.01)


def test_training_and_serving_are_planned(net) -> None:
    trained = plan(net, task="train", data="100kimages", image_size="224", gpu="T4", epochs="2").best
    named = plan("timm/resnet50", task="train", data="100kimages", image_size="224", gpu="T4", epochs="2").best
    assert trained is not None
    assert named is not None
    assert trained.cost.total_usd == pytest.approx(named.cost.total_usd, rel=0.1)
    served = plan(f"{net}[3x224x224]", task="serve", rate="100/s", latency="20ms")
    assert served.best is not None
    said = next(one for one in served.assumptions if one.why.key == "assumed_traced")
    assert str(said.value).startswith("net.onnx (sha256")
    assert said.why.params["gmacs"] == pytest.approx(4.09, abs=0.01)


def test_a_file_that_changes_is_counted_again(net) -> None:
    before = train_work(NetworkInput(f"{net}[3x224x224]")).params
    data = resnet50()
    Path(net).write_bytes(data.replace(b"fc.b", b"fx.b"))  # another file of the same graph
    assert train_work(NetworkInput(f"{net}[3x224x224]")).params == before
    Path(net).write_bytes(b"broken")
    with pytest.raises(InputError):
        settle_own_model(Workload(model=net, task="train", input_shape="3x224x224"))


def test_what_does_not_fit_is_one_line(net) -> None:
    with pytest.raises(InputError, match="dynamic sizes"):
        plan(net, task="train")
    with pytest.raises(ContradictionError, match="input_shape contradicts model resnet50"):
        plan("resnet50", task="train", input_shape="3x224x224")
    with pytest.raises(ContradictionError, match="tpot contradicts"):
        plan(net, task="serve", input_shape="3x224x224", tpot="20ms")
    with pytest.raises(InputError, match="no such file"):
        plan("./none.onnx", task="train")


def test_other_workloads_are_left_alone() -> None:
    workload = Workload(model="resnet50", task="train")
    assert settle_own_model(workload) is workload
