"""From what the user typed to one model record, and to the repository whose weights it means: names
however spelt, files, sizes, dimensions, hub ids. Never a silent guess."""

from __future__ import annotations

import dataclasses
import functools
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rightfit import reach, units
from rightfit.errors import AmbiguousNameError, InputError, NetworkError, RightfitError, UnknownNameError
from rightfit.facts import bundled, tables
from rightfit.facts.bundled import IndexEntry
from rightfit.facts.engine_releases import ModelClass, model_class, numbers
from rightfit.facts.records import Model, OtherModel, TransformerArchitecture
from rightfit.messages import Message

_HUB_ID = re.compile(r"(?:(?i:ms|modelscope|hf):)?[A-Za-z0-9][\w.-]{0,95}/[\w.-]{1,95}")
# Where a repository is looked at, or a word for the hub that has it.
_HUB_MARKS = re.compile(
    r"(?i)(?:hf|ms|modelscope):|(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co|hf-mirror\.com|modelscope\.cn/models)/"
)
_MODELSCOPE = re.compile(r"(?i)(?:ms|modelscope):|.*modelscope\.cn/")
# Owner and name. A number behind the slash is a patch size ("vit-b/16"), no repository.
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/(?!\d+$)[\w.-]{1,95}")
_PATH_MARKS = ("./", "../", "~/", "/", ".\\", "..\\")
_SHAPE = (
    "num_layers",
    "hidden_size",
    "num_heads",
    "num_kv_heads",
    "head_dim",
    "intermediate_size",
    "vocab_size",
    "tied_embeddings",
    "num_experts",
    "params_total",
)
MODEL_FORMS = Message("names.model_forms")
CLIENT_MODEL_FORMS = Message("names.client_model_forms")
#: Files that make a folder one of a model (rightfit.facts.hub reads them).
FOLDER_FILES = ("config.json", "model_index.json", "adapter_config.json")
_OWN_MARKS = (".onnx", ".safetensors", ".safetensors.index.json", "]")
_OWN_SIGNS = (":", "/", "\\")


class Resolution(NamedTuple):
    """A record and how it was found: name, alias, spelling, file, hub, size or dimensions."""

    record: Model
    how: str
    query: str


def model(text: str, *, network: bool = True, field: str = "model") -> Model:
    """The model that `text` means; see `resolve_model`. A refusal names the option `field` that
    the text came from."""
    try:
        return resolve_model(text, network=network).record
    except InputError as error:
        error.field = error.field or field
        raise


def resolve_model(text: str, *, network: bool = True) -> Resolution:
    """The model that `text` means, and how that was found.

    In this order: bundled name or alias; a model of one's own (.onnx, .safetensors,
    module:function); path to a config.json or folder; dimensions ("layers=32,hidden=4096,..."); a
    bare parameter count ("7B"); a name spelt otherwise ("Llama 3 8B instruct"); a hub id that is
    not bundled, through the network when `network`. Raises UnknownNameError with the nearest names,
    AmbiguousNameError when several fit, FileInputError, NetworkError.
    """
    query = text.strip()
    if not query or len(query) > 4096 or "\x00" in query:
        raise UnknownNameError("model", query[:80].replace("\x00", ""), allowed=MODEL_FORMS)
    if entry := bundled.exact_names().get(query.casefold()):
        return Resolution(_as_asked(entry, query), "name" if entry.name == query else "alias", query)
    if (usual := usual_model(query)) and (entry := bundled.exact_names().get(usual.casefold())):
        return Resolution(bundled.load(entry), "usual", query)
    if own_reference(query):
        from rightfit.facts.own.models import own_model

        return Resolution(own_model(query), "file", query)
    if path := existing_path(query):
        from rightfit.facts.hub import read_folder

        found = read_folder(path, model)
        named = dataclasses.replace(found, name=query) if getattr(found, "certainty", "") == "config" else found
        return Resolution(_remembered(query, named), "file", query)
    from rightfit.facts import dimensions  # here, because a bundled name does not need it

    if "=" in query:
        return Resolution(dimensions.given_architecture(query), "dimensions", query)
    if (size := dimensions.parameter_count(query)) is not None:
        return Resolution(dimensions.typical_architecture(size), "size", query)
    if (counts := dimensions.mixture_counts(query)) is not None:
        return Resolution(dimensions.typical_mixture(*counts), "size", query)
    refuse_kind_of_work(query)
    sized = known_by_size(query)
    if not sized and (entry := _loose_entry(query)):
        return Resolution(_as_asked(entry, query), "spelling", query)
    if maker := closed_model(query):
        raise InputError(
            Message("facts.closed_model", model=query[:80], maker=maker),
            field="model",
        )
    close = (*nearest_models(query), *_mixture_size(query))
    if network and not reach.is_closed() and _HUB_ID.fullmatch(query):
        from rightfit.facts import hub

        try:
            return Resolution(_remembered(query, hub.fetch_architecture(query, nearest=close)), "hub", query)
        except NetworkError:
            if not sized:
                raise
    if sized:
        raise InputError(_size_only(sized), field="model")
    raise UnknownNameError("model", query, nearest=close, allowed="" if close else MODEL_FORMS)


#: Records that were read from configurations in this process, by what they were asked for.
_READ: dict[str, Model] = {}


def _remembered(query: str, record: Model) -> Model:
    """The record, kept by its name and by what was asked for, so that its work is told from it and
    never from the words of those; a bundled one is known by its name already."""
    if getattr(record, "certainty", "exact") == "exact":
        _READ.pop(query, None)  # another model may have lain in the folder before
        return record
    _READ[query] = _READ[record.name] = record
    return record


def read_record(name: str) -> Model | None:
    """The record that a name was read as from a configuration in this process; None for any
    other."""
    return _READ.get(name)


def spoken(name: str) -> str:
    """The words that may be taken from a name: of a model read from a configuration its type, never
    the name of its folder or repository."""
    found = _READ.get(name)
    return name if found is None else str(getattr(found, "family", "")) or "network"


def _as_asked(entry: IndexEntry, query: str) -> Model:
    """The record of an entry, with what the checkpoint that borrows its shape has otherwise:
    context, steps (facts/data/alias_differences.csv)."""
    record, differences = bundled.load(entry), _differences()
    if differences.keys().isdisjoint(entry.aliases):
        return record
    repository = _repository(query) or (_meant(tables.base_name(query), entry) if _is_path(entry.name) else "")
    return dataclasses.replace(record, **differences.get(repository, {}))


@functools.cache
def _differences() -> Mapping[str, Mapping[str, Any]]:
    """Repository -> field -> value."""
    found: dict[str, dict[str, int]] = {}
    for row in tables.table("alias_differences"):
        found.setdefault(row["alias"], {})[row["field"]] = int(row["value"])
    return found


def resolve_offline(text: str) -> Resolution | None:
    """What a name means without network and without opening a model of one's own; None where
    that is not known."""
    try:
        return None if own_reference(text) else resolve_model(text, network=False)
    except (RightfitError, OSError, ValueError):
        return None


def chat_template(repository: str) -> Mapping[str, str]:
    """LLaMA-Factory's row of a model (facts/data/chat_templates.csv), whoever publishes it: the
    name of its chat template, and whether that has images; empty where it has none."""
    return next((row for row in tables.table("chat_templates") if _bare(row["repository"]) == _bare(repository)), {})


def _bare(repository: str) -> str:
    return repository.casefold().rpartition("/")[2].removeprefix("meta-")


_TEXT_WORKS = ("decoder", "encoder", "embedding", "vlm")


@functools.lru_cache(maxsize=1024)
def is_beside_weights(model: str) -> bool:
    """Whether no release of Transformers has the class of a model, whose own code would have to
    run."""
    known = _class_of(model)
    return known is not None and bool(known.architecture) and not known.transformers


def _class_of(model: str) -> ModelClass | None:
    found = resolve_offline(model)
    return model_class(*(name for name in (hub_repository(model, found), str(found.record.name) if found else "") if "/" in name))


EXPERTS_APART = "4.57.1"
"""The last Transformers in use that keeps experts as layers, which 4-bit bases are packed by."""


@functools.lru_cache(maxsize=1024)
def stacks_experts(model: str) -> bool:
    """Whether a model has experts, and only a Transformers that keeps them as stacked weights has
    its class."""
    found, known = resolve_offline(model), _class_of(model)
    return (
        getattr(found and found.record, "num_experts", 0) > 1 and known is not None and numbers(known.transformers) > numbers(EXPERTS_APART)
    )


def has_program(task: str, model: str, work: str, method: str, *, vendor: str, spread: str = "ddp") -> bool:
    """Whether a target of `rightfit export` runs such work (facts/data/programs.csv): its task, the
    model's name (with lists of facts/data/words/setup.csv), the kind of work or the engine, the
    method, the vendor of the GPUs, and how the model is spread over them (the sharding, or
    "offload"). Nothing of ours trains a class whose code lies beside the
    weights."""
    if task in ("train", "finetune") and work in _TEXT_WORKS and is_beside_weights(model):
        return False
    if work == "vlm" and method == "qlora" and stacks_experts(model):  # what packs them trains on text alone
        return False
    return any(
        task in row["tasks"].split("|")
        and work in row["work"].split("|")
        and method in row["methods"].split("|")
        and tables.shape("setup", row["models"]).match(model.casefold())
        and row["vendor"] in ("", vendor)
        and (not row["spread"] or spread in row["spread"].split("|"))
        for row in tables.table("programs")
    )


def hub_repository(text: str, found: Resolution | None) -> str:
    """The repository on the hub whose weights a name means, found as `found` (None: by no means
    offline); "" where that has none.

    A name with its owner is that repository, whichever record lends it its shape; the index settles
    its letter case. A common name means the repository of the index that has its words: the
    record's own before those that borrow its shape.
    """
    query = text.strip()
    if found and found.how in ("file", "dimensions", "size"):
        return ""
    entry = bundled.exact_names().get(found.record.name.casefold()) if found else None
    asked = query[mark.end() :] if (mark := _HUB_MARKS.match(query)) else query
    if is_repository(asked):
        same = _same_name(asked, entry) if entry and _MODELSCOPE.match(query) else ""
        return _repository(asked) or same or asked
    if entry is None or not _is_path(entry.name) or (_is_path(asked) and asked.casefold() not in bundled.exact_names()):
        return ""  # nothing is fetched, or from a folder that is not on this machine
    return _meant(query, entry)


def _is_path(text: str) -> bool:
    """Whether a text is written as names with slashes between them."""
    return "/" in text and " " not in text


def is_repository(text: str) -> bool:
    """Whether a text is written as owner and name of a repository."""
    return _REPOSITORY.fullmatch(text) is not None


def _repository(text: str) -> str:
    """A repository of the index as it is written, by any spelling of its case; "" for others."""
    entry = bundled.exact_names().get(text.casefold())
    return next((name for name in _repositories_of(entry) if name.casefold() == text.casefold()), "") if entry else ""


def _repositories_of(entry: IndexEntry) -> list[str]:
    """The repository of a record, and those that borrow its shape."""
    return [name for name in (entry.name, *entry.aliases) if is_repository(name)]


def _same_name(asked: str, entry: IndexEntry) -> str:
    """The hub's repository of a checkpoint that ModelScope has under another owner
    ("LLM-Research/Meta-Llama-3-8B-Instruct")."""
    wanted = tables.base_name(asked).casefold()
    return next((name for name in _repositories_of(entry) if tables.base_name(name).casefold() == wanted), "")


def _meant(query: str, entry: IndexEntry) -> str:
    """The repository of a common name that means `entry`."""
    told = next((row["repository"] for row in tables.table("common_names") if row["name"] == query.casefold()), "")
    known = [] if entry.family == "vision" else _repositories_of(entry)  # image classifiers: owners hold the weights that timm has as well
    words = tables.tokens(_in_latin(query))
    named = {name: tables.tokens(tables.base_name(name)) for name in known}
    wanted, answers = set(tables.without_noise(words)), bool(tables.ANSWERING & set(words))
    holding = [name for name in known if wanted <= set(tables.without_noise(named[name]))]
    asked = set(words)

    def farness(name: str) -> tuple[bool, bool, int, bool, int]:
        """Other words than asked for (SmolLM2 is no SmolLM), another stage, fewer of the words."""
        own = set(named[name])
        others = bool(set(tables.without_noise(named[name])) - wanted - {"base"})
        return others, answers and not tables.ANSWERING & own, -len(asked & own), name != entry.name, len(named[name])

    holding.sort(key=farness)
    return told or next((name for name in known if named[name] == words), "") or next(iter(holding), entry.name)


def refuse_kind_of_work(text: str) -> None:
    """A kind of work ("CNN") is never a checkpoint: InputError with the usual models of it."""
    kind = tables.senses("names", "kind_of_work").get(" ".join(text.casefold().replace("-", " ").split()))
    if kind is not None:
        rows = [row for row in tables.table("typical_models") if row["kind"] == kind] or tables.table("typical_models")[:3]
        models = ", ".join(dict.fromkeys(row["model"] for row in rows))
        raise InputError(Message("facts.kind_of_work", kind=text, models=models), field="model")


def usual_model(text: str) -> str:
    """The model that is usually meant by a name of several ("Stable Diffusion", "whisper"): its
    bundled name; empty for every other name."""
    folded = " ".join(text.casefold().replace("_", " ").replace("-", " ").split())
    return next((row["model"] for row in tables.table("usual_models") if row["name"] == folded), "")


def is_relative(text: str) -> bool:
    """Whether what `usual_model` gives is a relative that stands in for a network nobody read."""
    folded = " ".join(text.casefold().replace("_", " ").replace("-", " ").split())
    return any(row["name"] == folded and row["source"].startswith("relative") for row in tables.table("usual_models"))


def closed_model(text: str) -> str:
    """Who sells a model whose weights are not published ("gpt-4o"); empty for every other name."""
    name = text.strip().rpartition("/")[2].casefold()
    return next((row["maker"] for row in tables.table("closed_models") if re.fullmatch(row["pattern"], name)), "")


@functools.cache
def _sizes() -> Mapping[str, Mapping[str, str]]:
    """Checkpoints whose dimensions nobody read, by whole and by bare name."""
    rows = tables.table("checkpoints_by_size")
    return {name.casefold(): row for row in rows for name in (tables.base_name(row["name"]), row["name"])}


def known_by_size(text: str) -> Mapping[str, str]:
    """What was published of a checkpoint of which only the size is known; empty for every
    other name."""
    return _sizes().get(text.strip().casefold(), {})


def _size_only(row: Mapping[str, str]) -> Message:
    sizes = [units.format_count(float(row[name])) for name in ("params_total", "params_active") if row[name]] or ["?"]
    example = "7B" if sizes == ["?"] else "-A".join(dict.fromkeys(size.replace(" ", "") for size in sizes))
    return Message("facts.size_only", model=row["name"], size=" / ".join(sizes), format=row["format"], example=example)


def _mixture_size(query: str) -> tuple[str, ...]:
    """The sizes in the name of a mixture that nobody knows ("Foo-310B-A19B"), by which it can be
    planned; empty where there are none."""
    from rightfit.facts.dimensions import MIXTURE

    found = MIXTURE.search(query)
    return (found[0].upper(),) if found else ()


def own_reference(query: str) -> bool:
    """Whether `query` means a model of the user's own (rightfit.facts.own), told without importing
    that where it cannot be."""
    if not (query.casefold().endswith(_OWN_MARKS) or any(mark in query for mark in _OWN_SIGNS)):
        return False
    from rightfit.facts.own.reference import is_named_so, is_own

    if reach.is_closed():
        return _refused_to_clients(query, is_named_so(query))
    return is_own(query)


def _refused_to_clients(query: str, is_file: bool) -> bool:
    """A file or code that the client of a server names is as good as not there; nothing is
    looked up to find out."""
    if is_file:
        raise UnknownNameError("model", query, allowed=CLIENT_MODEL_FORMS, field="model")
    return False


def existing_path(query: str) -> Path | None:
    """The path that `query` is, when it looks like one or exists. One that looks like a path is
    taken for it even if absent; the bare name of a GGUF file also names its checkpoint."""
    ends = (".json", ".gguf") if "/" in query else (".json",)
    looks_like_path = query.startswith(_PATH_MARKS) or query.lower().endswith(ends) or "\\" in query
    if reach.is_closed():
        _refused_to_clients(query, looks_like_path)
        return None
    path = Path(os.path.expanduser(query))  # noqa: PTH111 - leaves the text as it is where there is no home, in place of an error
    if looks_like_path:
        return path
    try:
        return path if path.is_file() or (path.is_dir() and any((path / one).is_file() for one in FOLDER_FILES)) else None
    except (OSError, ValueError):
        return None


@functools.cache
def _spellings() -> Mapping[tuple[str, ...], tuple[IndexEntry, ...]]:
    """Tokens of every name and alias, organisation left out, and the models that have them."""
    found: dict[tuple[str, ...], list[IndexEntry]] = {}
    for entry in bundled.index():
        for name in (entry.name, *entry.aliases):
            known = found.setdefault(tables.tokens(tables.base_name(name)), [])
            if entry not in known:
                known.append(entry)
    return {key: tuple(entries) for key, entries in found.items()}


@functools.cache
def _glued_spellings() -> Mapping[str, tuple[IndexEntry, ...]]:
    """The same without boundaries between words: "gptj 6b" is "gpt-j-6b"."""
    found: dict[str, tuple[IndexEntry, ...]] = {}
    for words, entries in _spellings().items():
        found["".join(words)] = tuple(dict.fromkeys((*found.get("".join(words), ()), *entries)))
    return found


def _loose_entry(query: str) -> IndexEntry | None:
    """The bundled model whose name has the same words; an underscore between digits is a decimal
    point ("1_8B") or else a blank."""
    bare = tables.base_name(_in_latin(query))
    found = _entry_of_words(query, tables.tokens(bare))
    if found is None and "_" in bare:
        found = _entry_of_words(query, tables.tokens(bare.replace("_", " ")))
    return found


def _in_latin(query: str) -> str:
    """Chinese names of model families as the records write them."""
    if query.isascii():
        return query
    for row in tables.table("chinese_names"):
        query = query.replace(row["chinese"], f"{row['name']} ")
    return query


def _entry_of_words(query: str, words: tuple[str, ...]) -> IndexEntry | None:
    """The model with all of these words, or all that matter, or (without an
    organisation) at least these."""
    if not words:
        return None
    if same := _spellings().get(words):
        return _only(query, same)
    if glued := _glued_spellings().get("".join(words)):
        return _only(query, glued)
    wanted = tables.without_noise(words)
    holding = [(key, entries) for key, entries in _spellings().items() if set(wanted) <= set(key)]
    same_core = [entry for key, entries in holding if tables.without_noise(key) == wanted for entry in entries]
    if same_core:
        return _only(query, same_core)
    if "/" in query or not holding:
        return None
    return _only(query, [entry for _, entries in sorted(holding, key=lambda item: len(item[0])) for entry in entries])


def _only(query: str, entries: Iterable[IndexEntry]) -> IndexEntry:
    """The one model among `entries`. Several are one when their shapes are the same (Llama 3 and
    3.1); the longest context stands for them."""
    unique = list(dict.fromkeys(entries))
    if len(unique) == 1:
        return unique[0]
    if len({_shape(entry) for entry in unique[:40]}) > 1:
        raise AmbiguousNameError("model", query, [entry.name for entry in unique])
    return max(unique, key=lambda entry: getattr(bundled.load(entry), "max_position", 0))


def _shape(entry: IndexEntry) -> tuple[object, ...]:
    if entry.family != "transformer":
        return (entry.name,)
    record = bundled.load(entry)
    assert isinstance(record, TransformerArchitecture)
    return tuple(getattr(record, name) for name in _SHAPE)


@functools.cache
def _owners(bare: bool) -> Mapping[str, str]:
    """Names and aliases, without their organisation when `bare`, and the model of each."""
    names = ((text, entry.name) for entry in bundled.index() for text in (entry.name, *entry.aliases))
    return {tables.base_name(text) if bare else text: name for text, name in names}


def nearest_models(text: str, *, count: int = 3) -> tuple[str, ...]:
    """Names of the bundled models most like `text`. An organisation in `text` is not compared:
    mirrors have many."""
    owners = _owners(bare="/" in text)
    close = tables.nearest(tables.base_name(text), owners, count=3 * count)
    return tuple(dict.fromkeys(owners[name] for name in close))[:count]


def search_models(query: str = "", kind: str | None = None) -> list[Model]:
    """Bundled models whose name, aliases or family hold all words of `query`, nearest
    spelling when none does; those that are called so first.

    `kind` keeps one family of records (transformer, vision, diffusion, other) or one transformer
    kind (decoder, encoder, vlm ...).
    """
    words = tables.tokens(query)
    found = [entry for entry in bundled.index() if _holds(entry, words)]
    if not found and words:
        names = nearest_models(query, count=10)
        found = [entry for entry in bundled.index() if entry.name in names]
    found.sort(key=lambda entry: _farness(entry, query))
    if words and not (found and _farness(found[0], query) == 0) and (meant := _meant_entry(query)):
        found = [meant, *(entry for entry in found if entry is not meant)]
    records: list[Model] = [bundled.load(entry) for entry in found if kind not in bundled.FAMILIES or entry.family == kind]
    sized = [
        _sized_record(row) for row in tables.table("checkpoints_by_size") if words and all(word in row["name"].casefold() for word in words)
    ]
    if known_by_size(query):
        records = [*sorted(sized, key=lambda one: one.name != known_by_size(query)["name"]), *records]
    elif kind in (None, "other"):
        records += sized
    return [record for record in records if kind is None or kind in bundled.FAMILIES or getattr(record, "kind", "") == kind]


def _meant_entry(query: str) -> IndexEntry | None:
    """The record that a plan would take for a name, such as that of a quantised checkpoint."""
    found = resolve_offline(query)
    return bundled.exact_names().get(found.record.name.casefold()) if found and found.how in ("alias", "usual", "spelling") else None


def _sized_record(row: Mapping[str, str]) -> OtherModel:
    """What the list of models shows of a checkpoint that is known by its size only."""
    params = int(row["params_total"] or 0)
    return OtherModel(row["name"], "", "known by size only", params, params, 0, 0.0, 0.0, "", row["source"], config=row["format"])


def _farness(entry: IndexEntry, query: str) -> int:
    """How far a query is from a model's names: 0 one of them, 1 its beginning up to a dash (llama-3
    of llama-3-8b), 2 up to a point (of llama-3.1-8b), 3 a part of one, 4 words of several."""
    wanted = query.strip().casefold().replace(" ", "-")
    names = [name.casefold() for name in (entry.name, *entry.aliases)]
    names += [name.rpartition("/")[2] for name in names]
    if wanted in names:
        return 0
    starts = [name[len(wanted) :] for name in names if name.startswith(wanted)]
    if wanted and any(rest[0] in "-_" for rest in starts):
        return 1
    if wanted and any(rest[0] == "." for rest in starts):
        return 2
    return 3 if any(wanted in name for name in names) else 4


def _holds(entry: IndexEntry, words: tuple[str, ...]) -> bool:
    if not words:
        return True
    text = " ".join((entry.name, *entry.aliases)).casefold()
    return all(word in text for word in words)
