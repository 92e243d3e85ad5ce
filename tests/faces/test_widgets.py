"""The form and the charts in a notebook: the very state that Jupyter shows, after a run in a real
kernel, and the charts as Chromium draws them."""

from __future__ import annotations

import json
import os
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ipywidgets", reason="the extra notebook is not installed")
pytest.importorskip("anywidget")

import rightfit
from rightfit import notebook
from rightfit.errors import InputError
from rightfit.web.words import word

WISHES = {"model": "Llama-3-8B", "task": "finetune", "method": "lora", "data": "50k samples", "budget": "200usd"}
LANGS = ["en", "zh"]


@pytest.fixture(scope="module")
def form() -> Any:
    return notebook.form(lang="en", **WISHES)


@pytest.mark.parametrize("lang", LANGS)
def test_a_form_that_is_filled_is_answered_as_the_library_answers(lang: str) -> None:
    found = notebook.form(lang=lang, **WISHES)  # type: ignore[arg-type]
    plan = rightfit.plan(**WISHES)
    assert found.wishes == WISHES
    assert found.plan.best.instance_type == plan.best.instance_type
    assert found.plan.best.cost.total_usd == plan.best.cost.total_usd
    assert ("租用" if lang == "zh" else "Rent ") in found.answer.value
    assert found.button.description == word("ask.submit", lang)  # type: ignore[arg-type]
    assert plan.best.instance_type in found.details.value
    assert "<script" not in found.answer.value


def test_every_field_that_is_changed_plans_again_and_a_sentence_fills_them(form: Any) -> None:
    form.fill(WISHES)
    form.submit()
    before = form.plan.best.cost.total_usd
    form.fields["data"].value = "31Mtok"
    assert form.plan.best.cost.total_usd > before
    form.fields["cloud"].value = "aws"
    assert {option.provider for option in form.plan.options} == {"aws"}
    form.sentence.value = "Serve Qwen2.5-7B for 200 users, first token within 500ms"
    assert (form.fields["task"].value, form.fields["users"].value, form.fields["cloud"].value) == ("serve", "200", "")
    assert form.plan.workload.task == "serve"
    assert form.sentence.value == ""


def test_what_is_wrong_is_said_in_one_line_and_nothing_old_stays(form: Any) -> None:
    form.fill({**WISHES, "model": "Lama-3-9Z<img src=x>"})
    form.submit()
    assert form.plan is None
    assert form.chart is None
    assert form.place.children == ()
    assert form.answer.value == form.details.value == ""
    assert "Lama-3-9Z" in form.told.value
    assert "<img" not in form.told.value
    form.fill({**WISHES, "method": "lorra"})
    form.submit()
    assert "lorra" in form.told.value
    form.button.click()
    assert "lorra" in form.told.value
    form.fill(WISHES)
    form.button.click()
    assert form.plan is not None
    assert form.told.value == ""


def test_the_chart_is_every_offer_and_the_plan_that_is_chosen_is_told(form: Any) -> None:
    form.fill(WISHES)
    form.submit()
    plans = form.chart.series[-1]
    assert [point[3] for point in plans["points"]] == [option.rank for option in form.plan.options]
    assert sum(len(one["points"]) for one in form.chart.series if one["kind"] == "points") > 500
    form.chart.selected = 2
    second = form.plan.options[1]
    assert form.details.value.startswith(f"<h4>2. {second.instance_type}")


def test_other_charts_of_a_plan() -> None:
    plan = rightfit.plan(model="Llama-3-8B", task="finetune", data="500Mtok", cloud="aws", top=1)
    scaling, months = notebook.chart(plan, "scaling", lang="en"), notebook.chart(plan, "months", lang="zh")
    planned, ideal = scaling.series
    assert [point[0] for point in planned["points"]][:3] == [1, 2, 3]
    assert all(mine[1] <= best[1] + 1e-9 for mine, best in zip(planned["points"], ideal["points"], strict=True))
    assert months.axes[0]["name"] == word("chart.months", "zh")
    assert len(months.series) > 1
    assert all(one["points"][-1][1] >= one["points"][0][1] for one in months.series)  # a term of three years is owed whole at once
    with pytest.raises(InputError, match="allowed: offers, scaling, months"):
        notebook.chart(plan, "pie")


def test_a_notebook_keeps_the_state_of_its_widgets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in a real kernel, and what Jupyter would show is in the notebook that is kept."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    source = Path(rightfit.__file__).parents[1]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(source), *filter(None, [os.environ.get("PYTHONPATH")])]))
    cells = [
        f"from rightfit import notebook\nform = notebook.form(lang='zh', **{WISHES!r})\nform",
        "form.chart.selected = 3\nform.plan.best.instance_type",
    ]
    written = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(written, timeout=180, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = written.cells[0].outputs[-1]["data"]
    state = written.metadata["widgets"]["application/vnd.jupyter.widget-state+json"]["state"]
    assert shown["application/vnd.jupyter.widget-view+json"]["model_id"] in state
    every = [entry["state"] for entry in state.values()]
    [chart] = [entry for entry in every if entry.get("_anywidget_id") or "series" in entry]
    assert chart["selected"] == 3
    assert sum(len(one["points"]) for one in chart["series"]) > 500
    assert any("租用" in str(entry.get("value", "")) for entry in every)
    assert any(entry.get("description") == word("ask.submit", "zh") for entry in every)
    if (nbconvert := pytest.importorskip("nbconvert")) is not None:
        body, _ = nbconvert.HTMLExporter().from_notebook_node(written)
        assert "application/vnd.jupyter.widget-view+json" in body
        assert "租用" in body or "\\u79df\\u7528" in body


HOST = """<!doctype html><html lang="en"><title>widget</title><body style="color:#222;background:#fff"><main><div id="place"></div></main><script type="module">
import widget from "data:text/javascript;base64,CODE";
const listeners = {}, values = STATE;
window.saved = [];
const model = { get: name => values[name], set: (name, value) => { values[name] = value; (listeners["change:" + name] ?? []).forEach(act => act()); },
  save_changes: () => window.saved.push(values.selected), on: (name, act) => (listeners[name] ??= []).push(act) };
widget.render({ model, el: document.getElementById("place") });
</script></body></html>"""


@pytest.mark.parametrize("kind", ["offers", "scaling", "months"])
def test_chromium_draws_the_charts_and_gives_back_what_is_chosen(browser: Any, kind: str, tmp_path: Path) -> None:
    import base64

    plan = rightfit.plan(model="Llama-3-8B", task="finetune", data="500Mtok", cloud="aws")
    chart = notebook.chart(plan, kind, lang="en")
    code = resources.files("rightfit.notebook").joinpath("data", "chart.js").read_bytes()
    state = {name: getattr(chart, name) for name in ("series", "axes", "title", "sign", "selected")}
    host = HOST.replace("CODE", base64.b64encode(code).decode()).replace("STATE", json.dumps(state).replace("<", "\\u003c"))
    (tmp_path / "host.html").write_text(host, encoding="utf-8")
    page = browser.new_page(viewport={"width": 760, "height": 480})
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto((tmp_path / "host.html").as_uri())
    page.wait_for_selector("svg")
    if folder := os.environ.get("RIGHTFIT_ARTIFACTS"):
        page.screenshot(path=str(Path(folder) / f"widget-{kind}.png"))
    drawn = page.evaluate("[...document.querySelectorAll('circle, polyline, text')].map(one => one.outerHTML).join('')")
    assert "NaN" not in drawn
    assert "Infinity" not in drawn
    assert page.locator("polyline").count() == len([one for one in chart.series if one["kind"] == "line"])
    if kind == "offers":
        assert page.locator("circle").count() == sum(len(one["points"]) for one in chart.series if one["kind"] != "line")
        assert page.get_attribute('[data-rank="1"]', "aria-pressed") == "true"
        page.locator('[data-rank="2"]').focus()
        page.keyboard.press("Enter")
        assert page.evaluate("window.saved") == [2]
        assert page.get_attribute('[data-rank="2"]', "aria-pressed") == "true"
    assert complaints == []
    page.close()
