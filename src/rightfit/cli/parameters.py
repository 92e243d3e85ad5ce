"""Parameters of commands, made from the option table of workloads so that the command line cannot
drift from the library."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

from rightfit.cli.declared import PLAIN, Declared, Looks, given, help_lang, help_text, made, option
from rightfit.cli.output import Format, View, note
from rightfit.errors import InputError
from rightfit.explain.messages import default_lang, label
from rightfit.messages import Lang, Message
from rightfit.workload.options import OPTIONS, RequestOption
from rightfit.workload.vocabulary import CLOUDS, Vocabulary

if TYPE_CHECKING:
    import click

    from rightfit.spread.pieces import Done

FORMATS = Vocabulary(
    tuple(form.value for form in Format), {"md": "markdown", "yml": "yaml", "htm": "html", "text": "table", "txt": "table"}
)
LANGS = Vocabulary(("en", "zh"), {"english": "en", "chinese": "zh", "cn": "zh", "zh-cn": "zh", "中文": "zh", "英文": "en"})
#: The options that matter to most wishes: --help starts with them.
FIRST_OPTIONS = ("task", "method", "data", "rate", "deadline", "budget", "cloud", "gpu")
Runs = Annotated[
    str | None,
    option(
        "--runs",
        help="Correct predictions with your own runs: a folder of run records, a file, a store, a server URL, or mine.",
        metavar="DIR",
        show_default=False,
    ),
]
_GROUPS: Mapping[str, tuple[str, ...]] = {
    "Goal": ("epochs", "confidence", "objective", "currency"),
    "Training": (
        *("seq_len", "global_batch", "micro_batch", "optimizer", "lora_rank", "lora_targets", "recompute", "attention"),
        *("pipeline_parallel", "sharding", "offload", "update", "rollout", "completions", "reward_model"),
        *("storage", "data_location", "decode", "workers"),
    ),
    "Serving": (
        *("rate", "users", "think", "input_tokens", "output_tokens", "trace", "profile", "ttft", "tpot", "latency", "percentile"),
        *("api_price", "prefix_share", "cached_tokens", "cache_hits", "adapters", "adapter_rank", "beside", "slice", "fleet"),
        *("speculative", "draft_tokens", "acceptance", "kv_cache", "kv_offload", "gpu_memory_utilization"),
    ),
    "Images, audio and video": ("input_shape", "image_size", "frames", "images", "denoise_steps", "audio_length", "latents"),
    "Tables and data preparation": ("columns", "library", "trees", "depth", "settings", "operation"),
    "Where and how to rent": (
        "cloud",
        "region",
        "country",
        "residency",
        "sellers",
        "purchase",
        "gpu",
        "avoid",
        "num_gpus",
        "max_nodes",
        "quota",
        "office_hours",
    ),
}


def _complete(words: tuple[str, ...]) -> Callable[[str], list[str]]:
    """Shell completion of the last word of a comma-separated list."""

    def complete(incomplete: str) -> list[str]:
        head, comma, last = incomplete.rpartition(",")
        return [head + comma + word for word in words if word.startswith(last)]

    return complete


def _complete_names(load: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """The same of names that the facts know, which are read when a shell asks for them."""
    return lambda incomplete: _complete(tuple(load()))(incomplete)


def _cards() -> Iterable[str]:
    from rightfit import facts

    return facts.accelerators()


_NAMES = {"cloud": _complete_names(lambda: sorted(set(CLOUDS.values()))), "gpu": _complete_names(_cards)}


def _parameter(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _workload_parameter(wish: RequestOption) -> inspect.Parameter:
    group = next((name for name, members in _GROUPS.items() if wish.name in members), "Setup (chosen automatically if not set)")
    words = wish.vocabulary.words if wish.vocabulary else ()
    listed = wish.kind in ("words", "names", "cards")
    colon, example = ("：", "，如 ") if help_lang() == "zh" else (": ", ", e.g. ")
    meaning = help_text("parameter", wish.name, wish.help)
    told = option(
        _flag(wish.name),
        help=meaning + (colon + "|".join(words) if words and len(words) < 9 else example + help_text("example", wish.name, wish.example)),
        metavar="A,B" if listed else "WORD" if words else wish.kind.upper(),
        panel="" if wish.name in FIRST_OPTIONS else help_text("group", group, group),
        completion=_complete(words) if words else _NAMES.get(wish.name),
        show_default=False,
    )
    return _parameter(wish.name, Annotated[list[str] | None if listed else str | None, told])


def common_parameters() -> list[inspect.Parameter]:
    """The options that every command has."""
    panel = help_text("group", "Output", "Output")
    form = option(
        "--format",
        "-f",
        help="table|json|yaml|csv|markdown|html",
        metavar="WORD",
        panel=panel,
        completion=_complete(FORMATS.words),
        show_default=False,
    )
    lang = option("--lang", help="en|zh (default: from the locale)", metavar="WORD", panel=panel, completion=_complete(LANGS.words))
    top = option("--top", help="number of results to show (0: all)", metavar="N", min=0, panel=panel)
    book = option(
        "--price-book",
        help="your own prices, a TOML or CSV file (default: RIGHTFIT_PRICE_BOOK)",
        metavar="FILE",
        panel=panel,
        show_default=False,
    )
    quiet = option("--quiet", "-q", help="show only the choice", panel=panel)
    verbose = option("--verbose", "-v", help="show everything: sources, all terms, tracebacks", panel=panel)
    return [
        _parameter("format_", Annotated[str, form], "table"),
        _parameter("lang", Annotated[str | None, lang]),
        _parameter("top", Annotated[int | None, top]),
        _parameter("price_book", Annotated[str | None, book]),
        _parameter("quiet", Annotated[bool, quiet], False),
        _parameter("verbose", Annotated[bool, verbose], False),
    ]


def workload_parameters() -> list[inspect.Parameter]:
    """The options of a workload, those that matter most first; the model is an
    argument of its own."""
    names = (*FIRST_OPTIONS, *(name for name in OPTIONS if name not in (*FIRST_OPTIONS, "model")))
    return [_workload_parameter(OPTIONS[name]) for name in names]


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _behind(parameter: inspect.Parameter) -> inspect.Parameter:
    """An option of a command itself, in a panel behind those that matter most; arguments
    stay where they are."""
    declared = get_args(parameter.annotation)[1]
    if not declared.flags:
        return parameter
    panel = declared.panel or help_text("group", "Other ways to ask", "Other ways to ask")
    return _declared(parameter, panel=panel).replace(kind=inspect.Parameter.KEYWORD_ONLY)


def _declared(parameter: inspect.Parameter, **changes: Any) -> inspect.Parameter:
    """The parameter with a part of its declaration changed."""
    kind, declared = get_args(parameter.annotation)
    changed: Declared = dataclasses.replace(declared, **changes)
    return parameter.replace(annotation=Annotated[kind, changed])


def command(
    function: Callable[..., Any], *, workload: bool = False, looks: Looks = PLAIN
) -> tuple[Callable[..., Any], list[click.Parameter], str]:
    """What runs `function(..., view=, wishes=)`, its parameters with the common ones and, if asked
    for, those of a workload, and its help."""
    signature = inspect.signature(function, eval_str=True)
    all_own = [value for name, value in signature.parameters.items() if name not in ("view", "wishes")]
    own = [_translated(value, command=function.__name__) for value in all_own]
    if workload:
        own = sorted(map(_behind, own), key=lambda one: one.kind)
    shared = (workload_parameters() if workload else []) + [_translated(value) for value in common_parameters()]

    parameters = _ordered(own, shared)

    @functools.wraps(function)
    def run(**read: Any) -> Any:
        values = {parameter.name: given(parameter, read[parameter.name]) for parameter in parameters}
        arguments = {parameter.name: values[parameter.name] for parameter in all_own}
        if workload:
            arguments["wishes"] = {name: values[name] for name in OPTIONS if name in values and values[name] is not None}
        return _run(function, arguments, _view(values))

    return run, [made(parameter, looks) for parameter in parameters], _translated_help(function)


def _ordered(own: list[inspect.Parameter], shared: list[inspect.Parameter]) -> list[inspect.Parameter]:
    """Arguments, the options that matter most, those of the command itself, the rest."""
    rank = {name: place for place, name in enumerate(FIRST_OPTIONS)}
    first = sorted((one for one in shared if one.name in rank), key=lambda one: rank[one.name])
    words = [one for one in own if one.kind is not inspect.Parameter.KEYWORD_ONLY]
    return [*words, *first, *(one for one in own if one not in words), *(one for one in shared if one.name not in rank)]


def _run(function: Callable[..., Any], arguments: Mapping[str, Any], view: View) -> Any:
    """Run a command; with a price book, at its exchange rates."""
    is_new_book = is_added(arguments.get("query"))
    if is_new_book or (not view.price_book and not os.environ.get("RIGHTFIT_PRICE_BOOK")):
        return function(**arguments, view=view)
    from rightfit.search.offers import rates_of

    with rates_of(view.price_book):
        return function(**arguments, view=view)


def is_added(query: Any) -> bool:
    """Whether the words after `prices` add one: the price book that they name may be new, and its
    rates are not needed."""
    return isinstance(query, list) and query[:1] == ["add"]


def _translated(parameter: inspect.Parameter, *, command: str = "") -> inspect.Parameter:
    """The parameter with its help in the language of --help; `command_name` is looked for before
    `name`, which may be a workload's option too."""
    told = get_args(parameter.annotation)[1].help
    return _declared(parameter, help=help_text("parameter", f"{command}_{parameter.name}", help_text("parameter", parameter.name, told)))


def _translated_help(function: Callable[..., Any]) -> str:
    """The docstring; in Chinese its first sentence is replaced, the examples stay."""
    text = inspect.getdoc(function) or ""
    first, _, examples = text.partition("\n\n")
    head = help_text("command", function.__name__.rstrip("_"), first)
    return text if help_lang() == "en" else f"{head}\n\n{examples.replace('Examples:', '例：').replace('Example: ', '例：')}"


def _view(values: Mapping[str, Any]) -> View:
    lang = LANGS.find(values["lang"], kind="language", field="lang") if values["lang"] else default_lang()
    form = FORMATS.find(values["format_"], kind="format", field="format")
    shown: Lang = "zh" if lang == "zh" else "en"
    return View(
        Format(form), shown, values["top"], values["quiet"], values["verbose"], values["price_book"], is_lang_given=bool(values["lang"])
    )


def into_file(view: View, out: Path | None) -> View:
    """The view of an answer that goes to a file, in the format of its ending unless --format says
    another."""
    if out is None:
        return view
    form = view.format
    if form is Format.table:
        form = Format(FORMATS.find(out.suffix.removeprefix(".") or str(out), kind="format", field="out"))
    return dataclasses.replace(view, format=form, out=out)


# ---- What the commands over big tables share: where the work is done, how far it is, and what
# came of it.

Place = Annotated[
    str | None,
    option(
        "--on",
        help="Where to run: here, processes, ray (an existing cluster, else a new one) or ray:HOST:PORT. Results are identical.",
        metavar="PLACE",
        show_default=False,
    ),
]
AtOnce = Annotated[int | None, option("--at-once", help="Number of concurrent workers.", metavar="N", min=1, show_default=False)]
_EVERY_S = 30.0  # between lines of progress where no terminal shows a bar


def on_a_table(source: Path, out: Path | None) -> tuple[Path, Path]:
    """A table that is a file and where its answers go."""
    if str(source) == "-":
        raise InputError(Message("cli.big_table_file"), field="on")
    if out is None:
        raise InputError(Message("cli.big_table_out"), field="out")
    return source, out


@contextlib.contextmanager
def progress_of(view: View) -> Iterator[Callable[[int, int, float], None]]:
    """A bar on standard error where that is a terminal, else a line now and then."""
    if view.quiet:
        yield lambda *_: None
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import Progress

        with Progress(console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(label("status", "rows", view.lang), total=None)
            yield lambda done, total, rate: bar.update(task, completed=done, total=total)
    else:
        last = time.monotonic()

        def step(done: int, total: int, rate: float) -> None:
            nonlocal last
            if time.monotonic() - last >= _EVERY_S:
                last = time.monotonic()
                left = f"{(total - done) / max(rate, 1e-9):,.0f}"
                note(label("status", "rows_done", view.lang, done=f"{done:,}", total=f"{total:,}", rate=f"{rate:,.0f}", left=left), view)

        yield step


def say_done(done: Done, out: Path, view: View, *, what: str) -> None:
    """How many rows were predicted or planned (`what`), and what of them was there before."""
    note(label("status", what, view.lang, rows=f"{done.rows:,}", refused=f"{done.refused:,}", path=out), view)
    if done.earlier:
        note(label("status", "earlier", view.lang, rows=f"{done.earlier:,}"), view)
