"""The columns of a case, by kind of table: facts/data/case_columns.csv. Engines see these and
nothing else of a row.

A case is what its columns say: remarks (`notes`), where it was read (`source`, `source_where`) and
what became of it are carried through and never read, because nobody writes them beside a question.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.errors import UnknownNameError
from rightfit.estimation.intervals import IntervalLaw, family_of, interval_law
from rightfit.facts.classical import library_of
from rightfit.facts.engines import engine_class
from rightfit.facts.tables import constants, first_match, says, shape
from rightfit.facts.trainers import sample_stack, software_class, software_names
from rightfit.physics.columns import Array, AttentionKernel, Dtype, MemoryCounter, Method, Recompute
from rightfit.proof.cases.training import TrainingCases

#: Kinds of tables, and the measured tables of each.
TABLES: Mapping[str, Sequence[str]] = {
    "training": ("train_memory", "train_throughput"),
    "inference": ("inference",),
    "samples": ("vision_train", "vision_oom"),
    "classical": ("classical_ml",),
    "loading": ("data_loading",),
}


class CaseColumn(NamedTuple):
    """One column that is read: its unit ("word", "words", "name", "count", "flag" or a unit),
    allowed words, and what it means in both languages."""

    table: str
    column: str
    unit: str
    allowed: str
    meaning: str
    meaning_zh: str


@functools.cache
def _all() -> tuple[CaseColumn, ...]:
    return tuple(CaseColumn(**row) for row in facts.table("case_columns"))


def case_columns(table: str = "") -> tuple[CaseColumn, ...]:
    """The columns that are read of a kind of table (training, inference, samples, classical,
    loading, or the name of a measured table); of every kind without one. Raises UnknownNameError
    for another name."""
    if not table:
        return _all()
    kind = next((kind for kind, names in TABLES.items() if table == kind or table in names), "")
    if not kind:
        raise UnknownNameError("table", table, nearest=list(TABLES), allowed=", ".join(TABLES))
    return tuple(column for column in _all() if column.table == kind)


@functools.cache
def _names(table: str) -> frozenset[str]:
    return frozenset(one.column for one in case_columns(table))


#: Carried through by custom, and no misspelling of a column that is read.
CARRIED = frozenset(
    {
        "notes",
        "source",
        "source_where",
        "usable",
        "why_not",
        "corrections",
        "place",
        "trust",
        "flags",
        "measured",
        "is_oom",
        "framework_version",
        "params_b",
    }
)


def unread(header: Sequence[str]) -> list[tuple[str, str]]:
    """Columns of a table that no engine reads, each with the nearest that one does ("" where none
    is near); remarks are left out."""
    import difflib

    known = sorted(_names(""))
    strange = [column for column in header if column and column not in known and column not in CARRIED]
    return [(column, next(iter(difflib.get_close_matches(column.lower(), known, n=1, cutoff=0.7)), "")) for column in strange]


def visible(row: Mapping[str, str], table: str = "") -> dict[str, str]:
    """The cells of a row that engines may read."""
    names = _names(table)
    return {column: cell for column, cell in row.items() if column in names}


# ---- Words of a case that name something which did not run: "HF Trainer (compared with
# torchtune)" is not torchtune.

TABLE = "wording"  # of words
#: Columns that name software; a comparison in them would choose other rules.
NAMES = ("framework", "engine", "library", "loader")
_COMPARED = r"\s*\([^()]*{comparison}[^()]*\)|[\s,;]*{comparison}[^,;()]*"


@functools.lru_cache(maxsize=4096)
def without_comparison(text: str) -> tuple[str, str]:
    """The text without its comparisons, and the words that were left out."""
    pattern = shape(TABLE, _COMPARED, ignore_case=True)
    found = pattern.search(text)
    if found is None or not pattern.sub("", text).strip(" ,;"):
        return text, ""
    return pattern.sub("", text).strip(" ,;"), found[0].strip(" ,;")


def without_comparisons(cells: Mapping[str, str]) -> dict[str, str]:
    """A case in whose names of software nothing is compared."""
    return {column: without_comparison(cell)[0] if column in NAMES and cell else cell for column, cell in cells.items()}


def compared(cells: Mapping[str, str]) -> list[str]:
    """What is said of comparisons that were left out."""
    found = {column: without_comparison(cells[column])[1] for column in NAMES if cells.get(column)}
    return [f"{column}: {words!r} names what it is compared with: not read" for column, words in found.items() if words]


# ---- Whether the software that a case names is one that the estimates know: a name that nobody
# knows tells as little as an empty cell.

#: The column that names the software, by kind of case.
COLUMNS = {"training": "framework", "serving": "engine", "forward": "engine", "samples": "framework", "classical": "library"}


@functools.lru_cache(maxsize=4096)
def is_known_software(kind: str, text: str) -> bool:
    """Whether `text`, the cell of COLUMNS[kind], names software that is known; an
    empty cell names none."""
    words = text.strip().lower()
    if not words:
        return False
    if kind in ("training", "forward", "samples") and says("software", kind, words):
        return True
    known = {
        "training": lambda: software_class(words) != 0,
        "serving": lambda: engine_class(words).name != "generic",
        "forward": lambda: first_match("forward_engines", words) is not None,
        "samples": lambda: sample_stack(words) != "eager",
        "classical": lambda: library_of(words) != "other",
    }
    return known[kind]()


# ---- How wide the interval of an answer is, and with what probability the case fits: the law of
# intervals applied to a whole table.
#
# The engines say of each answer what it is (`regime`: the group of figures and what the width may
# depend on); a name of software that nobody knows counts as an empty cell.

#: Kind of software of a family of figures; the others name none.
_SOFTWARE = {
    "memory": "training",
    "time": "training",
    "serving": "serving",
    "serving-memory": "serving",
    "forward": "forward",
    "forward-memory": "forward",
    "samples-memory": "samples",
    "samples-run": "samples",
    "samples-time": "samples",
    "classical": "classical",
    "classical-memory": "classical",
}
#: Beginnings of what is said of software: told by a condition of its own, so that an unknown name
#: and an empty cell count alike.
SOFTWARE_SAID = ("engine not stated", "framework ", "engine ", "library ")
FIGURES = ("predicted", "low80", "high80", "low95", "high95")
CONDITIONS = ("no_software", "unknowns", "new_device", "eager_stack", "fully_sharded", "moe", "counter", "beside")
#: Above the upper end of a 95 % interval.
_TAIL = 0.025


def software_kind(group: str) -> str:
    """The kind of software behind a group of figures; empty where none is named."""
    return _SOFTWARE.get(family_of(group), "")


def software_remark(kind: str, cells: Mapping[str, str]) -> str:
    """What is to be said of the software that a case names: that it is not known; nothing where it
    is, or none is named."""
    text = cells.get(COLUMNS[kind], "").strip() if kind else ""
    return f"{COLUMNS[kind]} {text[:60]!r} is not known: as if none were stated" if text and not is_known_software(kind, text) else ""


def conditions_of(
    cells: Sequence[Mapping[str, str]], answers: Sequence[Mapping[str, Any]], devices: Mapping[str, frozenset[str]]
) -> dict[str, Array]:
    """What the width of each answer depends on, as arrays by name. `devices`: those that a family
    of figures was fitted on."""
    regimes = [answer["regime"] for answer in answers]
    kinds = [software_kind(regime["group"]) for regime in regimes]
    told = [sum(_bears(text, regime["group"]) for text in answer["assumptions"]) for answer, regime in zip(answers, regimes, strict=True)]
    found = {
        "no_software": [
            bool(kind) and not is_known_software(kind, row.get(COLUMNS[kind], "")) for kind, row in zip(kinds, cells, strict=True)
        ],
        "unknowns": np.log2(1.0 + np.array(told)),
        "new_device": [_is_new(regime, devices) for regime in regimes],
        "knowledge": [regime.get("knowledge", 1.0) for regime in regimes],
    }
    found |= {name: [regime.get(name, 0.0) for regime in regimes] for name in CONDITIONS if name not in found}
    return {name: np.asarray(values, dtype=np.float64) for name, values in found.items()}


def _bears(text: str, group: str) -> bool:
    """Whether an assumption makes a figure less sure by itself: which card it is does not bear on
    the memory of a job."""
    return not text.startswith(SOFTWARE_SAID) and not (family_of(group) == "samples-memory" and " taken as " in text)


def _is_new(regime: Mapping[str, Any], devices: Mapping[str, frozenset[str]]) -> bool:
    known, device = devices.get(family_of(regime["group"])), regime.get("device", "")
    return bool(device) and known is not None and device not in known


def widen(cells: Sequence[Mapping[str, str]], answers: Sequence[dict[str, Any]], law: IntervalLaw | None = None) -> None:
    """Put the intervals of the law, and the verdict that follows from it, into these answers."""
    kept = [i for i, answer in enumerate(answers) if answer.get("regime") and answer["predicted"]]
    if not kept:
        return
    law = law or interval_law()
    rows, told = [cells[i] for i in kept], [answers[i] for i in kept]
    groups = [answer["regime"]["group"] for answer in told]
    scale = law.scale(groups, conditions_of(rows, told, law.devices))
    mid = np.array([answer["predicted"] for answer in told], dtype=np.float64)
    found = law.bounds(groups, scale, mid)
    bounds = np.stack([found.mid, found.low80, found.high80, found.low95, found.high95], axis=1)
    rooms = np.array([answer["regime"].get("room", np.nan) for answer in told], dtype=np.float64)
    over = law.probability_over(groups, scale, np.where(np.isfinite(rooms), rooms, 0.0))
    floors = np.array([answer["regime"].get("floor", 0.0) for answer in told], dtype=np.float64)
    bounds = np.maximum(bounds, np.minimum(floors, mid)[:, None])
    ceilings = np.array([answer["regime"].get("ceiling", np.inf) for answer in told], dtype=np.float64)
    bounds = np.minimum(bounds, np.maximum(ceilings, mid)[:, None])
    for row, answer, values, room, probability in zip(rows, told, bounds, rooms, over, strict=True):
        answer.update(zip(FIGURES, (float(f"{value:.6g}") for value in values), strict=True))
        if np.isfinite(room):
            answer["p_fits"] = float(f"{1.0 - probability:.4g}")
            most = law.most_risk(answer["regime"]["group"])
            answer["fits"], answer["fits95"] = int(probability < most), int(probability < _TAIL)
            answer["assumptions"] = [*answer["assumptions"], f"fits: the risk of running out of memory is below {most:.0%}"]
        if remark := software_remark(software_kind(answer["regime"]["group"]), row):
            answer["assumptions"] = [*answer["assumptions"], remark]


# ---- Bytes that certainly lie on one device: no interval of memory goes below them.


def certain_weights(row: Mapping[str, str], weights: float, *, narrowest: float, devices: float) -> float:
    """What of the weights that are predicted for a device lies there whatever the case does not
    tell. `narrowest`: what their narrowest format takes of the
    one that is predicted, where the row states none; `devices` share them, where it does not say
    how."""
    share = 1.0 if row.get("weights_dtype") or row.get("precision", "") in ("fp32", "tf32") else min(narrowest, 1.0)
    spread = 1.0 if any(row.get(column) for column in ("tp", "zero", "strategy", "sharding", "parallel")) else max(devices, 1.0)
    return weights * share / spread * constants("training_words")["certain_weights"]


# ---- What was taken for the columns that a case of language-model training leaves empty, and the
# conventions of its stack that no column states.

MEMORY_METRIC = "peak_mem_gib_per_gpu"


def note_taken(answers: list[dict[str, Any]], cases: TrainingCases, index: NDArray[np.intp]) -> None:
    """What was taken for each column that a case may have left empty."""
    columns = {name: np.broadcast_to(getattr(cases.setup, name), cases.index.shape) for name in _TAKEN.values()}
    widths = {"weights_dtype": cases.setup.linear_weight_bytes, "optimizer": cases.setup.optimizer_bytes}
    widths = {column: np.broadcast_to(value, cases.index.shape) for column, value in widths.items()}
    classes, framework, rank = (
        software_names(),
        *(np.broadcast_to(one, cases.index.shape) for one in (cases.setup.framework, cases.setup.adapter_rank)),
    )
    known = {
        "attention": AttentionKernel,
        "recompute": Recompute,
        "compute_dtype": Dtype,
        "memory_counter": MemoryCounter,
        "method": Method,
    }
    for i in index:
        taken: dict[str, Any] = {}
        for column, name in _TAKEN.items():
            value = float(columns[name][i])
            taken[column] = known[name](int(value)).name.lower() if name in known else f"{value:g}"
        taken |= {column: f"{value[i]:.3g} bytes a parameter" for column, value in widths.items()}
        taken["framework"] = f"{classes[int(framework[i])]} kernels"
        if rank[i] > 0:
            taken |= {"lora_rank": f"{rank[i]:g}", "lora_targets": "the stack's usual ones"}
        answer = answers[int(cases.index[i])]
        single = float(columns["num_gpus"][i]) <= 1
        dropped = (_SPREAD if single else set()) | (set() if answer["metric"] == MEMORY_METRIC else {"mem_kind"})
        answer["taken"] = {column: value for column, value in taken.items() if column not in dropped}


#: Degrees that say nothing of one card.
_SPREAD = {"tp", "pp", "dp", "zero"}
_HELD = {
    "weights": "linear_weight_bytes",
    "gradients": "gradient_bytes",
    "sums of gradients": "accumulation_bytes",
    "master copies": "master_bytes",
    "states": "optimizer_bytes",
}


def note_conventions(answers: list[dict[str, Any]], cases: TrainingCases, index: NDArray[np.intp]) -> None:
    """The widths that a stack's conventions gave and that no column states."""
    held = {words: np.broadcast_to(getattr(cases.setup, name), cases.index.shape) for words, name in _HELD.items()}
    logits = np.broadcast_to(cases.setup.logit_bytes, cases.index.shape)
    for i in index:
        parts = ", ".join(f"{words} {value[i]:.3g}" for words, value in held.items() if value[i] > 0)
        answers[int(cases.index[i])]["said"] = [
            f"held by the conventions of the stack, bytes each: {parts}; a logit {logits[i]:.3g}",
            f"taken of the stack, each can be given in extra_flags: {cases.habits[int(i)].replace('; ', ', ')}",
        ]


#: Column of a case -> field of the setup that stands for it.
_TAKEN = {
    "method": "method",
    "precision": "compute_dtype",
    "attention": "attention",
    "recompute": "recompute",
    "mem_kind": "memory_counter",
    "n_gpus": "num_gpus",
    "tp": "tensor",
    "pp": "pipeline",
    "dp": "data",
    "zero": "shard_stage",
    "micro_batch": "micro_batch",
    "grad_accum": "grad_accum",
    "seq_len": "seq_len",
}
