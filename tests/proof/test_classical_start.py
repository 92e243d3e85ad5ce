"""A card is set up once a job."""

from __future__ import annotations

import pytest

from rightfit.proof.predict import predict

ROW = {
    "library": "cuml",
    "algorithm": "k nearest neighbours",
    "rows": "10000",
    "cols": "100",
    "gpu": "A100-SXM-80GB",
    "hardware": "A100",
    "settings": "",
}


def test_predictions_on_a_card_do_not_wait_for_it_to_start() -> None:
    predicted, trained = predict([{**ROW, "metric": metric} for metric in ("predict_time_s", "train_time_s")])
    assert not predicted["error"]
    assert not trained["error"]
    start = trained["terms"]["start"] * trained["predicted"]
    assert trained["predicted"] - predicted["predicted"] == pytest.approx(start, rel=0.01)
    assert "start" not in predicted["terms"]
    assert sum(predicted["terms"].values()) == pytest.approx(1.0)


def test_processors_keep_what_a_call_takes() -> None:
    rows = [
        {
            **ROW,
            "gpu": "",
            "hardware": "16 cores",
            "library": "lightgbm",
            "algorithm": "gradient boosting prediction",
            "metric": "predict_time_s",
        }
    ]
    assert "start" in predict(rows)[0]["terms"]
