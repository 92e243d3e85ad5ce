"""Words of classical machine learning, of people and of measured rows: library, algorithm, settings."""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from rightfit.errors import InputError
from rightfit.facts.constants import constant_group
from rightfit.facts.pattern_tables import first_match, matches
from rightfit.facts.tables import table
from rightfit.facts.word_tables import meaning, number_in, says, shape
from rightfit.messages import Message


class AlgorithmSettings(NamedTuple):
    """What is said of an algorithm; 0 = not stated. `one_hot`: '' native categories, 'sparse' or 'dense'; `columns` after one-hot coding; `solver` of principal
    components: '' not said, 'sketch', or another."""

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
    solver: str = ""


class AlgorithmNamed(NamedTuple):
    """An algorithm (a name of physics.classical_work.Algorithm) in a library, and what is said of it."""

    library: str
    algorithm: str
    settings: AlgorithmSettings


TABLE = "classical"  # of words


def _says(chosen: str, text: str) -> bool:
    return says(TABLE, chosen, text, ignore_case=True)


@functools.lru_cache(maxsize=4096)
def library_of(text: str, notes: str = "") -> str:
    """The library that the words name; `other` when none is known."""
    row = first_match("classical_libraries", text)
    if row is None:
        return "other"
    return "xgboost_old" if row["library"] == "xgboost" and _says("exact_trees", notes) else row["library"]


def is_library_misspelt(text: str) -> bool:
    """Whether letters stand behind a library's name that make it another word."""
    named = next((found for found, _ in matches("classical_libraries", text, whole=False)), None)
    rest = text[named.end() :].casefold() if named else ""
    return re.match(r"(?!learn\b)[a-z]", rest) is not None


_FORMER_EXACT = {"r", "xgboost_old"}
_BINNED_FORESTS = {"h2o", "spark", "cuml", "lightgbm", "thundergbm"}


def algorithm_named(algorithm: str, *, library: str = "", settings: str = "", data: str = "") -> AlgorithmNamed:
    """What names mean as people write them ("random forest", "sklearn KMeans", "lightgbm"), with settings like "500 trees, depth 8, 64 leaves" or
    "n_estimators=500 max_depth=8"; `data` says how the library sees the table ("one-hot sparse; 6 categorical")."""
    named = library_of(library if library else f"{library} {algorithm}".strip(), settings)
    kind = algorithm_of(algorithm, named, settings)
    if not kind:
        raise InputError(Message("estimate.no_algorithm", algorithm=repr(algorithm[:60])))
    return AlgorithmNamed(named, kind, settings_of(settings, data, algorithm))


#: What the names of libraries alone mean.
_OWN_ALGORITHM = {"xgboost": "BOOST_HIST", "lightgbm": "BOOST_HIST", "catboost": "BOOST_HIST", "xgboost_old": "BOOST_HIST", "umap": "UMAP"}


@functools.lru_cache(maxsize=4096)
def algorithm_of(text: str, library: str, settings: str = "") -> str:
    """The family of the algorithm; "" when the words name none that is known.

    One name can mean two: gradient boosting of scikit-learn is exact unless "hist" is said, forests of Spark, H2O and cuML are binned.
    """
    words = f"{text} {settings}".lower()
    if says(TABLE, "shap", text.lower()):
        return "SHAP"
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)  # LinearRegression, KMeans
    kind = _listed_algorithm(text, spaced) or _OWN_ALGORITHM.get(library, "")
    if kind == "BOOST_HIST" and (library in _FORMER_EXACT or (library in ("sklearn", "sklearnex") and "hist" not in words)):
        return "BOOST_EXACT"
    if kind == "FOREST_EXACT" and library in _BINNED_FORESTS:
        return "FOREST_HIST"
    if kind == "FOREST_EXACT" and library in ("xgboost", "xgboost_old"):
        return "BOOST_HIST" if library == "xgboost" else "BOOST_EXACT"
    return kind


def _listed_algorithm(*spellings: str) -> str:
    """The first line of the table that any of these spellings matches."""
    rows = [row for text in spellings if (row := first_match("classical_algorithms", text))]
    lines = {row["pattern"]: line for line, row in enumerate(table("classical_algorithms"))}
    return min(rows, key=lambda row: lines[row["pattern"]])["algorithm"] if rows else ""


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
    return number_in(TABLE, name, text, ignore_case=True)


def _classes(text: str) -> float:
    lowered = text.lower()
    return _number(_CLASSES, text) or next((value for name, value in _KNOWN_CLASSES.items() if name in lowered), 0.0)


def _layers(text: str) -> tuple[float, ...]:
    found = shape(TABLE, _LAYERS, ignore_case=True).search(text)
    if not found:
        return ()
    return (float(found[2]),) * int(found[1]) if found[1] else (float(found[3]),)


@functools.lru_cache(maxsize=8192)
def settings_of(settings: str, data: str, algorithm_text: str) -> AlgorithmSettings:
    """Every number and word of a row's settings, and what `data` says of its table."""
    words = f"{settings}; {algorithm_text}"
    sees = f"{settings}; {data}".lower()
    one_hot = ""
    if "one-hot" in sees or "onehot" in sees:
        one_hot = "sparse" if says(TABLE, "sparse", sees) else "dense"
    solver = shape(TABLE, r"solver\W*({svd_solver})").search(settings.lower())
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
        element_bytes=float(meaning(TABLE, "element", sees, ignore_case=True) or 0.0),
        layers=_layers(words),
        is_lasso=_says("lasso", algorithm_text),
        solver=meaning(TABLE, "svd_solver", solver[1]) if solver else "",
    )
