"""The main job and its two companions: plan, estimate, why."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import click

from rightfit.cli.declared import argument, model_names, option
from rightfit.cli.output import Answer, View, emit, note, open_market
from rightfit.cli.parameters import AtOnce, Place, Runs, into_file, on_a_table, progress_of, say_done
from rightfit.errors import ContradictionError, InputError, RightfitError
from rightfit.explain.messages import label
from rightfit.messages import Message

if TYPE_CHECKING:
    from rightfit.cli.asking import NoModelError
    from rightfit.explain.beside.questions import Question
    from rightfit.search.answer import Plan
    from rightfit.workload.kept_files import Kept
    from rightfit.workload.model import Workload

_ALL_OPTIONS = 10_000
Model = Annotated[
    str | None,
    argument(
        help="Hugging Face ID, alias, size such as 7B, dimensions, or path to config.json.",
        metavar="MODEL",
        show_default=False,
        completion=model_names,
    ),
]
File = Annotated[
    Path | None,
    option(
        "--file",
        help="Read the workload from a YAML, TOML or JSON file (- for standard input), from trainer, launcher or server settings, or from a folder of these. Command-line options take precedence.",
        metavar="FILE",
    ),
]
Code = Annotated[
    Path | None,
    option("--code", help="Training script or folder; it is read, not run.", metavar="FOLDER", show_default=False),
]
AskWith = Annotated[
    str | None,
    option("--ask-with", help="Parse --ask with this language model (OpenAI-compatible API).", metavar="URL#MODEL", show_default=False),
]
Save = Annotated[Path | None, option("--save", help="Also save the workload to this YAML, TOML or JSON file.", metavar="FILE")]
Ask = Annotated[
    str | None, option("--ask", help="Describe the request in plain English or Chinese. Other options take precedence.", metavar="TEXT")
]
On = Annotated[str | None, option("--on", help="The server, e.g. aws/p4d.24xlarge.", metavar="PROVIDER/INSTANCE", show_default=False)]
Nodes = Annotated[int, option("--nodes", help="Number of servers.", metavar="N")]
Engine = Annotated[str, option("--engine", help="analytic, or traced (memory only; needs rightfit[trace]).", metavar="WORD")]
Simulate = Annotated[
    bool,
    option("--simulate", help="For language model serving: simulate the listed options and show simulated next to analytic percentiles."),
]
Staged = Annotated[
    bool, option("--staged", help="Show the smallest trial run that would confirm the plan, how to decide from it, and the next step.")
]
Alternatives = Annotated[
    bool, option("--alternatives", help="Also show a stronger and a cheaper model of the same family, with license and context length.")
]
Own = Annotated[bool, option("--own", help="Compare buying the best option's hardware with renting it.")]
Have = Annotated[
    str | None,
    option(
        "--have",
        help="Your own machine, e.g. 2xRTX-3090@home: plan on it and compare with the best rental.",
        metavar="MACHINE",
        show_default=False,
    ),
]
Kind = Annotated[
    str | None,
    option("--kind", help="Data type, if you have no model yet: images, text, table, audio, video.", metavar="WORD", show_default=False),
]
Goal = Annotated[
    str | None,
    option("--goal", help="What to do with the data, if you have no model yet, e.g. detection.", metavar="WORDS", show_default=False),
]
Server = Annotated[str | None, argument(help="The server, e.g. aws/g5.xlarge.", metavar="PROVIDER/INSTANCE", show_default=False)]


WishTable = Annotated[
    Path | None,
    option(
        "--table",
        help="Plan many workloads: a CSV file with plan options as columns, one workload per row; needs --out.",
        metavar="WORKLOADS.csv",
        show_default=False,
    ),
]
PlansOut = Annotated[
    Path | None,
    option(
        "--out",
        "-o",
        help="Write the answer to this file: .json (for export and why), .html, .md, .csv or .yaml; with --table, the plans as CSV.",
        metavar="FILE",
        show_default=False,
    ),
]


def plan(
    model: Model = None,
    file: File = None,
    code: Code = None,
    save: Save = None,
    simulate: Simulate = False,
    staged: Staged = False,
    own_: Own = False,
    alternatives: Alternatives = False,
    ask: Ask = None,
    ask_with: AskWith = None,
    runs: Runs = None,
    have: Have = None,
    data_kind: Kind = None,
    goal: Goal = None,
    wish_table: WishTable = None,
    plans_out: PlansOut = None,
    work_place: Place = None,
    at_once: AtOnce = None,
    *,
    view: View,
    wishes: dict[str, Any],
) -> int:
    """Rank servers for a workload.

    Examples:

    rightfit plan meta-llama/Meta-Llama-3-8B --task finetune --method qlora --data 50Mtok

    rightfit plan 7B --method lora --data 10万条 --deadline 24h --budget 500元 --cloud 阿里云

    rightfit plan axolotl.yaml --data 50Mtok --out plan.json

    rightfit plan 7B --task serve --rate 10/s --budget 500usd

    rightfit plan 7B --method lora --data 50Mtok --have 2x4090

    rightfit plan --ask 'fine-tune Llama-3-8B with LoRA on 50k samples within 2 days, under $200'
    """
    if any(value is not None for value in (wish_table, work_place, at_once)):
        beside = {
            "file": file,
            "ask": ask,
            "save": save,
            "have": have,
            "runs": runs,
            "kind": data_kind,
            "goal": goal,
            "staged": staged,
            "alternatives": alternatives,
        }
        return _of_table(wish_table, plans_out, on=work_place, workers=at_once, model=model, wishes=wishes, beside=beside, view=view)
    view = into_file(view, plans_out)
    if ask and (typed := _typed(ask, model, file, wishes, view)) is not None:
        ask, (model, wishes) = None, typed
    sentence = ask or ""
    if ask:
        from rightfit.cli.asking import in_words_of

        view = in_words_of(ask, view)
        if _answers_question(ask, file, wishes, view):
            return 0
        from rightfit.explain.beside.settled import settle

        asked_for = settle(ask, open_market(view), {"model": model, **wishes})
        ask, wishes = asked_for.wish, {**wishes, **asked_for.chosen}
    from rightfit.cli.asking import NoModelError, SeveralPlansError, UnreadWordsError

    if have is not None and not have.strip():
        raise InputError(Message("cli.have_what"), field="have")
    model, file, wishes = read_others(model, file, code, wishes, view)
    wishes = count_data(model, wishes, view)
    if data_kind and not goal and model is not None:
        from rightfit.planner.typical import is_of_kind

        data_kind = None if is_of_kind(model, data_kind) else data_kind  # says again what the model says
    told = next((name for name, text in (("kind", data_kind), ("goal", goal)) if text), "")
    if told and (model is not None or file is not None or ask is not None):
        named = f"model {model}" if model is not None else "file" if file is not None else "ask"
        raise ContradictionError(Message("cli.wish_has_model", option=told, other=named), field=told)
    if told and wishes.get("library"):
        from rightfit.search.classical_wish import OWN_ALGORITHM

        if wishes["library"] in OWN_ALGORITHM:  # a library that is its own algorithm names the model
            model, told, wishes = wishes["library"], "", {**wishes, "library": None}
    of_a_model = {"have": have, "save": save, "runs": runs, "staged": staged, "alternatives": alternatives}
    if told and (wrong := next((name for name, value in of_a_model.items() if value), "")):
        raise ContradictionError(Message("cli.needs_a_model", option=wrong, other=told), field=wrong)
    if told:
        return _of_kind(data_kind or "", goal or "", {name: value for name, value in wishes.items() if value is not None}, view)
    given = {name: value for name, value in wishes.items() if value is not None}
    if model is None and file is None and ask is None and set(given) == {"data"} and (size := _bytes_told(given["data"])):
        return _of_data(size, view)
    unread: UnreadWordsError | None = None
    story = _story(ask, sentence, {"model": model, **wishes}, view) if ask and file is None and ask_with is None else []
    try:
        said = _said(model, file, wishes, ask=ask, ask_with=ask_with, view=view)
    except UnreadWordsError as error:
        # A person gets the plan of the rest, under the words that it leaves out; a program stops.
        if view.is_machine or not error.leaves_a_plan:
            return _nearest(sentence, given, error, view, story)
        unread, said = error, (error.wishes.pop("model", None), None, error.wishes)
    except NoModelError as error:
        if not given and _rated(sentence, view):
            return 0
        try:
            return _typical(ask or "", error, view, asked_for.questions if ask else (), story)
        except InputError as refused:
            return _nearest(sentence, given, refused, view, story)
    except SeveralPlansError as error:
        from rightfit.cli.typical import several_answer

        emit(several_answer(error.found, error.parts, view, catalog=open_market(view), questions=asked_for.questions if ask else ()), view)
        return 0
    except InputError as refused:
        if not given and _rated(sentence, view):
            return 0
        return _nearest(sentence, given, refused, view, story)
    have = have or said[2].pop("have", None)
    loose = _Loose(said[2], frozenset(said[2]) - {"data", "task", *given} if story and not view.is_machine else frozenset(), story, view)
    try:
        workload = loose.tried(lambda: _workload(*said))
    except RightfitError:
        if ask and not given and _rated(sentence, view):
            return 0
        _tell_story(story, view)
        raise
    if save is not None:
        note(label("status", "saved", view.lang, path=workload.save(save)), view)
    from rightfit import api
    from rightfit.cli.plan_view import plan_answer, with_answers
    from rightfit.planner.home_currency import in_home_currency
    from rightfit.search.sense import repeated

    catalog = open_market(view)
    asked: dict[str, Any] = {"top": _num_options(view), "simulate": simulate, "staged": staged, "runs": runs}
    try:
        with repeated(asked_for.repeated[1] if ask else 1.0):
            found: Plan = loose.tried(
                lambda: api.plan(_workload(*said) if loose.is_changed else workload, catalog=catalog, have=have or None, **asked)
            )
    except RightfitError:
        if ask and not given and _rated(sentence, view):
            return 0
        _tell_story(story, view)
        raise
    if own_:
        from rightfit.cli.commands.own import with_own

        found = with_own(found, catalog)
    unrented: list[str] = []
    if ask:
        from rightfit.explain.beside.able import is_private, less_certain, within_unsaid, without_api

        found, unrented = within_unsaid(found, catalog, view.lang, again=api.plan, is_asked=asked_for.is_able, **asked)
        if not view.is_machine and not unrented:
            found, unrented = less_certain(found, view.lang, again=lambda wish: api.plan(wish, catalog=catalog, have=have or None, **asked))
        found = without_api(found) if is_private(sentence) else found
    found = found if view.is_machine else in_home_currency(found, view.lang)
    answer = plan_answer(found, view, catalog=catalog)
    lines = asked_for.lines(found, catalog, view.lang) if ask else []
    if max(len(workload.gpu), len(workload.cloud)) > 1 and not (ask and asked_for.told):
        from rightfit.explain.beside.also_named import other_card_lines

        lines += other_card_lines(found, catalog, view.lang)
    if ask:
        lines = [*_general(sentence, lines, view), *lines]
    if unread and not story:
        lines = [label("status", "without_words", view.lang, words="; ".join(unread.words)), *lines]
    answer = with_answers(answer, [*story, *unrented, *lines])
    if own_:
        from rightfit.cli.commands.own import with_own_parts

        answer = with_own_parts(answer, found, view)
    if alternatives:
        from rightfit.cli.plan_view import with_alternatives

        answer = with_alternatives(answer, found, view, catalog=catalog)
    emit(answer, view)
    if unread and unread.turns and not (found.best and _asks(sentence)):
        raise unread
    return 0 if found.best else 1


def estimate(
    server: Server = None,
    model: Model = None,
    on: On = None,
    nodes: Nodes = 1,
    engine: Engine = "analytic",
    file: File = None,
    runs: Runs = None,
    *,
    view: View,
    wishes: dict[str, Any],
) -> int:
    """Predict a workload on one server: memory, time, cost. No search.

    Examples:

    rightfit estimate aws/p4d.24xlarge 7B --method full --data 50Mtok

    rightfit estimate 7B --on 8xH100 --method full --data 50Mtok

    --engine traced runs one step of the real PyTorch module on fake tensors, without a GPU, for
    memory alone; MODEL may then be module:function.
    """
    if on is None and model is None:  # one word is the model, as everywhere
        model = server
    else:
        on, model = _server_and_model(server, model, on)
    if engine != "analytic":
        from rightfit.cli import plan_view

        plan_view.check_engine(engine)
        emit(plan_view.trace(_workload(model, file, wishes), on=on, nodes=nodes, view=view), view)
        return 0
    if not on and len(wishes.get("gpu") or ()) == 1:
        on = wishes["gpu"][0]
    if not on:
        raise InputError(Message("cli.which_server", server="aws/p4d.24xlarge"), field="on")
    workload = _workload(model, file, wishes, on=on)
    from rightfit import api
    from rightfit.cli.plan_view import estimate_answer

    catalog = open_market(view)
    found = api.estimate(workload, on=on, nodes=nodes, catalog=catalog, runs=runs)
    emit(estimate_answer(found, view, catalog=catalog), view)
    return 0 if found.best else 1


def why(server: Server = None, model: Model = None, on: On = None, file: File = None, *, view: View, wishes: dict[str, Any]) -> int:
    """Explain why a server was or was not chosen, and the smallest change that would alter it.

    Example: rightfit why aws/g5.xlarge 7B --method qlora --data 50Mtok

    A GPU is judged by the best server that has it, a cloud by its best server:
    rightfit why gcp 7B --method qlora --data 50Mtok

    Of a saved plan, its first option: rightfit why plan.json

    The server may be given as --on aws/g5.xlarge too, as for estimate.
    """
    from rightfit import api
    from rightfit.cli.plan_view import verdict_answer
    from rightfit.workload.model import chosen_server

    server, model = _server_and_model(server, model, on)
    if model is None and file is None and (chosen := chosen_server(server)):
        server, model = chosen, server
    emit(verdict_answer(api.why(server, _workload(model, file, wishes, on=server), catalog=open_market(view)), view), view)
    return 0


def _of_table(
    table: Path | None,
    out: Path | None,
    *,
    on: str | None,
    workers: int | None,
    model: str | None,
    wishes: dict[str, Any],
    beside: dict[str, Any],
    view: View,
) -> int:
    """A plan for each row of a table."""
    if table is None:
        raise InputError(Message("cli.table_missing"), field="table")
    if wrong := next((name for name, value in beside.items() if value), ""):
        raise ContradictionError(Message("cli.table_alone", option=wrong, table=table), field=wrong)
    from rightfit import api

    source, target = on_a_table(table, out)
    given = {name: value for name, value in {**wishes, "model": model}.items() if value is not None}
    with progress_of(view) as progress:
        done = api.plan_table(source, target, on=on or "here", workers=workers, price_book=view.price_book, progress=progress, **given)
    say_done(done, target, view, what="planned")
    return 0


def _typical(sentence: str, error: NoModelError, view: View, questions: Sequence[Question], story: Sequence[str]) -> int:
    """No model named: typical ones for the kind of data, or the refusal. `story`: what was
    understood of a long post."""
    from rightfit.cli.typical import typical_answer
    from rightfit.explain.open_wishes import vague_wish
    from rightfit.planner.typical import typical_rows
    from rightfit.units import parse_bytes

    rows = typical_rows(sentence, error.found.kind, str(error.wishes.get("task", "")))
    words = error.found.weighty if rows else ()
    if words and (view.is_machine or error.found.turns()):  # usual models would be those of another wish
        raise InputError(error.found.question(), field="ask")
    tables = next((str(one.fields["trained"]) for one in error.found.assumed if one.key == "workload.assumed_tables"), "")
    least = parse_bytes(tables) if tables else 0.0
    answer = typical_answer(rows, error.wishes, view, catalog=open_market(view), questions=questions, least_bytes=least)
    if answer is None:
        if (open_ := vague_wish(sentence, open_market(view), questions)) is None:
            raise error
        from rightfit.cli.commands.facts import tell_checked

        tell_checked([open_], view)
        return 0
    from rightfit.cli.plan_view import with_answers

    left = [label("status", "without_words", view.lang, words="; ".join(words))] if words else []
    emit(with_answers(answer, [*story, *left]), view)
    return 0


def _story(ask: str, sentence: str, given: Mapping[str, Any], view: View) -> list[str]:
    """What leads the answer to a long post: what was understood of it, what was left out, and the
    questions that decide; nothing of any other sentence."""
    from rightfit.explain.stories import model_lines, story_lines, told_first
    from rightfit.explain.told_prices import price_lines
    from rightfit.workload.ask import understand

    try:
        found = understand(ask)
    except RightfitError:  # it is refused where it is planned
        return []
    if not told_first(found):
        return []
    told = {**found.wishes, **{name: value for name, value in given.items() if value is not None}}
    catalog = open_market(view)
    prices = price_lines(sentence, told, catalog, view.lang)
    return [*story_lines(found, told, view.lang, prices), *model_lines(found, told, catalog, view.lang)]


_T = TypeVar("_T")


@dataclasses.dataclass
class _Loose:
    """Options that were read from the prose of a long post: one that contradicts the rest was read
    wrongly, so it is left out and said, and the rest is planned. `names` are those that may go."""

    wishes: dict[str, Any]
    names: frozenset[str]
    story: list[str]
    view: View
    is_changed: bool = False

    def tried(self, plan: Callable[[], _T]) -> _T:
        """What `plan` gives without the options that it refuses."""
        while True:
            try:
                return plan()
            except InputError as error:
                if (name := error.field or "") not in self.names or name not in self.wishes:
                    raise
                value = self.wishes.pop(name)
                self.is_changed = True
                said = {"option": name, "value": value, "why": error.text(self.view.lang)}
                self.story.append(label("status", "misread", self.view.lang, **said))


def _tell_story(story: Sequence[str], view: View) -> None:
    """What was understood of a long post, before it is refused."""
    if story:
        note("\n".join(story), view)


def _rated(sentence: str, view: View) -> bool:
    """Whether a sentence is of a kind of work that has public rates alone, which are told then."""
    from rightfit.explain.rated_work import rated_text

    told = "" if view.is_machine or not sentence else rated_text(sentence, open_market(view), view.lang)
    if told:
        emit(Answer([], [], [told]), view)
    return bool(told)


def _asks(sentence: str) -> bool:
    from rightfit.explain.nearest import asks_something

    return asks_something(sentence)


def _general(sentence: str, lines: Sequence[str], view: View) -> list[str]:
    """What is said in general: of the faults whose signs a post shows, and of a question that its
    plan does not answer."""
    from rightfit.explain.glossary import glossary, symptoms_in
    from rightfit.explain.nearest import asks_something, general_lines
    from rightfit.workload.ask.posts import is_post

    if not asks_something(sentence):
        return []
    if is_post(sentence) and (signs := symptoms_in(sentence)):
        return [str(glossary()[name][view.lang]) for name in signs]
    told = None if lines else general_lines(sentence)
    return [told[view.lang]] if told else []


def _nearest(sentence: str, given: Mapping[str, Any], refused: InputError, view: View, story: Sequence[str] = ()) -> int:
    """The nearest that is known to a question that was refused; else the refusal, with what can be
    asked. `story`: what was understood of a long post."""
    from rightfit.cli.commands.facts import tell_checked
    from rightfit.explain.nearest import askable_note, asks_something, nearest_answer

    _tell_story(story, view)
    if not sentence or given or not asks_something(sentence):
        raise refused
    if (found := nearest_answer(sentence, open_market(view))) is None:
        note(askable_note(sentence, view.lang), view)
        raise refused
    tell_checked([found], view)
    return 0


def _bytes_told(data: Any) -> float:
    """The size of data that are told by their bytes, else 0."""
    from rightfit.units import parse_bytes

    try:
        return parse_bytes(str(data))
    except RightfitError:
        return 0.0


def _of_data(size: float, view: View) -> int:
    """So many bytes of data alone: where they lie, and what to say next."""
    import dataclasses

    from rightfit.cli.typical import volume_lines
    from rightfit.planner.typical import decide

    made = decide(size, (), open_market(view))
    emit(
        Answer(dataclasses.asdict(made), [], [*volume_lines(made, view.lang, is_billed=False), label("typical", "which_kind", view.lang)]),
        view,
    )
    return 0


def _of_kind(kind: str, goal: str, wishes: dict[str, Any], view: View) -> int:
    """Typical models for a kind of data and what it is for."""
    from rightfit.cli.typical import typical_answer
    from rightfit.planner.typical import asked_rows, read_kind

    rows = asked_rows(goal, read_kind(kind) if kind else "")
    answer = typical_answer(rows, wishes, view, catalog=open_market(view))
    if answer is None:
        raise InputError(Message("cli.no_typical_model"), field="model")
    emit(answer, view)
    return 0


def _server_and_model(server: str | None, model: str | None, on: str | None) -> tuple[str, str | None]:
    """The server from --on, else the first word; with --on the first word is the model."""
    if on is None:
        if server is None:
            raise InputError(Message("cli.which_server", server="aws/g5.xlarge"), field="on")
        return server, model
    if server is not None and model is not None:
        raise ContradictionError(Message("cli.two_servers", one=on, other=server), field="on")
    return on, server


def _said(
    model: str | None, file: Path | None, wishes: dict[str, Any], *, ask: str | None, ask_with: str | None, view: View
) -> tuple[str | None, Path | None, dict[str, Any]]:
    """What was asked for: by options, in plain words, or in answer to questions when nothing was
    said at a terminal."""
    nothing = model is None and file is None and not any(value is not None for value in wishes.values())
    if ask is None and not (nothing and sys.stdin.isatty() and sys.stderr.isatty()):
        return model, file, wishes
    if ask is not None and file is not None:
        raise ContradictionError(Message("cli.ask_or_file"), field="ask")
    from rightfit.cli import asking

    if ask is not None:
        found = asking.wishes_of(ask, {"model": model, **wishes}, view, ask_with=ask_with)
    else:
        found = asking.interview(view, ask=lambda question: str(click.prompt(question, default="", show_default=False, err=True)))
    return found.pop("model", None), None, found


def _typed(ask: str, model: str | None, file: Path | None, wishes: dict[str, Any], view: View) -> tuple[str | None, dict[str, Any]] | None:
    """Model and wishes of a command that was pasted as a request; None for a sentence."""
    from rightfit.workload.kept_files import read_typed

    if file is not None or (kept := read_typed(ask)) is None:
        return None
    given = {name: value for name, value in wishes.items() if value not in (None, ()) and name != "model"}
    if not (named := model or kept.wishes.get("model")):
        raise InputError(Message("workload.command_without_model", form=", ".join(kept.forms)), field="model")
    _tell(kept, view, {"model": model, **given})
    said = {**wishes, **kept.wishes, **given}
    return named, {name: value for name, value in said.items() if name != "model"}


def _answers_question(ask: str, file: Path | None, wishes: Mapping[str, Any], view: View) -> bool:
    """Whether the sentence asks what something is or whether something holds ("what is LoRA", "does
    7B fit on a T4?") rather than for a plan; then it was answered as `check` does."""
    if file is not None or any(value is not None for value in wishes.values()):
        return False
    from rightfit.cli.commands.facts import tell_checked
    from rightfit.explain.questions import question_lookup

    found = question_lookup(ask, open_market(view))
    if found is not None:
        tell_checked([found], view)
    return found is not None


def _num_options(view: View) -> int:
    """How many options to rank: a few for people, more for programs; --top 0 asks for as
    many as there are."""
    if view.top is not None:
        return view.top or _ALL_OPTIONS
    return 10 if view.is_machine else 5


def _as_file(
    model: str | None, file: Path | None, wishes: dict[str, Any], *, with_plans: bool = False
) -> tuple[str | None, Path | None, dict[str, Any]]:
    """A file of settings (`with_plans`: also a saved plan) that stands for a model, as the file of
    the request."""
    if model is None or file is not None or not os.path.isfile(model):  # noqa: PTH113  # unlike Path.is_file it takes any name
        return model, file, wishes
    from rightfit.workload.kept_files import is_settings
    from rightfit.workload.model import saved_plan

    if not is_settings(model) and not (with_plans and saved_plan(model)):
        return model, file, wishes
    return None, Path(model), {name: value for name, value in wishes.items() if name != "model"}


def _workload(model: str | None, file: Path | None, wishes: dict[str, Any], *, on: str = "") -> Workload:
    """The request of a command; `on`: the server, whose number of GPUs a file may need."""
    from rightfit.workload.model import Workload
    from rightfit.workload.vocabulary import read_cards

    model, file, wishes = _as_file(model, file, wishes, with_plans=True)
    given = {"model": model, **wishes} if model is not None else wishes
    if file is None:
        return Workload(**given)
    if not given.get("gpu") and (cards := read_cards(on)) and cards[0] > 1:
        return Workload.from_file(file, **given, num_gpus=cards[0]).with_changes(num_gpus=None)
    return Workload.from_file(file, **given)


# ---- Files of others and training scripts at the command line: read as a request, and told what
# was found and what was not used.

_SHOWN = 12


def count_data(model: str | None, wishes: dict[str, Any], view: View) -> dict[str, Any]:
    """The wishes with an amount in place of a file of data, and a line of what was counted: by the
    tokenizer that lies in the model's folder, else by characters."""
    from rightfit.workload.data_files import counted, is_data_path

    data = wishes.get("data")
    if not isinstance(data, str) or not is_data_path(data):
        return wishes
    beside = Path(model) / "tokenizer.json" if model else None
    found = counted(data, tokenizer=beside if beside is not None and beside.is_file() else None)
    shown = {"path": data, "rows": f"{found.rows:,}", "amount": found.text}
    if not found.tokens:
        note(label("status", "counted_rows", view.lang, **shown), view)
    else:
        key = "counted_tokens" if found.how == "tokenizer" else "counted_characters"
        note(label("status", key, view.lang, **shown, low=f"{found.low:,.0f}", high=f"{found.high:,.0f}"), view)
    return {**wishes, "data": found.text}


def read_others(
    model: str | None, file: Path | None, code: Path | None, wishes: dict[str, Any], view: View
) -> tuple[str | None, Path | None, dict[str, Any]]:
    """Model, workload file and wishes with what a script or a file of another form says; options
    given beside it win."""
    if code is None and file is None and (model is None or not Path(model).exists()):
        return model, file, wishes
    from rightfit.workload.code_files import is_code, read_code
    from rightfit.workload.kept_files import read_adapter, read_kept

    if code is None:
        model, file, wishes = _as_file(model, file, wishes)
    if code is not None and (file is not None or (model is not None and is_code(model))):
        raise ContradictionError(Message("cli.code_or_file"), field="code")
    if code is None and model is not None and is_code(model):
        code, model = Path(model), None
    if code is not None:
        kept: Kept | None = read_code(code)
    else:
        kept = read_kept(file) if file is not None and str(file) != "-" else None
    if kept is None and model is not None and wishes.get("task") not in ("serve", "batch") and not wishes.get("method"):
        kept, code = read_adapter(model), Path(model)
    if kept is None:
        return model, file, wishes
    given = {name: value for name, value in wishes.items() if value not in (None, ()) and name != "model"}
    kept = kept.on(given)
    _tell(kept, view, {"model": model, **given})
    if code is None:
        return model, file, wishes
    found = {**kept.wishes, **given}
    return model or found.pop("model", None), file, {name: value for name, value in found.items() if name != "model"}


def _tell(kept: Kept, view: View, given: dict[str, Any]) -> None:
    """One line of what was found, with its place, and one of what was not used."""
    found = [
        f"{option}={value} ({where})" if where else f"{option}={value}" for option, value, where in kept.told if given.get(option) is None
    ]
    note(label("status", "kept", view.lang, form=", ".join(kept.forms), found="; ".join(found)), view)
    unused = [key for key, _ in kept.unused]
    if unused:
        more = f" +{len(unused) - _SHOWN}" if len(unused) > _SHOWN else ""
        note(label("status", "kept_unused", view.lang, keys=", ".join(unused[:_SHOWN]) + more), view)


_ROWS = 10


def fleet(
    file: Annotated[str, argument(help="The fleet: a YAML, JSON or CSV file.", metavar="FLEET", show_default=False)],
    last: Annotated[
        str | None,
        option(
            "--from",
            help="Previous plan (JSON): running workloads stay in place, the rest is replanned.",
            metavar="LAST",
            show_default=False,
        ),
    ] = None,
    seconds: Annotated[float, option("--seconds", help="Solver time limit in seconds.", metavar="S", min=0.1)] = 20.0,
    chart: Annotated[str | None, option("--chart", help="Write the calendar to this SVG file.", metavar="FILE", show_default=False)] = None,
    runs: Runs = None,
    futures: Annotated[
        int,
        option(
            "--futures", help="Test purchases against this many random scenarios of prices, demand and stock.", metavar="N", min=0, max=200
        ),
    ] = 0,
    work_place: Place = None,
    at_once: AtOnce = None,
    *,
    view: View,
) -> int:
    """Plan many jobs and services together: where and when each runs, and what to buy.

    Example: rightfit fleet fleet.yaml
    """
    from rightfit import api
    from rightfit.explain.fleet_text import parts
    from rightfit.fleets.document import rows_of

    catalog = open_market(view)
    plan = api.fleet(
        file,
        catalog=catalog if view.price_book else None,
        seconds=seconds,
        last=last,
        runs=runs,
        on=work_place,
        workers=at_once,
        futures=futures,
    )
    found = plan.to_dict()
    if chart:
        from rightfit.explain.fleet_text import calendar_svg

        Path(chart).write_text(calendar_svg(found, view.lang), encoding="utf-8")
    shown = parts(found, view.lang, most=view.limit(default=_ROWS), quiet=view.quiet, verbose=view.verbose)
    emit(Answer(found, rows_of(found), shown), view)
    return 0 if not found["unplaced"] else 1
