"""What free words mean for classical machine learning: library, algorithm, settings."""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from rightfit import facts
from rightfit.facts.constants import constant_group
from rightfit.facts.word_tables import meaning, says, shape
from rightfit.physics.classical_work import Algorithm


class AlgorithmSettings(NamedTuple):
    """Numbers in the words of a row; 0 = not stated. `one_hot`: '' native categories, 'sparse' or 'dense'; `columns` after one-hot
    coding."""

    trees: float = 0.0
    depth: float = 0.0
    leaves: float = 0.0
    bins: float = 0.0
    iterations: float = 0.0
    k: float = 0.0
    outputs: float = 0.0
    categorical: float = 0.0
    columns: float = 0.0
    one_hot: str = ""
    max_features: str = ""
    element_bytes: float = 0.0
    layers: tuple[float, ...] = ()
    is_lasso: bool = False


TABLE = "classical"  # of words


def _says(chosen: str, text: str) -> bool:
    return says(TABLE, chosen, text, ignore_case=True)


@functools.cache
def _patterns(table: str) -> tuple[tuple[re.Pattern[str], dict[str, str]], ...]:
    return tuple((re.compile(row["pattern"], re.IGNORECASE), row) for row in facts.table(table))


@functools.lru_cache(maxsize=4096)
def library_of(text: str, notes: str = "") -> str:
    """The library that the words name; `other` when none is known."""
    for pattern, row in _patterns("classical_libraries"):
        if pattern.search(text):
            if row["library"] == "xgboost" and _says("exact_trees", notes):
                return "xgboost_old"
            return row["library"]
    return "other"


def library_pattern(text: str) -> re.Match[str] | None:
    """Where the words name a library."""
    return next((found for pattern, _ in _patterns("classical_libraries") if (found := pattern.search(text))), None)


_FORMER_EXACT = {"r", "xgboost_old"}
_BINNED_FORESTS = {"h2o", "spark", "cuml", "lightgbm", "thundergbm"}


@functools.lru_cache(maxsize=4096)
def algorithm_of(text: str, library: str, settings: str = "") -> Algorithm | None:
    """The family of the algorithm; None when the words name none that is known.

    One name can mean two: gradient boosting of scikit-learn is exact unless "hist" is said, forests of Spark, H2O and cuML are binned.
    """
    words = f"{text} {settings}".lower()
    if says(TABLE, "shap", text.lower()):
        return Algorithm.SHAP
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)  # LinearRegression, KMeans
    found = next(
        (row["algorithm"] for pattern, row in _patterns("classical_algorithms") if pattern.search(text) or pattern.search(spaced)), ""
    )
    if not found:
        found = {
            "xgboost": "BOOST_HIST",
            "lightgbm": "BOOST_HIST",
            "catboost": "BOOST_HIST",
            "xgboost_old": "BOOST_HIST",
            "umap": "UMAP",
        }.get(library, "")
    if not found:
        return None
    kind = Algorithm[found]
    if kind == Algorithm.BOOST_HIST and (library in _FORMER_EXACT or (library in ("sklearn", "sklearnex") and "hist" not in words)):
        return Algorithm.BOOST_EXACT
    if kind == Algorithm.FOREST_EXACT and library in _BINNED_FORESTS:
        return Algorithm.FOREST_HIST
    if kind == Algorithm.FOREST_EXACT and library in ("xgboost", "xgboost_old"):
        return Algorithm.BOOST_HIST if library == "xgboost" else Algorithm.BOOST_EXACT
    return kind


_TREES = r"([\d,]+)\s*{tree}|{tree_setting}\s*[=:]?\s*([\d,]+)"
_DEPTH = r"(?:max_?)?depth\s*[=:]?\s*(\d+)"
_LEAVES = r"(\d+)\s*leaves|(?:num_|max_)?leaf(?:s|_nodes)?\s*[=:]\s*(\d+)|leaves\s*[=:]\s*(\d+)"
_BINS = r"(\d+)\s*bins|(?:max_?|n)bins?\s*[=:]?\s*(\d+)"
_EPOCHS = r"(\d+)\s*epochs?|max_iter\s*[=:]?\s*(\d+)|epochs?\s*[=:]\s*(\d+)|(\d+)\s*{epoch_after}"
_GROUPS = r"\bk\s*[=:]\s*(\d+)|(\d+)\s*{group}|n_{group_setting}\s*[=:]\s*(\d+)|{group_said}\s*[=:]\s*(\d+)"
_CLASSES = r"(\d+)[ -]?class(?:es)?\b|classes\s*[=:]\s*(\d+)|num_class\s*[=:]\s*(\d+)"
_CATEGORICAL = r"(\d+)\s*categor"
_ONE_HOT_COLUMNS = r"[~≈]?\s*([\d,]+)\s*(?:one-hot )?columns"
_LAYERS = r"(\d)\s*[x×]\s*(\d+)|hidden\s*[=:(]*\s*(\d+)"
#: Classes of data sets that everyone uses, where the words name only the set.
_KNOWN_CLASSES = constant_group("classical_usual", "classes")


def _number(name: str, text: str) -> float:
    """The number that a shape finds in a text; 0 where it finds none."""
    found = shape(TABLE, name, ignore_case=True).search(text)
    if not found:
        return 0.0
    digits = next((group for group in found.groups() if group), "").replace(",", "")
    return float(digits) if digits else 0.0


def _classes(text: str) -> float:
    lowered = text.lower()
    return _number(_CLASSES, text) or next((value for name, value in _KNOWN_CLASSES.items() if name in lowered), 0.0)


def _layers(text: str) -> tuple[float, ...]:
    found = shape(TABLE, _LAYERS, ignore_case=True).search(text)
    if not found:
        return ()
    return (float(found[2]),) * int(found[1]) if found[1] else (float(found[3]),)


def _element_bytes(text: str) -> float:
    return float(meaning(TABLE, "element", text, ignore_case=True) or 0.0)


@functools.lru_cache(maxsize=8192)
def settings_of(settings: str, data: str, algorithm_text: str) -> AlgorithmSettings:
    """Every number and word of a row's settings, and what `data` says of its table."""
    words = f"{settings}; {algorithm_text}"
    sees = f"{settings}; {data}".lower()
    one_hot = ""
    if "one-hot" in sees or "onehot" in sees:
        one_hot = "sparse" if says(TABLE, "sparse", sees) else "dense"
    wide = _number(_ONE_HOT_COLUMNS, settings) if one_hot else 0.0
    return AlgorithmSettings(
        trees=_number(_TREES, settings),
        depth=_number(_DEPTH, settings),
        leaves=_number(_LEAVES, settings),
        bins=_number(_BINS, settings),
        iterations=_number(_EPOCHS, settings),
        k=_number(_GROUPS, words),
        outputs=_classes(words),
        categorical=_number(_CATEGORICAL, sees),
        columns=wide,
        one_hot=one_hot,
        max_features="all" if _says("all_features", settings) else "",
        element_bytes=_element_bytes(sees),
        layers=_layers(words),
        is_lasso=_says("lasso", algorithm_text),
    )
