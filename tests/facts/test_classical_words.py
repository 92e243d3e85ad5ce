"""Words of classical machine learning: libraries, algorithms, settings."""

from __future__ import annotations

import re

import pytest

from rightfit import facts
from rightfit.errors import InputError
from rightfit.facts.classical import _listed_algorithm, algorithm_named, algorithm_of, library_of, settings_of


@pytest.mark.parametrize(
    ("text", "library"),
    [
        ("xgboost 0.80 hist", "xgboost"),
        ("xgboost (2015)", "xgboost_old"),
        ("h2o-xgboost", "h2o_xgboost"),
        ("LightGBM 2.2.1", "lightgbm"),
        ("scikit-learn 1.4", "sklearn"),
        ("RAPIDS cuML 24.02", "cuml"),
        ("Spark MLlib 2.4.2 GBT", "spark"),
        ("R glm", "r"),
        ("daal4py / scikit-learn-intelex", "sklearnex"),
        ("something new", "other"),
    ],
)
def test_libraries_by_their_words(text: str, library: str) -> None:
    assert library_of(text) == library


@pytest.mark.parametrize(
    ("text", "library", "algorithm"),
    [
        ("gradient boosting", "xgboost", "BOOST_HIST"),
        ("gradient boosting", "sklearn", "BOOST_EXACT"),
        ("HistGradientBoostingClassifier", "sklearn", "BOOST_HIST"),
        ("random forest", "sklearn", "FOREST_EXACT"),
        ("random forest", "cuml", "FOREST_HIST"),
        ("SVC rbf", "sklearn", "KERNEL_SVM"),
        ("LinearSVC", "sklearn", "LINEAR_COORDINATE"),
        ("KMeans", "cuml", "KMEANS"),
        ("TruncatedSVD", "sklearn", "RANDOM_SVD"),
        ("PCA", "sklearn", "PCA"),
        ("k-nearest neighbours (kd tree)", "sklearn", "KNN_TREE"),
        ("LinearRegression", "sklearn", "LINEAR_CLOSED"),
        ("GaussianNB", "sklearn", "ONE_PASS"),
        ("RandomForestClassifier", "sklearn", "FOREST_EXACT"),
        ("HDBSCAN", "hdbscan", "HDBSCAN"),
        ("t-SNE", "cuml", "TSNE"),
        ("SHAP values of a boosted model", "catboost", "SHAP"),
    ],
)
def test_algorithms_by_their_words(text: str, library: str, algorithm: str) -> None:
    assert algorithm_of(text, library) == algorithm


def test_settings_in_both_styles() -> None:
    plain = settings_of("500 trees, depth 8, 128 bins", "", "gradient boosting")
    assert (plain.trees, plain.depth, plain.bins) == (500, 8, 128)
    code = settings_of("n_estimators=500, max_depth=8, max_bin=63, num_leaves=255", "", "gradient boosting")
    assert (code.trees, code.depth, code.bins, code.leaves) == (500, 8, 63, 255)
    assert settings_of("n_clusters=20, max_iter=300", "", "k-means")[4:6] == (300, 20)
    assert settings_of("", "39 columns (26 categorical)", "boosting").categorical == 26


def test_an_unknown_algorithm_is_refused() -> None:
    with pytest.raises(InputError, match="; known:"):
        algorithm_named("frobnication")


def test_the_first_line_that_a_spelling_matches_is_the_algorithm() -> None:
    """Each line of the table, tried in turn on a name as it is written and on its parts."""
    rows = facts.table("classical_algorithms")
    names = [
        *(row["name"] for row in facts.table("classical_models")),
        "MiniBatchKMeans",
        "HistGradientBoostingClassifier",
        "TruncatedSVD",
        "RidgeCV",
    ]
    for name in names:
        spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
        tried = [row["algorithm"] for row in rows if any(re.search(row["pattern"], text, re.IGNORECASE) for text in (name, spaced))]
        assert _listed_algorithm(name, spaced) == next(iter(tried), "")
