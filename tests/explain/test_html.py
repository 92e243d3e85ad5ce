"""A sheet as HTML: complete, well formed, escaped, in both languages, and without
anything from outside."""

from __future__ import annotations

import dataclasses
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest

import rightfit
from rightfit.explain import html as charts
from rightfit.explain.html import document, gauge_html, plan_html, sheet_html, table_html, title_of, verdict_html
from rightfit.explain.plan_words import Term
from rightfit.explain.quantities import Column, Table
from rightfit.explain.sheets import Breakdown, Choice, Lines, plan_sheet
from rightfit.messages import LANGS, Lang
from rightfit.search.answer import Plan

_VOID = {"meta", "br"}


class Reader(HTMLParser):
    """Collects text, and fails on a tag that is closed out of order."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.text: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href", "data", "action")]
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read(html: str) -> Reader:
    """The parsed fragment; every tag is closed."""
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == []
    return reader


@pytest.fixture(scope="module")
def plan() -> Plan:
    """A real plan of a small job."""
    return rightfit.plan("meta-llama/Meta-Llama-3-8B", method="qlora", data="50Mtok", top=5)


@pytest.fixture(scope="module")
def service() -> Plan:
    """A real plan of a service."""
    return rightfit.plan("meta-llama/Meta-Llama-3-8B", task="serve", rate="5/s", top=3)


@pytest.mark.parametrize("lang", LANGS)
def test_every_sentence_of_the_sheet_is_there(plan: Plan, lang: Lang) -> None:
    text = " ".join("".join(read(plan_html(plan, lang)).text).split())
    for part in plan_sheet(plan, lang):
        if isinstance(part, Choice):
            assert part.headline in text
        if isinstance(part, Lines):
            assert all(" ".join(line.split()) in text for line in part.lines)
        if isinstance(part, Breakdown):
            assert part.terms[0].label in text
        if isinstance(part, Table):
            assert str(part.records[0]["instance_type" if "instance_type" in part.records[0] else "purchase"]) in text


@pytest.mark.parametrize("lang", LANGS)
def test_nothing_comes_from_outside(plan: Plan, service: Plan, lang: Lang) -> None:
    for html in (plan_html(plan, lang, everything=True), plan_html(service, lang)):
        reader = read(document(html, title="t", lang=lang))
        assert [address for address in reader.addresses if not address.startswith("#")] == []
        assert "<script" not in html
        assert "@import" not in html
        assert "url(http" not in html


def test_what_a_user_gave_is_escaped() -> None:
    nasty = '<script>alert("1")</script>&'
    parts = (
        Choice(nasty, (nasty,), nasty),
        Lines("why", nasty, (nasty, f"  {nasty}")),
        Breakdown("cost", nasty, (Term("a", nasty, 1.0, 1.0, ""),), lambda value: nasty),
        Table((Column("name"),), [{"name": nasty}], title=nasty),
        nasty,
        f"{nasty}\n- {nasty}",
    )
    html = document(sheet_html(parts, "en"), title=nasty, lang="en")
    assert "<script" not in html
    assert "".join(read(html).text).count(nasty) == 15


def test_a_bar_is_as_long_as_its_share() -> None:
    terms = (Term("a", "A", 3.0, 0.75, ""), Term("b", "B", 1.0, 0.25, ""), Term("c", "C", 0.0, 0.0, ""))
    html = sheet_html([Breakdown("cost", "Cost", terms, str)], "en")
    assert re.findall(r"<span style=\"width:([\d.]+)%\">", html) == ["75.0", "25.0"]


def test_lists_fold_only_where_asked() -> None:
    parts = [Lines("refused", "Refused:", ("a", "  b"))]
    assert "<details>" in sheet_html(parts, "en", unfolded=False)
    assert "<details>" not in sheet_html(parts, "en")
    assert "<li>a<br>b</li>" in sheet_html(parts, "en")


def test_columns_of_numbers_are_aligned() -> None:
    html = table_html(Table((Column("rank", right=True), Column("name")), [{"rank": 1, "name": None}]), "zh")
    assert '<td class="rf-right">1</td><td></td>' in html
    assert "名称" in html


def test_the_gauge_shows_use_interval_and_capacity(plan: Plan, service: Plan) -> None:
    option = plan.best
    assert option is not None
    figure = option.estimate["peak_memory_bytes"]
    capacity = 1.1 * figure.high95  # all of the interval is below it
    html = gauge_html(dataclasses.replace(option, facts={**option.facts, "capacity_bytes": capacity}), plan, "en")
    assert f'<b style="width:{100 * figure.mid / capacity:.1f}%">' in html
    assert "<u " not in html
    tight = dataclasses.replace(option, facts={**option.facts, "capacity_bytes": figure.high95 / 2})
    assert '<u style="left:50.0%">' in gauge_html(tight, plan, "en")
    assert service.best is not None
    assert gauge_html(service.best, service, "en") == ""


def test_the_chart_has_a_mark_for_each_option(plan: Plan, service: Plan) -> None:
    pytest.importorskip("matplotlib")
    for answer, words in ((plan, "hours"), (service, "request latency, seconds")):
        svg = charts.options_svg(answer, "en")
        root = ET.fromstring(svg)
        texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
        assert words in texts
        assert all(str(option.rank) in texts for option in answer.options)
        assert "currentColor" in svg
        assert "#010203" not in svg
        assert "#040506" not in svg
    assert charts.options_svg(plan, "zh") == charts.options_svg(plan, "zh")
    assert "用时（小时）" in charts.options_svg(plan, "zh")


def test_points_are_those_of_the_plan(plan: Plan, service: Plan) -> None:
    best = plan.best
    assert best is not None
    first = charts.points(plan)[0]
    assert (first.time_s, first.cost_usd) == (best.estimate["total_time_s"].mid, best.cost.total_usd)
    assert first.cost_low_usd < first.cost_usd < first.cost_high_usd
    month = charts.points(service)[0]
    assert service.best is not None
    assert month.cost_usd == pytest.approx(service.best.cost.monthly_usd)  # type: ignore[attr-defined]


def test_without_options_or_library_there_is_no_chart(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    assert charts.options_svg(dataclasses.replace(plan, options=plan.options[:1]), "en") == ""
    monkeypatch.setattr(charts, "has_charts", lambda: False)
    html = plan_html(plan, "en")
    assert "<svg" not in html
    assert "rf-gauge" in html


def test_a_notebook_shows_plan_and_verdict_in_the_language_of_the_locale(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    assert 'lang="zh-CN"' in plan._repr_html_()
    assert 'lang="en"' in plan.to_html("en")
    verdict = rightfit.why("aws/g4dn.xlarge", "meta-llama/Meta-Llama-3-8B", method="qlora", data="50Mtok")
    assert "aws/g4dn.xlarge" in verdict._repr_html_()
    assert "rf-gauge" in verdict_html(verdict, "en")
    monkeypatch.setenv("LC_ALL", "C")
    assert 'lang="en"' in verdict._repr_html_()


def test_a_whole_file_has_the_first_line_as_title(plan: Plan) -> None:
    text = plan.to_html("en", whole=True)
    assert text.startswith("<!DOCTYPE html>")
    best = plan.best
    assert best is not None
    assert f"<title>Rent {best.instance_type} from " in text
    assert "<details>" not in text
    assert "<details>" in plan.to_html("en")
    assert title_of([Table((Column("name"),), [])]) == "rightfit"
    assert title_of(["first\n- second"]) == "first"
    assert title_of([Lines("why", "Why:", ("a",))]) == "Why:"


def test_a_plan_without_an_answer_says_why() -> None:
    nothing = rightfit.plan("meta-llama/Meta-Llama-3-70B", method="full", deadline="1h", budget="1usd")
    assert nothing.best is None
    text = "".join(read(plan_html(nothing, "en")).text)
    assert "No server in the catalog meets this request." in text
    assert "budget alone excludes all of them" in text
