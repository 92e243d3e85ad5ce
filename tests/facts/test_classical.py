"""Names of algorithms as people write them, and columns of tables that everyone uses."""

from __future__ import annotations

import pytest

from rightfit import facts
from rightfit.facts.classical import classical_model, dataset_columns, library_without_algorithm, nearest_classical


@pytest.mark.parametrize(
    ("text", "name", "library", "is_named"),
    [
        ("XGBoost", "xgboost", "xgboost", False),
        ("XGBClassifier", "xgboost", "xgboost", False),
        ("RandomForestClassifier", "random-forest", "sklearn", False),
        ("sklearn.svm.SVC", "svm", "sklearn", True),
        ("scikit-learn logistic regression", "logistic-regression", "scikit-learn", True),
        ("cuml KMeans", "k-means", "cuml", True),
        ("随机森林", "random-forest", "sklearn", False),
        ("逻辑回归", "logistic-regression", "sklearn", False),
        ("random forest spark", "random-forest", "spark", True),
        ("LightGBM", "lightgbm", "lightgbm", False),
    ],
)
def test_names_in_many_forms(text: str, name: str, library: str, is_named: bool) -> None:
    found = classical_model(text)
    assert found is not None
    assert (found.name, found.library, found.is_library_named) == (name, library, is_named)


@pytest.mark.parametrize(
    "text", ["llama-2-7b", "glm-4", "chatglm3-6b", "mlp-mixer", "resnet50", "bridgetower", "7B", "", "sklearn", "dlrm"]
)
def test_other_names_are_left_alone(text: str) -> None:
    assert classical_model(text) is None


def test_no_algorithm_takes_the_name_of_a_bundled_model() -> None:
    assert [
        name for name in facts.models() if classical_model(name) is not None and getattr(facts.models()[name], "kind", "") != "trees"
    ] == []


def test_misspelt_names_have_a_nearest_and_others_none() -> None:
    assert nearest_classical("xgbost") == "xgboost"
    assert nearest_classical("randomforst") == "random-forest"
    assert nearest_classical("llama") == ""
    assert library_without_algorithm("scikit-learn") == "scikit-learn"
    assert library_without_algorithm("xgboost") == ""


def test_every_row_has_a_source_and_a_known_library() -> None:
    libraries = {row["library"] for row in facts.table("classical_libraries")}
    assert {row["library"] for row in facts.table("classical_models")} <= libraries
    assert all(row["source"] for table in ("classical_models", "dataset_columns") for row in facts.table(table))
    names = [row["name"] for row in facts.table("classical_models")]
    assert len(names) == len(set(names)) >= 29


def test_columns_belong_to_data_sets_that_are_known_and_agree_with_their_size() -> None:
    assert dataset_columns("HIGGS") == 28
    assert dataset_columns("IMDB") == 0
    for row in facts.table("dataset_columns"):
        record = facts.dataset(row["name"])
        if "dense float32" in record.source:  # its size was computed as rows x columns x 4
            assert record.size_bytes == pytest.approx(record.samples * int(row["columns"]) * 4, rel=0.1, abs=5e4)
