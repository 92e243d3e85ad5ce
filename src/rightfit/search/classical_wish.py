"""What wishes about classical models say, to be trained or served: the library, the
settings, the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rightfit import facts
from rightfit.errors import ContradictionError, InputError, UnknownNameError
from rightfit.estimation.classical import TableCase
from rightfit.facts import classical
from rightfit.facts.classical import ClassicalModel, algorithm_named, is_library_misspelt, library_of, settings_of
from rightfit.messages import Message
from rightfit.physics.classical_work import Algorithm
from rightfit.search.request_checks import Notes
from rightfit.workload.options import OPTIONS
from rightfit.workload.vocabulary import nearest_words

if TYPE_CHECKING:
    from rightfit.estimation.classical import ClassicalTask
    from rightfit.workload import Workload

#: Libraries that run nothing but trees; each of the three great ones names its own algorithm too.
TREE_LIBRARIES = ("xgboost", "lightgbm", "catboost", "thundergbm", "ranger")
OWN_ALGORITHM = ("xgboost", "lightgbm", "catboost", "umap", "hdbscan")
#: What the libraries of a few algorithms run.
ONLY = {"faiss": ("knn", "k-means"), "thundersvm": ("svm",), "libsvm": ("svm", "linear-svm"), "umap": ("umap",), "hdbscan": ("hdbscan",)}
#: Names that stand for no library of their own, or for frameworks that plans of
#: this kind do not know.
_NOT_ASKED_FOR = ("other", "network", "xgboost_old", "tsne", "h2o4gpu")
_SPREADS_ELSEWHERE = "dask"
_TABULAR = ("tabular",)
#: What D2's notes of assumed inputs begin with -> the option that says it.
ASSUMED = {
    "number of trees": "trees",
    "depth of the trees": "depth",
    "iterations": "iterations",
    "clusters": "clusters",
    "table taken as Parquet": "stored",
    "memory factor": "memory_factor",
}


def usual() -> Any:
    """Defaults and margins of these plans."""
    return facts.coefficients("host_planning")


def gpu_only_libraries() -> frozenset[str]:
    """Libraries that run on GPUs alone."""
    return frozenset(row["library"] for row in facts.table("classical_libraries") if row["gpu_only"] == "1")


def library_asked(workload: Workload, named: ClassicalModel) -> tuple[str, bool]:
    """The library, and whether the user named it; one that cannot run the algorithm is refused."""
    text = workload.library or workload.framework
    if not text:
        return (library_of(named.library), named.is_library_named) if named.is_library_named else (named.library, False)
    known = tuple(dict.fromkeys(row["library"] for row in facts.table("classical_libraries") if row["library"] not in _NOT_ASKED_FOR))
    library = library_of(text)
    if library not in known or is_library_misspelt(text):
        raise UnknownNameError(
            "library",
            text,
            nearest=nearest_words(text.casefold(), known),
            allowed=Message("names.allowed_words", names=", ".join(known)),
            field="library",
        )
    if library in TREE_LIBRARIES and named.name not in _tree_names():
        raise ContradictionError(Message("search.trees_only", library=library, model=named.name), field="library")
    if named.name in OWN_ALGORITHM and library not in (named.name, "h2o", "h2o_xgboost", _SPREADS_ELSEWHERE):
        raise ContradictionError(Message("search.is_library", library=library, model=named.name), field="library")
    if named.name not in ONLY.get(library, (named.name,)):
        raise ContradictionError(
            Message("search.library_runs", library=library, model=named.name, models=", ".join(ONLY[library])), field="library"
        )
    return library, True


def _tree_names() -> tuple[str, ...]:
    boosted = ("xgboost", "lightgbm", "catboost", "gradient-boosting", "hist-gradient-boosting")
    return (*boosted, "random-forest", "extra-trees", "decision-tree")


def table_case(workload: Workload, named: ClassicalModel, *, library: str, rows: float, cols: float, predicts: bool = False) -> TableCase:
    """The job on a table; what options say goes before what the name implies and the
    words of `settings`."""
    told = algorithm_named(named.words, library=library, settings=", ".join(filter(None, (named.settings, workload.settings))))
    settings = told.settings._replace(
        trees=float(workload.trees or told.settings.trees),
        depth=float(workload.depth or told.settings.depth),
        iterations=float(workload.epochs or told.settings.iterations),
        element_bytes=_FP32_BYTES if workload.precision == "fp32" else told.settings.element_bytes,
    )
    filled = settings.filled or min(settings.nonzeros / cols, 1.0)
    return TableCase(Algorithm[told.algorithm], told.library, rows, cols, settings, filled=filled, predicts=predicts)


_FP32_BYTES = 4.0


def refuse_idle_words(workload: Workload, named: ClassicalModel, task: ClassicalTask) -> None:
    """What was said of an algorithm and says nothing to it: an arithmetic that its libraries do not
    have, trees where there are none, unknown words."""
    if workload.precision not in (None, "fp32"):
        raise ContradictionError(
            Message("search.table_precision", precision=workload.precision, model=named.name),
            field="precision",
        )
    for option in ("trees", "depth"):
        if getattr(workload, option) is not None and not task.trees:
            raise ContradictionError(Message("search.no_trees", option=option, model=named.name), field=option)
    if workload.settings and settings_of(workload.settings, "", "") == settings_of("", "", ""):
        raise InputError(
            Message("search.no_settings", text=workload.settings, example=OPTIONS["settings"].example),
            field="settings",
        )


def note_assumed(notes: Notes, text: str, task: Any) -> None:
    """Record a default of an algorithm or an operation."""
    field = next(name for start, name in ASSUMED.items() if text.startswith(start))
    values: dict[str, float | str] = {
        "trees": getattr(task, "trees", 0.0),
        "depth": getattr(task, "depth", 0.0) or "unlimited",
        "iterations": getattr(task, "iterations", 0.0),
        "clusters": getattr(task, "k", 0.0),
        "stored": "parquet",
        "memory_factor": "1",
    }
    notes.take(field, values[field], f"host_{field}")


def table_of(workload: Workload, notes: Notes) -> tuple[float, float, float]:
    """Rows, columns and stored bytes of the table; rows or columns that are not given and cannot
    follow are asked for."""
    cols = float(workload.data_columns or workload.columns or 0)
    unit = workload.data_unit
    if workload.data is None:
        raise InputError(Message("search.which_table"), field="data")
    if unit == "dataset":
        return _known_table(workload.data, cols, notes)
    if unit == "bytes" and workload.data_bytes is not None:
        cell = usual()["cell_bytes"]
        if not cols:
            cols = usual()["table_columns"]
            notes.take("columns", cols, "host_columns", bytes=workload.data_bytes, rows=workload.data_bytes / cols / cell)
        return max(workload.data_bytes / cols / cell, 1.0), cols, workload.data_bytes
    if unit not in ("rows", "samples") or workload.data_samples is None:
        raise InputError(Message("search.data_no_table", unit=unit), field="data")
    if not cols:
        cols = usual()["table_columns"]
        notes.take("columns", cols, "host_usual_columns")
    return workload.data_samples, cols, workload.data_samples * cols * usual()["cell_bytes"]


def _known_table(name: str, cols: float, notes: Notes) -> tuple[float, float, float]:
    record = facts.dataset(name)
    if record.domain not in _TABULAR:
        raise InputError(Message("search.dataset_no_table", dataset=record.name, kind=record.domain), field="data")
    known = float(classical.dataset_columns(record.name))
    if not (cols or known):
        raise InputError(Message("search.columns_of_dataset", dataset=record.name), field="columns")
    return float(record.samples), cols or known, float(record.size_bytes) or record.samples * (cols or known) * usual()["cell_bytes"]
