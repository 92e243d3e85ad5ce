"""Kinds of models without figures are planned like another, in amounts of their own units."""

from __future__ import annotations

import datetime

import pytest

from rightfit import facts
from rightfit.facts import tables
from rightfit.units import parse_data
from rightfit.workload.ask import understand
from rightfit.workload.options import read_wish

DAY = datetime.date(2026, 11, 28)
#: (a wish, the kind, what is planned, how many samples or tokens or requests a second)
WISHES = [
    ("北京做机械臂的,自己采了1200条轨迹想微调pi0.5,要几天", "vla", "google/paligemma-3b-pt-224", 300_000),
    ("fine-tune SmolVLA on 200 episodes of my SO-101 arm", "vla", "google/paligemma-3b-pt-224", 50_000),
    ("LoRA GR00T N1.5 with 80 teleop demos", "vla", "google/paligemma-3b-pt-224", 20_000),
    ("finetune openvla-7b on 500 demonstrations, one A100", "openvla", "llava-1.5-7b", 125_000),
    ("forecast 50k SKUs daily with chronos, retrain every week, GCP", "forecasts", "google-t5/t5-small", 1_000_000),
    ("微调TimesFM,2000个门店的销量", "forecasts", "google-t5/t5-small", 40_000),
    ("复现BEVFormer-base在nuScenes上24epoch,4张3090", "cameras", "torchvision/maskrcnn_resnet50_fpn", 675_120),
    ("train StreamPETR on 40k keyframes, 24 epochs", "cameras", "torchvision/maskrcnn_resnet50_fpn", 960_000),
    ("train mel-band roformer from scratch on 100 hours of stems", "bands", "70M", 2_232_000_000),
    ("直播间数字人2路,musetalk,25fps,腾讯云", "faces", "stable-diffusion-v1-5", 50),
    ("wav2lip for 4 streams at 25 fps in real time", "faces", "stable-diffusion-v1-5", 100),
]


@pytest.mark.parametrize(("sentence", "kind", "model", "amount"), WISHES)
def test_a_kind_is_planned_like_another_in_its_own_units(sentence: str, kind: str, model: str, amount: float) -> None:
    found = understand(sentence, today=DAY)
    told = found.wishes
    assert told["model"] == model
    said = [one for one in found.assumed if one.key == "workload.assumed_likeness"]
    assert [one.fields["model"] for one in said] == [model], "the doubt is said"
    assert f"likeness_{kind}" in str(said[0].fields["how"].key)
    if "rate" in told:
        assert float(told["rate"].removesuffix("/s")) == pytest.approx(amount)
    else:
        size = parse_data(told["data"])
        assert max(size.tokens or 0, size.samples or 0) == pytest.approx(amount)


def test_what_is_told_goes_before_what_is_usual() -> None:
    told = understand("fine-tune pi0.5 on 100 episodes for 10 epochs at 1024 tokens each", today=DAY).wishes
    assert (told["epochs"], told["seq_len"]) == ("10", "1024")
    assert understand("train BEVFormer on nuScenes, 12 epochs", today=DAY).wishes["epochs"] == "12"


def test_models_with_figures_of_their_own_are_planned_as_themselves() -> None:
    for name in ("patchtst", "bert-base", "stable-diffusion-v1-5", "paligemma-3b"):
        assert not [one for one in understand(f"train {name} on 5k samples", today=DAY).assumed if "likeness" in one.key]


def test_every_kind_is_planned_with_what_is_known() -> None:
    for row in tables.table("likenesses"):
        for task, model in (("finetune", row["train_model"]), ("serve", row["run_model"])):
            words = (row[f"{'train' if task == 'finetune' else 'run'}_options"]).split()
            for option, value in zip(words[::2], words[1::2], strict=True):
                read_wish(option.removeprefix("--").replace("-", "_"), value)
            assert not model or facts.model(model, network=False), row["kind"]
