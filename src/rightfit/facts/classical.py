"""Names of classical machine learning as people write them, and the columns of the tables that everyone uses."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Mapping

from rightfit.facts import tables
from rightfit.records import dataclass

#: Words before or behind the name of an algorithm that name its library.
_LIBRARY_WORDS = (
    *("scikit-learn", "sklearn", "sk-learn", "cuml", "rapids", "h2o", "spark-mllib", "spark-ml", "pyspark", "spark", "mllib", "dask"),
    *("thundersvm", "thundergbm", "sklearnex", "faiss", "ranger"),
)
_MODULE = re.compile(r"^(?:sklearn|cuml)(?:\.[a-z_]+)*\.", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ClassicalModel:
    """An algorithm by its usual name, with the library that is meant where none is named; `settings` that its name implies."""

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
    """The algorithm that a model's name means ("xgboost", "RandomForestClassifier", "cuml kmeans", "随机森林"); None for every other name."""
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
    """The library that a name means when it names no algorithm ("scikit-learn"); empty otherwise."""
    return _fold(text) if _fold(text) in _LIBRARY_WORDS else ""


def nearest_classical(text: str) -> str:
    """The algorithm whose name is almost this one ("xgbost"); empty where none is close."""
    import difflib

    close = difflib.get_close_matches(_fold(text), [name for name in _names() if len(name) > 3], n=1, cutoff=0.84)
    return _names()[close[0]][0] if close else ""


@functools.cache
def _columns() -> Mapping[str, int]:
    return {row["name"]: int(row["columns"]) for row in tables.table("dataset_columns")}


def dataset_columns(name: str) -> int:
    """Columns of a table that is known by name (as facts.dataset calls it); 0 where nobody counted them."""
    return _columns().get(name, 0)


__all__ = ["ClassicalModel", "classical_model", "dataset_columns", "library_without_algorithm", "nearest_classical"]
