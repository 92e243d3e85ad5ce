"""Names of classical machine learning as people write them, and the columns of the tables
that everyone uses."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Mapping
from typing import NamedTuple

from rightfit.errors import InputError
from rightfit.facts import tables
from rightfit.facts.tables import constant_group, first_match, matches, meaning, number_in, says, shape, table
from rightfit.messages import Message
from rightfit.records import dataclass

#: Words before or behind the name of an algorithm that name its library.
_LIBRARY_WORDS = (
    *("scikit-learn", "sklearn", "sk-learn", "cuml", "rapids", "h2o", "spark-mllib", "spark-ml", "pyspark", "spark", "mllib", "dask"),
    *("thundersvm", "thundergbm", "sklearnex", "faiss", "ranger"),
)
_MODULE = re.compile(r"^(?:sklearn|cuml)(?:\.[a-z_]+)*\.", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ClassicalModel:
    """An algorithm by its usual name, with the library that is meant where none is named;
    `settings` that its name implies."""

    name: str
    library: str
    settings: str = ""
    is_library_named: bool = False

    @property
    def words(self) -> str:
        """The name in plain words."""
        return self.name.replace("-", " ") if self.name != "k-means" else "k-means"


def _fold(text: str) -> str:
    return re.sub(r"[\s_]+", "-", unicodedata.normalize("NFKC", text).strip()).casefold()


@functools.cache
def _names() -> Mapping[str, tuple[str, str, str]]:
    known: dict[str, tuple[str, str, str]] = {}
    for row in tables.table("classical_models"):
        for alias in (row["name"], *filter(None, row["aliases"].split(";"))):
            known[alias] = (row["name"], row["library"], row["settings"])
    return known


def classical_model(text: str) -> ClassicalModel | None:
    """The algorithm that a model's name means ("xgboost", "RandomForestClassifier", "cuml kmeans",
    "随机森林"); None for every other name."""
    module = _MODULE.match(text.strip())
    folded = _fold(text.strip()[module.end() :] if module else text)
    library = module[0].partition(".")[0].casefold() if module else ""
    for word in _LIBRARY_WORDS:
        if folded.startswith(f"{word}-") or folded.endswith(f"-{word}"):
            folded, library = folded.removeprefix(f"{word}-").removesuffix(f"-{word}"), word
            break
    found = _names().get(folded) or _names().get(folded.replace("-", ""))
    if found is None:
        return None
    return ClassicalModel(found[0], library or found[1], found[2], bool(library))


def library_without_algorithm(text: str) -> str:
    """The library that a name means when it names no algorithm
    ("scikit-learn"); empty otherwise."""
    return _fold(text) if _fold(text) in _LIBRARY_WORDS else ""


@functools.lru_cache(maxsize=256)
def nearest_classical(text: str) -> str:
    """The algorithm whose name is almost this one ("xgbost"); empty where none is close."""
    import difflib

    close = difflib.get_close_matches(_fold(text), [name for name in _names() if len(name) > 3], n=1, cutoff=0.84)
    return _names()[close[0]][0] if close else ""


@functools.cache
def _columns() -> Mapping[str, int]:
    return {row["name"]: int(row["columns"]) for row in tables.table("dataset_columns")}


def dataset_columns(name: str) -> int:
    """Columns of a table that is known by name (as facts.dataset calls it); 0 where
    nobody counted them."""
    return _columns().get(name, 0)


# ---- Words of classical machine learning, of people and of measured rows: library,
# algorithm, settings.


class AlgorithmSettings(NamedTuple):
    """What is said of an algorithm; 0 = not stated. `one_hot`: '' native categories, 'sparse' or
    'dense'; `columns` after one-hot coding; `solver` of principal components: '' not said,
    'sketch', or another; of a sparse table the share of cells that are `filled`, or how many of a
    row (`nonzeros`)."""

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
    filled: float = 0.0
    nonzeros: float = 0.0


class AlgorithmNamed(NamedTuple):
    """An algorithm (a name of physics.classical_work.Algorithm) in a library, and
    what is said of it."""

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
    """What names mean as people write them ("random forest", "sklearn KMeans", "lightgbm"), with
    settings like "500 trees, depth 8, 64 leaves" or "n_estimators=500 max_depth=8"; `data` says how
    the library sees the table ("one-hot sparse; 6 categorical")."""
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

    One name can mean two: gradient boosting of scikit-learn is exact unless "hist" is said, forests
    of Spark, H2O and cuML are binned.
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
_FILLED = r"{density}\s*[=:]?\s*(\d+(?:\.\d+)?)\s*%"
_NONZEROS = r"(\d+(?:\.\d+)?)\s*{nonzeros}"
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
        filled=_number(_FILLED, settings) / 100.0,
        nonzeros=_number(_NONZEROS, settings),
    )


# ---- Operations of data preparation and the rates that libraries were measured at
# (facts/data/preparation_operations.csv, preparation_rates.csv).


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation: the `kind` of its data, the library that usually does it, output over input,
    and the part of what is worked on that must be held at once."""

    name: str
    kind: str
    library: str
    output_ratio: float
    holds: float


@dataclass(frozen=True, slots=True)
class LibraryRate:
    """What a library makes of one core [bytes/s]; `ram_factor` over what is held (0: not measured),
    `max_threads` (0: all), `spills` 1 where it works from disk."""

    core_rate: float
    ram_factor: float
    max_threads: float
    spills: float
    source: str


@functools.cache
def _operations() -> Mapping[str, Operation]:
    return {
        row["operation"]: Operation(row["operation"], row["kind"], row["library"], float(row["output_ratio"]), float(row["holds"]))
        for row in table("preparation_operations")
    }


def operations() -> tuple[str, ...]:
    """Names of all operations, in the order of the table."""
    return tuple(_operations())


def operation_named(text: str) -> Operation | None:
    """The operation that words mean: its name, else the first whose words they hold."""
    wanted = text.strip().lower()
    row = None if wanted in _operations() or not wanted else first_match("preparation_operations", wanted)
    return _operations().get(row["operation"] if row else wanted)


@functools.cache
def library_rates(operation: str) -> Mapping[str, LibraryRate]:
    """The libraries that were measured at an operation."""
    return {
        row["library"]: LibraryRate(
            float(row["mb_per_core_s"]) * 1e6, float(row["ram_factor"]), float(row["max_threads"]), float(row["spills"]), row["source"]
        )
        for row in table("preparation_rates")
        if row["operation"] == operation
    }
