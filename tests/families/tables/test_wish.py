"""Workloads of classical machine learning and data preparation as jobs with numbers, and what is
refused in one line."""

from __future__ import annotations

from typing import Any

import pytest
from tests.classical_tasks import named_task

from rightfit import api, facts
from rightfit.errors import ContradictionError, InputError, RightfitError, UnavailableError, UnknownNameError
from rightfit.families.tables.match import matches
from rightfit.families.tables.wish import TableRequest, read_host_wish
from rightfit.physics.classical_work import Algorithm
from rightfit.search.classical_wish import ASSUMED
from rightfit.workload import Workload


def read(**wishes: Any) -> TableRequest:
    return read_host_wish(Workload(**wishes))


def assumed(wish: TableRequest) -> dict[str, Any]:
    return {assumption.field: assumption.value for assumption in wish.assumptions}


def test_rows_and_columns_as_typed() -> None:
    wish = read(model="xgboost", data="1100万行 x 28列", trees=500, depth=8)
    assert (wish.rows, wish.cols, wish.data_bytes) == (11e6, 28, 11e6 * 28 * 8)
    assert (wish.task.algorithm, wish.task.trees, wish.task.depth) == (Algorithm.BOOST_HIST, 500, 8)
    assert wish.on_gpu is not None
    assert wish.doubts == 0


def test_a_size_in_bytes_takes_columns_and_says_so() -> None:
    wish = read(model="random-forest", data="5GB")
    assert wish.rows == pytest.approx(5e9 / 30 / 8)
    assert assumed(wish)["columns"] == 30
    assert wish.doubts == 2  # columns and trees
    assert read(model="random-forest", data="5GB", columns=100).rows == pytest.approx(5e9 / 800)


def test_known_tables() -> None:
    wish = read(model="lightgbm", data="HIGGS")
    assert (wish.rows, wish.cols) == (11e6, 28)
    assert wish.data_bytes == 2.81e9


def test_libraries_decide_where_it_runs() -> None:
    free, cpu, gpu = (read(model="k-means", data="1M x 10", **more) for more in ({}, {"library": "sklearn"}, {"library": "cuml"}))
    assert free.on_gpu is not None
    assert free.on_gpu.library == "cuml"
    assert cpu.on_gpu is None
    assert gpu.on_cpu is None
    assert gpu.on_gpu is not None
    assert read(model="dbscan", data="1M x 10", framework="scikit-learn").task.library == "sklearn"


def test_settings_in_words_reach_the_physics() -> None:
    wish = read(model="k-means", data="1M x 10", settings="1000 clusters, 20 iter")
    assert (wish.task.k, wish.task.iterations) == (1000, 20)
    assert read(model="svm", data="1M x 10", precision="fp32").task.element_bytes == 4


def test_every_note_of_the_physics_has_its_words() -> None:
    for name in ("xgboost", "random forest", "k-means", "logistic regression", "lasso", "mlp", "t-sne"):
        for note in named_task(name, rows=1e5, cols=20, library="sklearn").assumptions:
            assert any(note.startswith(start) for start in ASSUMED), note


def test_scoring_a_table_counts_predictions() -> None:
    wish = read(model="xgboost", task="batch", data="1M x 10")
    assert (wish.job, wish.task.algorithm) == ("score", Algorithm.PREDICT_TREES)


@pytest.mark.parametrize(
    ("data", "size"), [("500GB", 500e9), ("1Mimages", 1e6 * 110e3), ("1Btok", 4e9), ("1M x 100", 1e6 * 800), ("HIGGS", 2.81e9)]
)
def test_sizes_of_what_is_prepared(data: str, size: float) -> None:
    assert read(operation="dedup", data=data).data_bytes == pytest.approx(size)


@pytest.mark.parametrize(("model", "operation"), [("bert-base", "tokenize"), ("resnet50", "resize-images"), ("xgboost", "features")])
def test_the_usual_preparation_of_a_model(model: str, operation: str) -> None:
    assert read(model=model, task="prepare", data="10GB").name == operation


REFUSED: list[tuple[dict[str, Any], type[RightfitError], str]] = [
    ({"model": "xgboost"}, InputError, "which table"),
    ({"model": "xgboost", "data": "10Mtok"}, InputError, "is not a table"),
    ({"model": "xgboost", "data": "imagenet-1k"}, InputError, "contains vision"),
    ({"model": "k-means", "data": "1M x 10", "task": "batch"}, UnavailableError, "not measured"),
    ({"model": "k-means", "data": "1M x 10", "library": "xgboost"}, ContradictionError, "trees only"),
    ({"model": "xgboost", "data": "1M x 10", "library": "sklearn"}, ContradictionError, "itself a library"),
    ({"model": "svm", "data": "1M x 10", "library": "skleran"}, UnknownNameError, "did you mean sklearn"),
    ({"model": "svm", "data": "1M x 10", "precision": "bf16"}, ContradictionError, "precision bf16"),
    ({"model": "svm", "data": "1M x 10", "epochs": 3}, ContradictionError, "epochs contradicts"),
    ({"model": "svm", "data": "1M x 10", "library": "sklearn", "gpu": "T4"}, ContradictionError, "does not run it on GPUs"),
    ({"model": "mlp", "data": "1M x 10", "library": "cuml"}, InputError, "cuml does not support mlp"),
    ({"model": "pca", "data": "1M x 10", "library": "faiss"}, ContradictionError, "runs knn, k-means only"),
    ({"task": "prepare", "data": "5GB"}, InputError, "operation: how should the data"),
    ({"operation": "sort"}, InputError, "how much data"),
    ({"operation": "sort", "data": "1M rows"}, InputError, "does not give its size"),
    ({"operation": "sotr", "data": "5GB"}, UnknownNameError, "did you mean sort"),
    ({"operation": "sort", "data": "5GB", "library": "tokenizers"}, InputError, "no measured rate"),
]


@pytest.mark.parametrize(("wishes", "kind", "words"), REFUSED)
def test_what_cannot_be_planned_is_one_line(wishes: dict[str, Any], kind: type[RightfitError], words: str) -> None:
    with pytest.raises(kind) as refused:
        read(**wishes)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_names_that_are_nearly_algorithms_or_only_libraries() -> None:
    with pytest.raises(UnknownNameError, match="did you mean xgboost"):
        matches(Workload(model="xgbost", data="HIGGS"))
    with pytest.raises(InputError, match="is a library; name the algorithm too"):
        matches(Workload(model="scikit-learn", data="HIGGS"))
    assert not matches(Workload(model="7B"))
    assert matches(Workload(operation="sort", data="5GB"))


def test_what_is_compared_across_all_documents_is_held_on_one_server() -> None:
    """Marks of documents are kept: half of the documents elsewhere would keep their duplicates."""
    kept = [row for row in facts.table("preparation_operations") if "kept" in row["source"]]
    assert {row["operation"] for row in kept} == {"dedup-text", "dedup-fuzzy"}
    for row in kept:
        assert float(row["holds"]) > 0
        plan = api.plan(task="prepare", operation=row["operation"], data="500GB", deadline="24h", objective="time")
        assert {option.nodes for option in plan.options} == {1}
        assert plan.options[0].memory_bytes > plan.options[0].estimate["host_memory_bytes"].mid > 0.04 * 500e9


def test_what_options_say_goes_before_the_words_of_settings() -> None:
    wish = read(model="xgboost", data="1M x 10", trees=7, settings="500 trees, depth 3, 15 leaves")
    assert (wish.task.trees, wish.task.depth, wish.task.leaves) == (7, 3, 15)
    assert read(model="mlp", data="1M x 10", epochs=0.5).task.iterations == 0.5
    assert read(model="decision-tree", data="1M x 10").task.trees == 1


def test_the_solver_of_components_is_a_setting() -> None:
    kinds = {
        solver: read(model="pca", data="100000 x 800", settings=f"svd_solver={solver}").task.algorithm for solver in ("full", "randomized")
    }
    assert kinds == {"full": Algorithm.PCA, "randomized": Algorithm.RANDOM_SVD}
