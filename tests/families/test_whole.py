"""Every family of work is whole: its folder, its words in both languages and its page. What is
missing is told in one line, with the file to add it to."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import re
from collections.abc import Iterator
from importlib import import_module, resources
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import jsonschema
import pytest

import rightfit
from rightfit.errors import InputError
from rightfit.explain import voices
from rightfit.explain.cards import option_card
from rightfit.explain.family_text import FamilyWords, figure_text, lacking, option_fields
from rightfit.explain.messages import family_topic, fields_of, has, json_bytes, topic
from rightfit.explain.plan_words import OptionText
from rightfit.explain.sheets import estimate_sheet, plan_sheet, verdict_sheet
from rightfit.explain.voices import knobs, plan_document, verdict_document
from rightfit.exports import all_targets
from rightfit.families import registry
from rightfit.market import Catalog
from rightfit.messages import LANGS, Lang
from rightfit.planner.plan import market_field
from rightfit.search.answer import Option, Plan, Reason
from rightfit.search.constraints import WISHES
from rightfit.search.option_facts import OfferFacts
from rightfit.search.servers import Verdict
from rightfit.workload import Workload

FAMILIES = registry.folders()
DOCS = Path(__file__).parents[2] / "docs"
OF_MATCH = ("matches", "honours", "PRECEDENCE", "EXAMPLE", "PAGE")
OF_ESTIMATE, OF_FACTS = ("peak_memory_bytes", "disk_bytes"), ("capacity_bytes",)
ANOTHER = "aws/g5.xlarge"
HAN = re.compile(r"[\u4e00-\u9fff]")


def module_of(family: str, name: str) -> ModuleType | None:
    """A module of a family's folder; None where there is none."""
    full = f"rightfit.families.{family}.{name}"
    return import_module(full) if importlib.util.find_spec(full) else None


def lacks_of_folder(family: str) -> Iterator[str]:
    """What is missing of a folder, a line each."""
    match, kind = module_of(family, "match"), module_of(family, "kind")
    missing = [name for name in OF_MATCH if not hasattr(match, name)]
    if missing:
        yield f"families/{family}/match.py lacks {', '.join(missing)}"
    if not hasattr(kind, "FAMILY"):
        yield f"families/{family}/kind.py lacks FAMILY"
    elif kind.FAMILY.name != family:  # type: ignore[union-attr]
        yield f"families/{family}/kind.py: FAMILY is named {kind.FAMILY.name}, the folder {family}"  # type: ignore[union-attr]


def is_worded(family: str) -> bool:
    """Whether a table words the family, and not code."""
    return family not in voices.OF_FAMILY


@pytest.mark.parametrize("family", FAMILIES)
def test_its_folder_is_whole(family: str) -> None:
    lacks = list(lacks_of_folder(family))
    assert not lacks, "; ".join(lacks)


@pytest.mark.parametrize("family", FAMILIES)
def test_it_has_words(family: str) -> None:
    line = lacking(family) if is_worded(family) else ""
    assert not line, line


@pytest.mark.parametrize("family", FAMILIES)
def test_it_has_a_page(family: str) -> None:
    page = getattr(module_of(family, "match"), "PAGE", None)
    if page is None:
        pytest.skip("test_its_folder_is_whole says that it names none")
    lacks = list(lacks_of_page(page))
    assert not lacks, "; ".join(lacks)


def lacks_of_page(page: str) -> Iterator[str]:
    """What is missing of a page below docs/: itself, its Chinese twin where its siblings have one,
    and a link to each."""
    siblings = [path for path in (DOCS / page).parent.glob("*.md") if not path.name.endswith(".zh.md") and path != DOCS / page]
    twins = [page.replace(".md", ".zh.md")] if all(path.with_suffix(".zh.md").exists() for path in siblings) else []
    for name, index in ((page, "index.md"), *((twin, "index.zh.md") for twin in twins)):
        if not (DOCS / name).exists():
            yield f"there is no docs/{name}"
        elif f"({name})" not in (DOCS / index).read_text(encoding="utf-8"):
            yield f"docs/{index} has no link to {name}"


class Answers(NamedTuple):
    """What the verbs say to the example of a family."""

    family: str
    workload: Workload
    plan: Plan
    estimate: Plan
    verdicts: tuple[Verdict, ...]

    def options(self) -> list[Option]:
        """Every option that any answer shows in full."""
        shown = [*self.plan.options, *self.estimate.options, *(verdict.option for verdict in self.verdicts)]
        return [option for option in shown if option is not None]

    def reasons(self) -> list[Reason]:
        """Every reason of every answer."""
        beside = [reason for plan in (self.plan, self.estimate) for reason in plan.advice]
        assumed = [assumption.why for assumption in self.plan.assumptions]
        parts = [reason for section in self.plan.sections for reason in section.reasons]
        told = [reason for verdict in self.verdicts for reason in verdict.standing]
        return [*(reason for option in self.options() for reason in (*option.why, *option.warnings)), *beside, *assumed, *parts, *told]


@pytest.fixture(scope="module")
def answered(request: pytest.FixtureRequest, catalog: Catalog) -> Answers:
    """The answers to the example of a family that is whole but perhaps for its words."""
    family: str = request.param
    match = module_of(family, "match")
    if match is None or list(lacks_of_folder(family)):
        pytest.skip("test_its_folder_is_whole says what is missing")
    workload = Workload(**match.EXAMPLE)
    plan = rightfit.plan(**match.EXAMPLE, top=3)
    assert plan.best is not None, f"families/{family}/match.py: no server does EXAMPLE"
    best = f"{plan.best.provider}/{plan.best.instance_type}"
    estimate = rightfit.estimate(**match.EXAMPLE, on=best, nodes=plan.best.nodes)
    refused = [rejection.example for rejection in plan.rejected if rejection.criterion not in WISHES][:1]
    verdicts = tuple(rightfit.why(server, **match.EXAMPLE) for server in (best, ANOTHER, *refused))
    return Answers(family, workload, plan, estimate, verdicts)


every_family = pytest.mark.parametrize("answered", FAMILIES, indirect=True)


@every_family
def test_its_example_is_taken_by_it_alone(answered: Answers) -> None:
    taken = registry.name_of(answered.workload)
    assert taken == answered.family, (
        f"families/{answered.family}/match.py: its EXAMPLE is taken by {taken}, which is asked first or more often"
    )


@every_family
def test_its_options_say_what_every_face_reads(answered: Answers) -> None:
    option = answered.plan.options[0]
    time = "latency_s" if "latency_s" in option.estimate else "total_time_s"
    missing = [f"estimate {name}" for name in (time, *OF_ESTIMATE) if name not in option.estimate]
    missing += [f"fact {name}" for name in (*OF_FACTS, *sorted(OfferFacts.__required_keys__)) if name not in option.facts]
    assert not missing, f"families/{answered.family}/kind.py: its options lack {', '.join(missing)}"


@every_family
def test_every_verb_answers_its_example(answered: Answers) -> None:
    assert answered.estimate.best is not None
    assert answered.verdicts[0].fits
    assert all(verdict.standing for verdict in answered.verdicts)
    field = market_field(answered.workload)
    assert len(field) > 100
    assert field.is_front.any()


@every_family
@pytest.mark.parametrize("lang", LANGS)
def test_its_documents_are_as_the_schema_says(answered: Answers, lang: Lang) -> None:
    skip_without_words(answered.family)
    schema = json.loads(resources.files("rightfit").joinpath("schema/plan.schema.json").read_text(encoding="utf-8"))
    for plan in (answered.plan, answered.estimate):
        jsonschema.validate(json.loads(json_bytes(plan_document(plan, lang))), schema)
    assert all(json_bytes(verdict_document(verdict, lang)) for verdict in answered.verdicts)


@every_family
def test_its_plan_is_exported_or_refused_in_a_line(answered: Answers) -> None:
    refused = {}
    for target in all_targets():
        try:
            assert answered.plan.export(target)
        except InputError as error:
            refused[target] = str(error)
    assert not [target for target, line in refused.items() if "\n" in line or not line]


def skip_without_words(family: str) -> None:
    """Leave a family whose words are missing to the test that says so."""
    if is_worded(family) and lacking(family):
        pytest.skip("test_it_has_words says what is missing")


@every_family
def test_its_words_name_what_its_answers_have(answered: Answers) -> None:
    skip_without_words(answered.family)
    lacks = list(lacks_of_words(answered)) if is_worded(answered.family) else []
    assert not lacks, f"explain/data/families/{answered.family}.toml: " + "; ".join(lacks)


def lacks_of_words(answered: Answers) -> Iterator[str]:
    """Fields that the words of a family name and no answer has; a line each."""
    words = topic(family_topic(answered.family))
    option = answered.plan.options[0]
    known = {name: set(option_fields(option, answered.workload, "en")) for name in ("outcome", "setup", "speed", "margin")}
    for reason in answered.reasons():
        known.setdefault(reason.key, set(reason.params) | ({"where"} if "instance_type" in reason.params else set()))
    for name, texts in words.items():
        strange = sorted({field for text in texts.values() for field in fields_of(text)} - known.get(name, fields_of(texts["en"])))
        if strange:
            yield f"{name} names {', '.join(strange)}, which its answers do not have"


@every_family
def test_its_reasons_and_terms_have_words(answered: Answers) -> None:
    skip_without_words(answered.family)
    voice = voices.voice_for(answered.workload)
    render = voice.renderer("zh", currency="usd")
    untold = {reason.key for reason in answered.reasons() if not HAN.search(render(reason))}
    for option in answered.options():
        text: OptionText = voice.option_text(option, answered.workload, "zh")
        for kind in ("memory", "time", "cost"):
            untold |= {f"{kind}_{term.name}" for term in getattr(text, kind) if not HAN.search(term.label)}
    where = f"explain/data/families/{answered.family}.toml" if is_worded(answered.family) else f"the words of {answered.family}"
    assert not untold, f"{where} lacks {', '.join(sorted(untold))}"


@every_family
@pytest.mark.parametrize("lang", LANGS)
def test_its_answers_are_drawn_with_no_field_left_open(answered: Answers, lang: Lang) -> None:
    skip_without_words(answered.family)
    sheets = [
        plan_sheet(answered.plan, lang, everything=True),
        estimate_sheet(answered.estimate, lang, everything=True),
        *(verdict_sheet(verdict, lang, everything=True) for verdict in answered.verdicts),
        *(option_card(option, answered.workload, lang) for option in answered.options()),
    ]
    lines = [line for sheet in sheets for line in texts_of(sheet)]
    assert len(lines) > 40
    assert not [line for line in lines if re.search(r"[{}]|\bnan\b", line)]
    assert answered.plan.to_html(lang)
    assert knobs(answered.plan)


def texts_of(value: Any) -> Iterator[str]:
    """Every text of a sheet."""
    if isinstance(value, str):
        yield value
    elif dataclasses.is_dataclass(value):
        yield from (text for field in dataclasses.fields(value) for text in texts_of(getattr(value, field.name)))
    elif isinstance(value, (list, tuple)):
        yield from (text for item in value for text in texts_of(item))


#: What puts the answers of one family in words may know it; it is loaded for that family alone.
WORDING = ("explain/family_text.py",)
ASKS = re.compile(r"rightfit\.families\.(?!registry\b)\w+|\btask (?:not )?in \(")


@pytest.mark.parametrize("room", ["planner", "explain", "cli", "rest", "web", "mcp"])
def test_no_verb_and_no_face_asks_for_the_kind_of_work(room: str) -> None:
    home = Path(rightfit.__file__).parent
    asked = {
        f"{path.relative_to(home)}: {found[0]}" for path in (home / room).rglob("*.py") for found in ASKS.finditer(path.read_text("utf-8"))
    }
    assert not {line for line in asked if not line.startswith(WORDING)}


def test_a_rate_is_told_by_what_passes_in_a_second() -> None:
    assert figure_text("bytes_per_s", 2e6, "en") == "2 MB"
    assert figure_text("rows_per_s", 500.0, "en") == "500"
    assert figure_text("total_time_s", 120.0, "en") == "2 min"
    assert figure_text("total_usd", 3.0, "en") == "$3.00"


def test_a_family_without_words_is_told_in_a_line() -> None:
    line = "explain/data/families/no-such.toml is missing: it words outcome, setup, speed and the family's own reasons"
    assert lacking("no-such") == line
    with pytest.raises(rightfit.errors.UnavailableError, match=re.escape(line)):
        FamilyWords("no-such")
    assert not has("families/no-such.outcome")
