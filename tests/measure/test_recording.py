"""A measurement that somebody writes down by hand is understood as they write it, refused where
nobody can have measured it, and outranks what is assumed."""

from __future__ import annotations

from pathlib import Path

import pytest

import rightfit
from rightfit import facts
from rightfit.errors import FileInputError, InputError
from rightfit.explain.sheets import short_sheet
from rightfit.measure.ingest import ingest
from rightfit.measure.readers.item import Definitions
from rightfit.measure.record import Measured, Run, Source, measured, metrics, sealed, setup_columns, written
from rightfit.measure.store import runs_at
from rightfit.messages import Lang
from rightfit.rest.answers import checked_runs

SETUP = {"model": "Qwen/Qwen2.5-7B", "method": "lora", "gpu": "L40S", "n_gpus": "1", "seq_len": "2048", "micro_batch": "1"}
PLACE = {"on": "aws/g6e.xlarge", "method": "lora", "data": "40Mtok", "seq_len": 2048, "micro_batch": 1}


def of_table(folder: Path, **cells: str) -> list[Run]:
    (file := folder / "run.csv").write_text(",".join(cells) + "\n" + ",".join(cells.values()) + "\n", encoding="utf-8")
    return rightfit.ingest(file)


def a_record(*figures: Measured, **more: str) -> Run:
    return sealed(Run(source=Source(kind="own-table"), setup={**SETUP, **more}, measured=list(figures)))


@pytest.mark.parametrize("row", facts.table("run_columns"), ids=lambda row: f"{row['kind']}-{row['column']}-{row['factor']}")
def test_every_spelling_of_a_column_is_understood(row: dict[str, str], tmp_path: Path) -> None:
    """Each is read as its column, and without case, brackets and signs too."""
    for word in row["spellings"].split():
        for header in (word, word.replace("_", " ").title(), word.upper()):
            if row["kind"] == "setup":
                others = {name: text for name, text in SETUP.items() if name != row["column"]}
                [run] = ingest(_table(tmp_path, {**others, header: "8", "step_time_s": "2"}))
                column = row["column"] if row["column"] not in ("input_tokens", "output_tokens") else header
                assert run.setup.get(row["column"], run.setup.get(column)) == "8", header
                assert row["column"] in setup_columns()
            else:
                [run] = ingest(_table(tmp_path, {**SETUP, header: "64"}), definitions=Definitions(False))
                [found] = run.measured
                assert found.metric in metrics(), header
                assert found.value == pytest.approx(64 * float(row["factor"])), header


def _table(folder: Path, cells: dict[str, str]) -> Path:
    (file := folder / "run.csv").write_text(",".join(cells) + "\n" + ",".join(cells.values()) + "\n", encoding="utf-8")
    return file


def test_a_rate_of_the_whole_job_is_told_for_each_card(tmp_path: Path) -> None:
    [run] = of_table(tmp_path, **{**SETUP, "n_gpus": "4", "tokens/s": "12000"})
    assert run.value("tokens_per_s_per_gpu") == 3000.0
    [run] = of_table(tmp_path, **{**SETUP, "n_gpus": "4", "tokens/s/GPU": "3000"})
    assert run.value("tokens_per_s_per_gpu") == 3000.0


def test_a_table_without_a_figure_names_the_columns_and_not_the_kinds_of_file(tmp_path: Path) -> None:
    with pytest.raises(FileInputError, match="no column is a figure"):
        of_table(tmp_path, model="7B", gpu="L40S", note="fine")


def test_memory_of_no_named_counter_is_that_of_nvidia_smi(tmp_path: Path) -> None:
    [run] = of_table(tmp_path, **SETUP, peak_memory_gib="36.5")
    assert [item.counter for item in run.measured] == ["nvidia-smi"]


@pytest.mark.parametrize(("column", "value"), [("tokens_per_s", "9999999"), ("peak_memory_gib", "900"), ("step_time_s", "0.000001")])
def test_what_nobody_can_have_measured_is_refused_by_ingest_and_by_the_server(column: str, value: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot have been measured"):
        of_table(tmp_path, **SETUP, **{column: value})
    [run] = ingest(tmp_path / "run.csv")
    with pytest.raises(InputError, match="cannot have been measured"):
        checked_runs([run.model_dump(mode="json")])


def test_memory_is_refused_of_a_card_alone(tmp_path: Path) -> None:
    """Without a model nothing is predicted, and the card is no larger for it."""
    with pytest.raises(InputError, match="900 GiB on a GPU of"):
        of_table(tmp_path, gpu="L40S", peak_gib="900")


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_plan_says_which_stored_figure_it_leaves_out(lang: Lang, tmp_path: Path) -> None:
    run = a_record(measured("tokens_per_s_per_gpu", 9_999_999.0), measured("peak_mem_gib_per_gpu", 36.5, counter="nvidia-smi"))
    (tmp_path / "run.json").write_text(written([run]))
    plan = rightfit.estimate("Qwen/Qwen2.5-7B", runs=tmp_path, **PLACE)  # type: ignore[arg-type]
    assert "own_runs_impossible" in [reason.key for reason in plan.options[0].why]
    assert "9,999,999" in str(short_sheet(plan, lang))


@pytest.mark.parametrize("recompute", ["", "none"])
@pytest.mark.parametrize("peak", [20.0, 30.0, 36.5, 42.0, 44.2])
def test_a_set_up_that_ran_fits(recompute: str, peak: float, tmp_path: Path) -> None:
    """What ran is no set-up that does not fit, and needs what it was measured to need."""
    more = {"recompute": recompute} if recompute else {}
    (tmp_path / "run.json").write_text(written([a_record(measured("peak_mem_gib_per_gpu", peak, counter="nvidia-smi"), **more)]))
    assert len(runs_at(tmp_path)) == 1
    [option] = rightfit.estimate("Qwen/Qwen2.5-7B", runs=tmp_path, **PLACE).options  # type: ignore[arg-type]
    assert option.facts["fit_probability"] >= 0.5
    assert not [reason for reason in option.warnings if reason.key == "own_runs_memory"]
    if option.layout.recompute == "none" and recompute:
        assert option.estimate["peak_memory_bytes"].mid == pytest.approx(peak * 2**30)
