"""module:function against published counts, against ONNX exports of the same module, and with code
that goes wrong. Needs PyTorch."""

from __future__ import annotations

import sys

import pytest

pytest.importorskip("torch", reason="SKIPPED LOUDLY: the oracle tests of models of one's own need PyTorch, which is not installed here")

import torch

from rightfit import Workload, facts, plan
from rightfit.errors import InputError, RightfitError
from rightfit.estimation.pass_records import KEPT, NetworkInput
from rightfit.estimation.sample_work import train_work
from rightfit.facts.own.models import own_model, run_function

NETS = """
import time
import torch
from torch import nn

class Bottleneck(nn.Module):
    def __init__(self, channels, width, stride):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True),
            nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width))
        self.short = nn.Identity() if channels == 4 * width else nn.Sequential(nn.Conv2d(channels, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))
    def forward(self, x):
        return torch.relu(self.main(x) + self.short(x))

def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(True), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            layers.append(Bottleneck(channels, 64 * 2**stage, 2 if stage and not block else 1))
            channels = 256 * 2**stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))

def frozen():
    net = resnet50()
    for parameter in net[:-1].parameters():
        parameter.requires_grad = False
    return net

def depthwise():
    def block(size): return [nn.Conv2d(size, 6 * size, 1), nn.ReLU6(), nn.Conv2d(6 * size, 6 * size, 3, padding=1, groups=6 * size), nn.ReLU6(), nn.Conv2d(6 * size, size, 1)]
    return nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), *block(16), *block(16))

class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.rnn, self.head = nn.Embedding(1000, 64), nn.LSTM(64, 128, 2, batch_first=True), nn.Linear(128, 10)
    def forward(self, ids):
        return self.head(self.rnn(self.embed(ids))[0])

def tagger(): return Tagger()

class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(8, 4), nn.Linear(6, 4)
    def forward(self, a, b): return self.left(a) * self.right(b)

def pair(): return Pair(), (torch.zeros(5, 8), torch.zeros(5, 6))
def looks_at_values():
    scale = torch.linspace(0, 1, 3)[1].item()
    return nn.Linear(int(scale * 16), 4)
def wrong(): raise ValueError("no\\nweights")
def text(): return "net"
def slow(): time.sleep(600)
def leaves(): raise SystemExit(0)
def prints():
    print('{"error": "not this"}')
    return nn.Linear(8, 4)
def llama():
    import transformers
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(num_hidden_layers=2, hidden_size=256, intermediate_size=704, num_attention_heads=4, vocab_size=4000))
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    (tmp_path / "own_nets.py").write_text(NETS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RIGHTFIT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


def test_resnet50_is_exact() -> None:
    found = run_function("own_nets:resnet50[3x224x224]")
    assert found.params_total == 25_557_032  # torchvision's model card
    assert found.macs == 4_089_184_256  # the same, 4.09 GMACs
    assert found.activations == pytest.approx(facts.model("timm/resnet50").activations, rel=0.01)
    assert found.backward_macs == 2 * found.macs - 64 * 112 * 112 * 147  # no gradient of the image is wanted
    # what autograd keeps, against the rule for named models
    assert found.kept_bytes / 4 == pytest.approx(KEPT["conv"] * found.activations, rel=0.05)
    assert (found.kind, found.source) == ("conv", "traced from own_nets:resnet50")


def test_an_onnx_export_of_it_agrees(folder) -> None:
    pytest.importorskip("onnx")
    sys.path.insert(0, str(folder))
    try:
        import own_nets

        net = own_nets.resnet50().eval()
    finally:
        sys.path.pop(0)
        sys.modules.pop("own_nets", None)
    torch.onnx.export(net, (torch.zeros(1, 3, 224, 224),), "net.onnx", dynamo=False, input_names=["x"], dynamic_axes={"x": {0: "n"}})
    exported, traced = own_model("net.onnx"), run_function("own_nets:resnet50[3x224x224]")
    assert exported.macs == traced.macs
    assert exported.activations == traced.activations
    assert exported.params_total == pytest.approx(25.6e6, rel=0.01)
    assert exported.kind == traced.kind


def test_what_is_frozen_does_not_learn() -> None:
    found = run_function("own_nets:frozen[3x224x224]")
    work = train_work(NetworkInput("own_nets:frozen[3x224x224]"))
    assert found.params_trainable == 2048 * 1000 + 1000
    assert work.trained == found.params_trainable
    assert work.macs < 0.01 * work.frozen_macs
    assert found.kept_bytes < 1e6


def test_kinds_of_layers() -> None:
    assert run_function("own_nets:depthwise[3x64x64]").kind == "depthwise"
    tagger = run_function("own_nets:tagger[100tokens]")
    assert (tagger.kind, tagger.modality) == ("recurrent", "text")
    per_token = 4 * 128 * (64 + 128) + 4 * 128 * (128 + 128) + 128 * 10
    assert tagger.macs == 100 * per_token
    assert tagger.gathered == 100 * 64


def test_inputs_from_the_function() -> None:
    found = run_function("own_nets:pair")
    assert found.macs == 8 * 4 + 6 * 4
    assert found.params_total == 8 * 4 + 4 + 6 * 4 + 4


def test_code_that_looks_at_values_is_built_for_real() -> None:
    assert run_function("own_nets:looks_at_values[8]").params_total == 8 * 4 + 4


def test_what_the_code_prints_is_no_answer() -> None:
    assert run_function("own_nets:prints[8]").macs == 32


def test_a_module_with_a_configuration_is_a_language_model() -> None:
    found = run_function("own_nets:llama")
    assert isinstance(found, facts.TransformerArchitecture)
    assert (found.num_layers, found.hidden_size, found.source) == (2, 256, "traced from own_nets:llama")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("own_nets:wrong[8]", "ValueError: no weights"),
        ("own_nets:text[8]", "returned str"),
        ("own_nets:leaves[8]", "SystemExit"),
        ("own_nets:nothing[8]", "no attribute 'nothing'"),
        ("no_such_module:build[8]", "no module named 'no_such_module'"),
        ("own_nets:NETS[8]", "cannot be loaded"),
        ("own_nets:resnet50", "what does its input look like"),
        ("own_nets:resnet50[8]", "one step failed"),
    ],
)
def test_code_that_goes_wrong_is_one_line(text, words) -> None:
    with pytest.raises(InputError, match=words) as caught:
        run_function(text)
    assert "\n" not in str(caught.value)


def test_code_that_does_not_end_is_ended(monkeypatch) -> None:
    monkeypatch.setenv("RIGHTFIT_TRACE_SECONDS", "8")
    with pytest.raises(InputError, match="within 8 s"):
        run_function("own_nets:slow[8]")


def test_counts_hold_while_the_code_is_the_same(folder, monkeypatch) -> None:
    from rightfit.facts.own import models

    first = run_function("own_nets:prints[8]")
    models._RUN.clear()
    with monkeypatch.context() as patch:
        patch.setattr(models, "run_worker", lambda *_, **__: pytest.fail("counted again"))
        assert run_function("own_nets:prints[8]") == first
    models._RUN.clear()
    (folder / "own_nets.py").write_text(NETS.replace("return nn.Linear(8, 4)", "return nn.Linear(8, 16)"))
    assert run_function("own_nets:prints[8]").macs == 128


def test_a_plan_of_ones_own_is_that_of_the_named_model() -> None:
    wishes = {"task": "train", "data": "1Mimages", "epochs": "10", "gpu": "T4", "optimizer": "sgd", "global_batch": "256"}
    own = plan("own_nets:resnet50", image_size="224", **wishes).best
    named = plan("resnet50", image_size="224", **wishes).best
    assert own is not None
    assert named is not None
    assert own.cost.total_usd == pytest.approx(named.cost.total_usd, rel=0.1)


def test_options_and_the_input_must_agree() -> None:
    with pytest.raises(RightfitError, match="contradict each other"):
        plan(Workload(model="own_nets:resnet50", task="train", image_size="224", input_shape="1x28x28"))
