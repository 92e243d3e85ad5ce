"""docs/notebook.ipynb runs from top to bottom in a real kernel, and shows what it says."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
nbconvert = pytest.importorskip("nbconvert")
pytest.importorskip("ipykernel")
pytest.importorskip("matplotlib")
pytest.importorskip("pandas")
pytest.importorskip("anywidget")

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "docs/notebook.ipynb"


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The notebook with its outputs."""
    folder = tmp_path_factory.mktemp("notebook")
    os.environ.setdefault("LC_ALL", "C.UTF-8")
    paths = [str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    kept = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    try:
        notebook = nbformat.read(NOTEBOOK, as_version=4)
        nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(folder)}}).execute()
    finally:
        os.environ.update({"PYTHONPATH": kept} if kept else {})
    notebook.metadata["folder"] = str(folder)
    return notebook


def shown(notebook: Any, words: str) -> str:
    """The HTML that the cell with `words` shows."""
    cell = next(cell for cell in notebook.cells if cell.cell_type == "code" and words in cell.source)
    return next(output.data["text/html"] for output in cell.outputs if "data" in output and "text/html" in output.data)


def test_a_plan_is_shown_as_a_report_with_its_chart(ran: Any) -> None:
    for words, headline in (("\nplan =", "Rent "), ('to_html("zh")', "租用")):
        html = shown(ran, words)
        assert f"<h2>{headline}" in html
        assert "<svg" in html
        assert "<script" not in html


def test_frames_and_verdict_are_shown(ran: Any) -> None:
    assert "instance_type" in shown(ran, "frame = plan.to_dataframe()")
    assert "seq_len" in shown(ran, "pandas.DataFrame(rows)")
    assert "aws/g4dn.xlarge" in shown(ran, "rightfit.why(")
    report = Path(ran.metadata["folder"]) / "report.html"
    assert report.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_the_form_and_its_chart_are_widgets_with_their_state(ran: Any) -> None:
    cell = next(cell for cell in ran.cells if "notebook.form(" in cell.source and cell.cell_type == "code")
    state = ran.metadata["widgets"]["application/vnd.jupyter.widget-state+json"]["state"]
    assert cell.outputs[-1]["data"]["application/vnd.jupyter.widget-view+json"]["model_id"] in state
    assert any(entry["state"].get("series") for entry in state.values())


def test_it_can_be_handed_on_as_html(ran: Any) -> None:
    body, _ = nbconvert.HTMLExporter(template_name="basic").from_notebook_node(ran)
    assert "Rent " in body
    assert "租用" in body


def test_the_notebook_is_kept_without_outputs() -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert all(not cell.get("outputs") and cell.get("execution_count") is None for cell in cells if cell["cell_type"] == "code")
