"""Sparse tables cost and weigh by what they store; exact trees, sketches and cards are
told by what they do."""

from __future__ import annotations

import pytest

from rightfit.proof.predict import predict

CASE = {
    "metric": "train_time_s",
    "library": "xgboost",
    "algorithm": "gradient boosting",
    "rows": "1000000",
    "cols": "50",
    "hardware": "",
    "cores": "16",
}


def value(**cells: str) -> float:
    (answer,) = predict([{**CASE, **cells}])
    assert not answer["error"], answer["error"]
    return float(answer["predicted"])


@pytest.mark.parametrize("metric", ["train_time_s", "peak_ram_gib"])
@pytest.mark.parametrize("library", ["xgboost", "lightgbm", "scikit-learn"])
def test_a_coded_table_counts_what_it_stores(library: str, metric: str) -> None:
    settings = "100 trees, depth 8, hist"
    coded = value(library=library, metric=metric, cols="4000", settings=f"{settings}; sparse one-hot")
    dense = value(library=library, metric=metric, cols="4000", settings=settings)
    assert coded < dense / 10


def test_stored_cells_that_are_taken_are_named() -> None:
    (answer,) = predict([{**CASE, "cols": "4000", "settings": "100 trees; sparse one-hot"}])
    assert "stored cells a row of the one-hot table not stated: 43 taken" in answer["assumptions"]


def test_a_stated_share_of_filled_cells_decides() -> None:
    thin, thick = (value(cols="4000", density=f"sparse {share}", settings="100 trees, hist") for share in ("0.01", "0.1"))
    assert 3.0 < thick / thin < 10.0


def test_exact_trees_walk_every_column_at_every_level() -> None:
    exact, hist = (value(settings=f"{way}, 100 trees, depth 8") for way in ("exact", "hist"))
    assert exact > 3.0 * hist
    wider = value(settings="exact, 100 trees, depth 8", cols="100")
    assert wider == pytest.approx(2.0 * exact, rel=0.1)


def test_a_row_of_a_table_beyond_the_cache_costs_more() -> None:
    small, large = (value(settings="exact, 100 trees, depth 8", rows=rows) / float(rows) for rows in ("1000000", "20000000"))
    assert 3.0 * small < large < 10.0 * small


def test_wide_and_long_tables_change_places_in_a_decomposition() -> None:
    long, wide = (
        value(library="scikit-learn", algorithm="PCA", rows=rows, cols=cols) for rows, cols in (("50000", "2000"), ("2000", "50000"))
    )
    assert wide == pytest.approx(long, rel=0.2)


@pytest.mark.parametrize(
    ("rows", "cols", "settings", "sketched"),
    [
        ("100000", "2000", "k=10", True),
        ("100000", "2000", "k=10, svd_solver=full", False),
        ("100000", "800", "k=10", False),
        ("100000", "800", "k=10, svd_solver=randomized", True),
        ("400", "300", "k=10", False),
        ("3000", "2000", "k=1900", False),
    ],
)
def test_the_solver_of_components_is_scikit_learns_choice(rows: str, cols: str, settings: str, sketched: bool) -> None:
    from tests.classical_tasks import named_task

    from rightfit.physics.classical_work import Algorithm

    task = named_task("PCA", rows=float(rows), cols=float(cols), library="scikit-learn", settings=settings)
    assert task.algorithm == (Algorithm.RANDOM_SVD if sketched else Algorithm.PCA)


def test_tables_that_lie_on_the_card_wait_for_no_context() -> None:
    cells = {"rows": "10000", "cols": "20", "algorithm": "k-means", "gpu": "A100-SXM-80GB"}
    assert value(library="cuml", **cells) < 0.3
    assert value(library="xgboost", rows="10000", cols="20", gpu="A100-SXM-80GB", settings="10 trees, depth 4") > 0.5
