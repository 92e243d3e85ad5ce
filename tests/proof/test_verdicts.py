"""The verdict of a memory row follows the probability, and says the threshold."""

from __future__ import annotations

import pytest

from rightfit.estimation.intervals import interval_law
from rightfit.proof.predict import predict

CASE = {
    "model": "meta-llama/Meta-Llama-3-8B",
    "method": "full",
    "n_gpus": "8",
    "strategy": "fsdp",
    "gpu": "H100-SXM-80GB",
    "micro_batch": "1",
}


@pytest.mark.parametrize("seq_len", [1024, 8192, 65536, 262144])
def test_fits_is_the_probability_against_the_threshold_that_is_said(seq_len: int) -> None:
    (answer,) = predict([{**CASE, "seq_len": str(seq_len)}])
    most = interval_law().most_risk("memory")
    assert answer["fits"] == int(1.0 - answer["p_fits"] < most)
    assert f"fits: the risk of running out of memory is below {most:.0%}" in answer["assumptions"]


def test_longer_samples_never_fit_better() -> None:
    answers = predict([{**CASE, "seq_len": str(length)} for length in (1024, 4096, 16384, 65536, 262144)])
    chances = [answer["p_fits"] for answer in answers]
    assert chances == sorted(chances, reverse=True)
    assert answers[0]["fits"] == 1
    assert answers[-1]["fits"] == 0
