"""From a workload of classical machine learning or data preparation to a job with numbers; every
default that was taken is noted."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from rightfit import facts
from rightfit.errors import ContradictionError, InputError, UnavailableError, UnknownNameError
from rightfit.estimation.classical import ClassicalTask, classical_task, gpu_support
from rightfit.facts import classical
from rightfit.facts.classical import ClassicalModel
from rightfit.facts.tables import words_in
from rightfit.messages import Message
from rightfit.physics.classical_work import Algorithm
from rightfit.records import dataclass
from rightfit.search.answer import Assumption
from rightfit.search.classical_wish import (
    gpu_only_libraries,
    library_asked,
    note_assumed,
    refuse_idle_words,
    table_case,
    table_of,
    usual,
)
from rightfit.search.request_checks import Notes
from rightfit.units import INT32_BYTES

if TYPE_CHECKING:
    from rightfit.estimation.preparation import PreparationTask
    from rightfit.workload import Workload

TRAIN, SCORE, PREPARE = "train", "score", "prepare"
_TREE_TASKS = (Algorithm.PREDICT_TREES,)
_VISION_OPERATION, _TEXT_OPERATION, _TABLE_OPERATION = "resize-images", "tokenize", "features"
#: Formats of a table that settings can name.
_STORED = ("csv", "parquet", "jsonl")


@dataclass(frozen=True, slots=True)
class TableRequest:
    """A job of a server's processors or of libraries on GPUs. `job`: train, score (a table with a
    trained model) or prepare.

    `on_cpu`, `on_gpu`: the algorithm as it runs there, None where it does not; `preparation`: the
    operation. `data_bytes` as stored, `rows` and `cols` of a table (0 for preparation of anything
    else), `doubts`: inputs that were assumed.
    """

    workload: Workload
    name: str
    job: str
    on_cpu: ClassicalTask | None
    on_gpu: ClassicalTask | None
    preparation: PreparationTask | None
    data_bytes: float
    rows: float
    cols: float
    doubts: float
    assumptions: tuple[Assumption, ...]

    @property
    def task(self) -> ClassicalTask:
        """The algorithm, on processors where it runs there."""
        found = self.on_cpu or self.on_gpu
        assert found is not None
        return found


def read_host_wish(workload: Workload) -> TableRequest:
    """The job as numbers; raises one line for what cannot be planned."""
    notes = Notes()
    for field in workload.assumed:
        if field == "task":
            notes.take(field, workload.task, "given_task")
        elif field != "currency":
            notes.take(field, str(getattr(workload, field)), f"default_{field}")
    if workload.task == "prepare":
        return _read_preparation(workload, notes)
    return _read_classical(workload, notes)


# ---- classical machine learning


def _read_classical(workload: Workload, notes: Notes) -> TableRequest:
    named = classical.classical_model(workload.model)
    assert named is not None
    refuse_task(workload, named)
    rows, cols, data_bytes = table_of(workload, notes)
    library, is_named = library_asked(workload, named)
    scores = workload.task == "batch"
    task = classical_task(table_case(workload, named, library=library, rows=rows, cols=cols, predicts=scores))
    if scores and task.algorithm not in _TREE_TASKS:
        raise UnavailableError(Message("families.scoring_speed", model=named.name))
    refuse_idle_words(workload, named, task)
    if task.sparse and workload.data_unit not in ("bytes", "dataset"):  # pairs of a value and its column
        data_bytes = rows * task.nonzeros * (usual()["cell_bytes"] + INT32_BYTES)
    for text in task.assumptions:
        note_assumed(notes, text, task)
    if not is_named:
        notes.take("library", library, "host_library")
    on_gpu = _gpu_task(task, is_named=is_named, library=library)
    on_cpu = None if library in gpu_only_libraries() else task
    if on_cpu is None and (on_gpu is None or not _cuml_runs(task)):
        raise InputError(Message("families.library_does_not_run", library=library, model=named.name), field="library")
    if workload.gpu and on_gpu is None:
        raise ContradictionError(Message("families.no_gpu_library", model=named.name, library=library), field="gpu")
    doubts = float(sum(assumption.why.key.startswith("assumed_host") and assumption.field != "library" for assumption in notes.taken))
    return TableRequest(
        workload,
        named.name,
        SCORE if scores else TRAIN,
        on_cpu,
        on_gpu,
        None,
        data_bytes,
        rows,
        cols,
        doubts,
        tuple(notes.taken),
    )


def refuse_task(workload: Workload, named: ClassicalModel) -> None:
    """Tasks that these algorithms are not planned for."""
    if workload.epochs is not None and named.name not in ("mlp", "sgd", "logistic-regression", "linear-svm"):
        raise ContradictionError(Message("families.no_epochs", model=named.name), field="epochs")


def _gpu_task(task: ClassicalTask, *, is_named: bool, library: str) -> ClassicalTask | None:
    """The algorithm on a GPU, unless the user named a library of processors."""
    found = gpu_support(task)
    return found if found is not None and (not is_named or found.library == library) else None


def _cuml_runs(task: ClassicalTask) -> bool:
    """Whether cuML has the algorithm, asked as for scikit-learn; libraries of
    their own have theirs."""
    return task.library != "cuml" or gpu_support(dataclasses.replace(task, library="sklearn")) is not None


# ---- data preparation


def _read_preparation(workload: Workload, notes: Notes) -> TableRequest:
    from rightfit.estimation.preparation import preparation_task

    operation = operation_of(workload, notes)
    data_bytes, stored = stored_bytes(workload, operation, notes)
    library = (workload.library or workload.framework or "").strip()
    task = preparation_task(operation, data_bytes=data_bytes, library=library, stored=stored or stored_word(workload))
    refuse_idle_preparation(workload, task, stored)
    for text in task.assumptions:
        note_assumed(notes, text, task)
    if not library:
        notes.take("library", task.library, "host_library")
    doubts = float(len(task.assumptions))
    rows = workload.data_samples or 0.0
    return TableRequest(
        workload, task.operation, PREPARE, None, None, task, data_bytes, rows, float(workload.data_columns or 0), doubts, tuple(notes.taken)
    )


def refuse_idle_preparation(workload: Workload, task: PreparationTask, stored: str) -> None:
    """What was said of a table and says nothing to the operation. `stored`: the format that the
    amount of data implies."""
    from rightfit.estimation.preparation import preparation_task

    if workload.columns and stored != "memory":
        raise ContradictionError(Message("families.columns_of_known_data", data=workload.data), field="columns")
    if not workload.settings:
        return
    word = stored_word(workload)
    if not word:
        raise InputError(
            Message("families.settings_say_nothing", settings=workload.settings),
            field="settings",
        )
    if stored:
        raise ContradictionError(Message("families.settings_of_memory", word=word, data=workload.data), field="settings")
    plain = preparation_task(task.operation, data_bytes=task.input_bytes, library=task.library)
    if dataclasses.replace(task, assumptions=()) == dataclasses.replace(plain, assumptions=()) and task.assumptions == plain.assumptions:
        raise ContradictionError(Message("families.settings_of_operation", word=word, operation=task.operation), field="settings")


def stored_word(workload: Workload) -> str:
    """The format of a table that the settings name."""
    return next((word for word in words_in(workload.settings or "") if word in _STORED), "")


def operation_of(workload: Workload, notes: Notes) -> str:
    """The operation asked for, or the usual one for the model that the data are prepared for."""
    from rightfit.facts.classical import operations

    known = ", ".join(sorted(operations()))
    if workload.operation:
        return _known_operation(workload.operation)
    if not workload.model:
        raise InputError(Message("families.operation_unsaid", known=known), field="operation")
    usual_one = _usual_operation(workload.model)
    notes.take("operation", usual_one, "host_operation", model=workload.model)
    return usual_one


def _known_operation(text: str) -> str:
    """Refuse an operation that nobody knows, with the nearest that are known."""
    from rightfit.estimation.preparation import preparation_task
    from rightfit.facts.classical import operations
    from rightfit.workload.vocabulary import nearest_words

    try:
        preparation_task(text, data_bytes=1.0)
    except UnknownNameError:
        names = operations()
        raise UnknownNameError(
            "operation",
            text,
            nearest=nearest_words(text.casefold(), names),
            allowed=Message("names.allowed_words", names=", ".join(sorted(names))),
            field="operation",
        ) from None
    return text


def _usual_operation(model: str) -> str:
    from rightfit.facts.records import TransformerArchitecture

    if classical.classical_model(model) is not None:
        return _TABLE_OPERATION
    record = facts.model(model)
    if isinstance(record, TransformerArchitecture):
        return _TEXT_OPERATION
    if type(record).__name__ in ("VisionModel", "DiffusionModel"):
        return _VISION_OPERATION
    raise InputError(Message("families.operation_of_model", model=record.name), field="operation")


def stored_bytes(workload: Workload, operation: str, notes: Notes) -> tuple[float, str]:
    """Bytes of the data as stored, and their format where the amount implies it."""
    unit = workload.data_unit
    if workload.data is None:
        raise InputError(Message("families.amount_to_prepare"), field="data")
    if unit == "dataset":
        record = facts.dataset(workload.data)
        if not record.size_bytes:
            raise InputError(Message("families.dataset_size_nowhere", dataset=record.name), field="data")
        return float(record.size_bytes), ""
    if workload.data_bytes is not None:
        return workload.data_bytes, ""
    if workload.data_tokens is not None:
        width = facts.coefficients("planning")["bytes_per_token"]
        notes.take("data_bytes", workload.data_tokens * width, "host_token_bytes", width_bytes=width)
        return workload.data_tokens * width, ""
    cols = workload.data_columns or workload.columns
    if unit == "images" and workload.data_samples:
        width = usual()["image_bytes"]
        notes.take("data_bytes", workload.data_samples * width, "host_image_bytes", width_bytes=width)
        return workload.data_samples * width, ""
    if unit in ("rows", "samples") and workload.data_samples and cols:
        return workload.data_samples * cols * usual()["cell_bytes"], "memory"
    raise InputError(Message("families.data_unit_tables", unit=unit), field="data")
