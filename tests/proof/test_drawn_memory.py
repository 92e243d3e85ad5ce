"""Memory of pipelines that draw: decoders of pictures and videos, and what quantisation leaves."""

from __future__ import annotations

import pytest

from rightfit.proof.predict import predict

PIPELINE = {"metric": "peak_mem_gib", "engine": "diffusers", "device": "H100-SXM-80GB", "weights_dtype": "bf16", "counter": "allocator"}
FLUX = PIPELINE | {"model": "black-forest-labs/FLUX.1-dev", "image_size": "1024"}
VIDEO = PIPELINE | {"image_size": "480x720", "frames": "49"}


def gib(row: dict[str, str]) -> float:
    (answer,) = predict([row])
    return float(answer["predicted"])


@pytest.mark.parametrize(("batch", "measured"), [("1", 33.85), ("4", 39.49), ("8", 47.51)])
def test_each_picture_takes_its_decoder(batch: str, measured: float) -> None:
    """diffusers-torchao: 1.9 GiB a picture of 1024 x 1024."""
    assert gib(FLUX | {"batch_or_concurrency": batch}) == pytest.approx(measured, rel=0.05)


@pytest.mark.parametrize(("model", "measured"), [("THUDM/CogVideoX-5b", 31.75), ("THUDM/CogVideoX-2b", 24.51)])
def test_videos_are_decoded_eight_frames_at_a_time(model: str, measured: float) -> None:
    assert gib(VIDEO | {"model": model}) == pytest.approx(measured, rel=0.05)
    assert gib(VIDEO | {"model": model, "frames": "97"}) == pytest.approx(measured, rel=0.1)


@pytest.mark.parametrize("dtype", ["int8", "fp8"])
@pytest.mark.parametrize("model", ["THUDM/CogVideoX-5b", "black-forest-labs/FLUX.1-dev", "Wan2.1-T2V-14B"])
def test_quantisation_leaves_what_is_no_denoiser(dtype: str, model: str) -> None:
    wide, narrow = (gib(PIPELINE | {"model": model, "image_size": "480x720", "weights_dtype": one}) for one in ("bf16", dtype))
    assert 0.5 * wide < narrow < 0.95 * wide


def test_tensor_ranks_share_a_pipeline() -> None:
    """FLUX.2-dev runs on four L20 of 48 GB and not on two."""
    row = FLUX | {"model": "black-forest-labs/FLUX.2-dev", "device": "L20"}
    answers = predict([row | {"tp": ranks, "n_devices": ranks} for ranks in ("1", "2", "4", "8")])
    assert [answer["fits"] for answer in answers] == [0, 0, 1, 1]
