"""Every option of a wish for every family of work: it moves the answer or it is refused, in every
verb with the same words. The table is options.toml."""

from __future__ import annotations

import functools
import json
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from answers import planned, wishes

import rightfit
from rightfit.cli.commands.own import with_own
from rightfit.errors import InputError
from rightfit.explain.messages import json_bytes
from rightfit.explain.voices import knobs, plan_document
from rightfit.families import registry
from rightfit.market import Catalog
from rightfit.planner.plan import market_field
from rightfit.search.answer import Plan
from rightfit.search.request_checks import OF_ALL, OF_MARKET, PURPOSES
from rightfit.workload import Workload
from rightfit.workload.options import OPTIONS

TABLE: dict[str, dict[str, Any]] = tomllib.loads((Path(__file__).parents[1] / "data" / "options.toml").read_text(encoding="utf-8"))
KINDS = TABLE["kinds"]
#: What an answer repeats of the wish, and what it says of what was left open: no
#: answer to an option.
REPEATED = ("workload", "assumptions")
TRACE = "time,input_tokens,output_tokens\n" + "\n".join(f"{at * 0.1:.1f},{100 + at % 50},{20 + at % 9}" for at in range(600))


def rows_of(part: str, kind: str) -> dict[str, Any]:
    """The rows of a part of the table that hold for a kind: those of all, of its
    family, of its own."""
    return {name: value for key in ("all", kind.split("/")[0], kind) for name, value in TABLE[part].get(key, {}).items()}


def answer_to(wish: Mapping[str, Any]) -> Any:
    """The document of a plan without what it repeats of the wish."""
    document = json.loads(json_bytes(plan_document(rightfit.plan(**wish, top=1), "en")))
    for option in document["options"]:
        option["facts"].pop("assumed", None)
    return {name: part for name, part in document.items() if name not in REPEATED}


def asked_for(ask: Callable[[], Any]) -> Any:
    """The answer to a question, or how it was refused."""
    try:
        return ask()
    except InputError as error:
        return error


def refusal_of(ask: Callable[[], Any]) -> InputError | None:
    """How a question was refused, None where there is an answer."""
    found = asked_for(ask)
    return found if isinstance(found, InputError) else None


def is_about(error: InputError, *options: str) -> bool:
    """Whether one of the options is refused: one line that names it, code 2."""
    single = next((one for one in error.problems or (error,) if one.field in options), None)
    return single is not None and "\n" not in str(single) and str(single.field) in str(single) and error.exit_code == 2


def is_taken(wish: Mapping[str, Any], option: str) -> bool:
    """Whether the family of a wish says that it takes an option; what the workload itself refuses
    belongs to no family."""
    try:
        return option in registry.honours_of(Workload(**wish)).taken()
    except InputError:
        return False


def faults_of(kind: str, options: Mapping[str, Any]) -> dict[str, str]:
    """What is wrong with each option of a kind of work."""
    faults: dict[str, str] = {}
    unmoved, besides = rows_of("unmoved", kind), rows_of("beside", kind)
    plain = functools.cache(lambda names: answer_to({**KINDS[kind], **besides.get(names, {})}))
    for option, value in options.items():
        beside = besides.get(option, {})
        asked = {**KINDS[kind], **beside, option: value}
        found = asked_for(lambda asked=asked: answer_to(asked))  # type: ignore[misc]
        if not is_taken(asked, option):
            if not (isinstance(found, InputError) and is_about(found, option, *beside)):
                faults[option] = f"it is not taken, and not refused: {found}"
            continue
        moved = not isinstance(found, InputError) and found != plain(option if beside else "")
        if moved == (option in unmoved):
            faults[option] = f"{'moved' if moved else found if isinstance(found, InputError) else 'silent'}; the table says otherwise"
    return faults


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("options") / "trace.csv"
    path.write_text(TRACE, encoding="utf-8")
    return str(path)


def test_the_table_has_every_option_and_every_family() -> None:
    assert set(TABLE["options"]) == set(OPTIONS) - {"model", "task"}
    missing = set(registry.names()) - {kind.split("/")[0] for kind in KINDS}
    assert not [f"tests/data/options.toml has no wish of {family}" for family in sorted(missing)]
    assert set(OPTIONS) <= OF_ALL | OF_MARKET | set(PURPOSES)


def test_kinds_are_of_the_family_that_their_name_says() -> None:
    assert all(registry.name_of(Workload(**wish)) == kind.split("/")[0] for kind, wish in KINDS.items())


@pytest.mark.parametrize("kind", KINDS)
def test_every_option_is_honoured_or_refused(kind: str, trace: str) -> None:
    options = {name: trace if value == "@trace" else value for name, value in {**TABLE["options"], **rows_of("values", kind)}.items()}
    assert not faults_of(kind, options)


@pytest.mark.parametrize("family", registry.names())
def test_what_a_family_takes_moves_one_of_its_kinds(family: str) -> None:
    kinds = [kind for kind in KINDS if kind.split("/")[0] == family]
    taken = {option for kind in kinds for option in registry.honours_of(Workload(**KINDS[kind])).options}
    for option in taken:
        assert any(
            option not in rows_of("unmoved", kind) and option in registry.honours_of(Workload(**KINDS[kind])).options for kind in kinds
        )


# ---- the verbs agree


def asked_of_verbs(wish: Mapping[str, Any], server: str) -> dict[str, Callable[[], Any]]:
    """Every verb with a wish."""
    return {
        "plan": lambda: rightfit.plan(**wish),
        "estimate": lambda: rightfit.estimate(**wish, on=server),
        "why": lambda: rightfit.why(server, **wish),
        "field": lambda: market_field(rightfit.api.read_workload(None, wish)),
    }


@pytest.mark.parametrize("name", wishes())
def test_verbs_refuse_the_same_wish_in_the_same_words(name: str) -> None:
    wish = wishes()[name]
    family, workload = registry.settled(Workload(**wish))
    not_taken = [option for option in ("latents", "columns", "seq_len", "attention") if option not in registry.honours_of(workload).taken()]
    assert not_taken, family.name
    refused = {**wish, not_taken[0]: {"latents": "live", "attention": "eager"}.get(not_taken[0], 64)}
    errors = {verb: refusal_of(ask) for verb, ask in asked_of_verbs(refused, "aws/g5.xlarge").items()}
    assert None not in errors.values()
    assert len({str(error) for error in errors.values()}) == 1


@pytest.mark.parametrize("name", wishes())
def test_what_is_planned_is_estimated_and_judged(name: str) -> None:
    best = planned(name).best
    server = f"{best.provider}/{best.instance_type}" if best else "aws/g5.xlarge"
    for verb, ask in asked_of_verbs(wishes()[name], server).items():
        assert verb == "plan" or refusal_of(ask) is None, verb


# ---- flags that are no options of the wish


@pytest.mark.parametrize("kind", KINDS)
def test_simulation_is_played_or_refused(kind: str) -> None:
    found = asked_for(lambda: rightfit.plan(**KINDS[kind], top=1, simulate=True))
    if kind in ("serving/service", "serving/people", "serving/seeing", "serving/hearing"):
        assert "simulated" in found.best.facts
    else:
        assert isinstance(found, InputError)
        assert is_about(found, "simulate")


@pytest.mark.parametrize("kind", KINDS)
def test_top_nodes_and_own_are_honoured_or_refused(kind: str, catalog: Catalog) -> None:
    wish = KINDS[kind]
    plan = rightfit.plan(**wish, top=2, catalog=catalog)
    best = plan.best
    assert 1 <= len(plan.options) <= 2
    assert best is not None
    estimates = [rightfit.estimate(**wish, on=f"{best.provider}/{best.instance_type}", nodes=nodes, catalog=catalog) for nodes in (1, 3)]
    assert [shown(one) for one in estimates[:1]] != [shown(one) for one in estimates[1:]]
    if best.accelerator.name:
        assert any(section.name == "own" for section in with_own(plan, catalog).sections)
    else:
        error = refusal_of(lambda: with_own(plan, catalog))
        assert error is not None
        assert is_about(error, "own")


def shown(plan: Plan) -> Any:
    """What an estimate says of its server."""
    document = json.loads(json_bytes(plan_document(plan, "en")))
    return document["options"], document.get("unfit"), document["rejected"]


# ---- values that would say nothing, and what a plan offers to turn


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({"model": "stable-diffusion-1.5", "data": "10kimages", "decode": "dali"}, "decode dali contradicts latents cached"),
        (
            {"model": "resnet50", "task": "finetune", "data": "10kimages", "lora_rank": 8},
            "lora_rank contradicts model resnet50: it is trained with full",
        ),
        ({"model": "7B", "task": "train", "lora_rank": 8}, "lora_rank contradicts task train, which trains all weights"),
        (
            {"model": "k-means", "data": "1Mrows x 10cols", "settings": "quickly"},
            "settings: 'quickly' has no algorithm setting",
        ),
        ({"operation": "resize", "data": "1Mimages", "settings": "csv"}, "settings csv contradicts operation resize-images"),
        ({"model": "random-forest", "task": "serve", "columns": 30, "precision": "fp16"}, "precision fp16 contradicts model random-forest"),
        ({"model": "k-means", "data": "1Mrows x 10cols", "trees": 5, "depth": 2}, "trees contradicts model k-means: it has no trees"),
    ],
)
def test_a_value_that_says_nothing_is_refused(wish: dict[str, Any], words: str) -> None:
    error = refusal_of(lambda: rightfit.plan(**wish, top=1))
    assert error is not None
    assert words in str(error)
    assert str(error.field) in words


def test_a_rank_without_a_method_means_an_adapter() -> None:
    wish = {"model": "vit_base_patch16_224", "task": "finetune", "data": "10kimages"}
    found = [rightfit.plan(**wish, **more, top=1).best for more in ({}, {"lora_rank": 8})]
    assert [option.layout.method for option in found if option] == ["full", "lora"]


def test_iterations_in_words_are_those_of_the_algorithm() -> None:
    wish = {"model": "k-means", "data": "50Mrows x 10cols", "purchase": "on-demand"}
    found = [rightfit.estimate(**wish, settings=settings, on="aws/m7i.8xlarge").best for settings in ("50 iterations", "100 iterations")]
    times = [option.estimate["total_time_s"].mid for option in found if option]
    assert times[1] > times[0]


def test_words_that_ask_for_nothing_hold_everywhere() -> None:
    assert rightfit.plan(model="bert-base-uncased", task="serve", rate="10/s", offload="none", tensor_parallel=1, top=1).best


@pytest.mark.parametrize("name", wishes())
def test_a_plan_offers_to_turn_what_its_family_takes(name: str) -> None:
    taken = registry.honours_of(planned(name).workload).taken()
    assert {knob.option for knob in knobs(planned(name))} <= taken
