"""Files that people keep (settings of trainers, servers and launchers, commands) read as a wish:
what was found, where, and what was not used."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import math
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rightfit import reach
from rightfit.errors import FileInputError, InputError, RightfitError
from rightfit.messages import Message, system_problem
from rightfit.records import dataclass
from rightfit.workload import vocabulary
from rightfit.workload.folders import few_below
from rightfit.workload.options import OPTIONS, read_wish

_MAX_BYTES, _MOST_FILES, _MOST_DEPTH = 1_000_000, 200, 12
#: The longest line that continued lines and variables may make, in characters.
_MOST_JOINED = 20_000
#: Keys of launchers whose text is a script, in which variables are set.
_OF_SHELL = ("run", "setup", "commands")
_SETTINGS = (".yaml", ".yml", ".json", ".toml")
_SCRIPTS = (".sh", ".bash", ".sbatch", ".slurm", ".job", ".pbs", ".lsf", ".service")
_TEXTS = (*_SCRIPTS, ".md", ".txt", "")
_SECRETS = ("key", "token", "secret", "password")
_CONTINUED = re.compile(r"\\\s*\n")
#: A shell variable or the answer of a command, standing where a value is wanted.
_OPEN = re.compile(r"\$[({A-Za-z_@*0-9]")
_VARIABLE = re.compile(r"\$(?:(?P<plain>[A-Za-z_]\w*)|\{(?P<name>[A-Za-z_]\w*)(?P<mark>:?[-=])?(?P<usual>[^{}]*)\})")
_ASSIGNED = re.compile(r"^\s*(?:(?:export|local|readonly|declare)\s+)?(?P<name>[A-Za-z_]\w*)=(?P<value>.*)$", re.DOTALL)
#: Fields whose value may be another file of settings.
_REFERRING = ("deepspeed", "settings")
#: Fields whose option needs no value.
_YES_OR_NO = ("is_bf16", "is_fp16", "recomputes", "keeps", "flash", "uses_lora", "four_bit", "eight_bit")
_ADAPTER = "adapter_config.json"
#: Words that may stand before a command, and how many; a name of a model or a file.
_MOST_BEFORE = 8
_BEFORE = ("python", "python3", "-m", "sudo", "env", "nohup", "uv", "run", "exec")
_NAME = re.compile(r"[\w-]/[\w-]|=|^&$")
_NAMED_FILES = (".py", *_SETTINGS)
_WORDS_OF_YES = ("true", "yes", "1", "on")


@dataclass(frozen=True, slots=True)
class Kept:
    """What a file says: its `forms`, the wishes by option name, (option, value, where) of each, and
    (key, where) of what no option takes. `batch_per_gpu`: sequences of a GPU per optimizer step,
    where the file says neither the number of GPUs nor the whole batch; else 0."""

    forms: tuple[str, ...]
    wishes: Mapping[str, Any]
    told: tuple[tuple[str, str, str], ...]
    unused: tuple[tuple[str, str], ...]
    batch_per_gpu: int = 0

    def on(self, given: Mapping[str, Any]) -> Kept:
        """The same on the number of GPUs that is given beside the file: each takes its batch."""
        named = given.get("gpu")
        cards = vocabulary.read_cards(str(named[0] if isinstance(named, list | tuple) and named else named or ""))
        count = _whole(given.get("num_gpus") or (cards[0] if cards else 1))
        if self.batch_per_gpu == 0 or count < 2:
            return self
        batch = self.batch_per_gpu * count
        told = tuple((option, str(batch) if option == "global_batch" else value, where) for option, value, where in self.told)
        return dataclasses.replace(self, wishes={**self.wishes, "global_batch": batch}, told=told)


@functools.cache
def kept_words() -> Mapping[str, Any]:
    """The table data/kept.toml."""
    return MappingProxyType(tomllib.loads((vocabulary.DATA / "kept.toml").read_text(encoding="utf-8")))


class Sheet:
    """Fields that were found while files are read; the first that says a thing wins."""

    def __init__(self) -> None:
        self.forms: list[str] = []
        self.fields: dict[str, tuple[Any, str]] = {}
        self.unused: dict[str, str] = {}
        self.referred: list[tuple[str, str]] = []

    def put(self, field: str, value: Any, where: str) -> None:
        """A field, unless an earlier file said it."""
        if field == "ignored" or value is None or value == "":
            return
        if isinstance(value, str) and _OPEN.search(value):  # a variable that nothing here sets
            self.leave(f"{where.rpartition(': ')[2] if ': -' in where else field}={value}"[:80], where)
            return
        if field in _REFERRING and isinstance(value, str) and value.endswith(_SETTINGS):
            self.referred.append((value, where))
        self.fields.setdefault(field, (value, where))

    def leave(self, key: str, where: str) -> None:
        """A key that means nothing for a plan."""
        if not any(word in key.casefold() for word in _SECRETS):
            self.unused.setdefault(key, where)

    def value(self, field: str) -> Any:
        """The value of a field; None where nobody said it."""
        return self.fields.get(field, (None, ""))[0]

    def where(self, *fields: str) -> str:
        """Where the first of some fields was found."""
        return next((self.fields[field][1] for field in fields if field in self.fields), "")


def is_settings(text: str) -> bool:
    """Whether what stands for a model is a file of settings or commands that is there; JSON is a
    model's configuration."""
    return Path(text).suffix.casefold() in {*_SETTINGS, *_SCRIPTS} - {".json"} and Path(text).is_file()


def read_kept(path: Path) -> Kept | None:
    """What a file or folder of others' forms says; None for a workload file of our own."""
    reach.refuse_file(repr(str(path)[:80]))
    sheet = Sheet()
    for file in _files(path):
        text = _text(file)
        if file.suffix.casefold() in _SETTINGS:
            for values in _documents(file, text):
                read_settings(sheet, values, file.name)
        else:
            read_commands(sheet, text, file.name)
    _read_referred(sheet, path)
    if not sheet.forms and path.is_file() and (path.suffix.casefold() in _SCRIPTS or _text(path).startswith("#!")):
        known = ", ".join(dict.fromkeys(" ".join(row["words"]) for row in kept_words()["commands"]))
        raise FileInputError(Message("workload.no_known_command", name=path, names=known))
    return settled(sheet, path) if sheet.forms else None


def _read_referred(sheet: Sheet, path: Path) -> None:
    """The files of settings that a file names, where they lie beside it or in a folder above (a
    script is started from there)."""
    folder = path if path.is_dir() else path.parent
    for named, where in sheet.referred:
        if Path(named).is_absolute() or ".." in Path(named).parts or path.is_dir():
            continue
        places = [above / named for above in (folder, *list(folder.resolve().parents)[:2])]
        found = next((place for place in places if place.is_file()), None)
        if found is None:
            sheet.leave(f"{where.rpartition(': ')[2]}={named}"[:80], where)
            continue
        known = len(sheet.forms)
        for values in _documents(found, _text(found)):
            read_settings(sheet, values, found.name)
        if len(sheet.forms) == known:
            sheet.leave(f"{where.rpartition(': ')[2]}={named}"[:80], where)


def read_adapter(text: str) -> Kept | None:
    """How an adapter that is named as the model was trained; None for any other model."""
    path = Path(text)
    file = path / _ADAPTER if path.is_dir() and not (path / "config.json").exists() else path
    if file.name != _ADAPTER or not file.is_file():
        return None
    sheet = Sheet()
    for values in _documents(file, _text(file)):
        keys = {"r": "lora_rank", "target_modules": "lora_targets"}
        for key, field in keys.items():
            sheet.put(field, values.get(key), f"{file.name}: {key}")
        sheet.put("method", "dora" if values.get("use_dora") else "lora", f"{file.name}: peft_type")
        if values.get("peft_type") != "LORA" or not _whole(values.get("r")):
            return None
        for key in ("rank_pattern", "modules_to_save", "layers_to_transform"):
            if values.get(key):
                sheet.leave(key, f"{file.name}: {key}")
    sheet.forms.append("PEFT")
    kept = settled(sheet, path)
    wishes = {name: value for name, value in kept.wishes.items() if name != "task"}
    return Kept(kept.forms, wishes, tuple(one for one in kept.told if one[0] != "task"), kept.unused)


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path] if path.is_file() and path.suffix.casefold() in (*_SETTINGS, *_TEXTS) else []
    return few_below(path, (*_SETTINGS, ".sh", ".sbatch"), most=_MOST_FILES)


def _text(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            data = stream.read(_MAX_BYTES + 1)
    except OSError as error:
        raise FileInputError(Message("problems.cannot_read", name=file, error=system_problem(error))) from None
    if len(data) > _MAX_BYTES:
        raise FileInputError(Message("workload.too_large", name=file, kilobytes=_MAX_BYTES // 1000))
    return data.decode("utf-8-sig", "replace")


def _documents(file: Path, text: str) -> list[Mapping[str, Any]]:
    """Objects of a settings file; none where it is not one (that is for the reader of workload
    files to say)."""
    with contextlib.suppress(ValueError, RecursionError):
        if file.suffix.casefold() == ".json":
            found: list[Any] = [json.loads(text)]
        elif file.suffix.casefold() == ".toml":
            found = [tomllib.loads(text)]
        else:
            found = _yaml(text)
        return [one for one in found if isinstance(one, Mapping)]
    return []


def _yaml(text: str) -> list[Any]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=loader)):
            return []  # aliases can blow up, and a wish needs none
        return list(yaml.load_all(text, Loader=loader))
    except yaml.YAMLError:
        return []


# ---- Settings: keys wherever they stand.


def read_settings(sheet: Sheet, values: Mapping[str, Any], where: str) -> None:
    """The keys of one object of settings, of a form that is known."""
    form = next((one for one in kept_words()["forms"] if any(all(key in values for key in marks) for marks in one["marks"])), None)
    if form is None or (form["name"] == "vLLM" and all(key.replace("-", "_") in OPTIONS for key in values)):
        return
    sheet.forms.append(form["name"])
    sheet.put("task", form.get("task"), where)
    if form["name"] in ("Kubernetes", "llm-d", "SkyPilot", "dstack", "Docker Compose"):
        _read_launcher(sheet, values, where)
        return
    keys = kept_words()["keys"]
    for key, value in _flat(values):
        name = key.replace("-", "_")
        name = name.removeprefix("deepspeed_config.") if name not in keys else name
        field = keys.get(name) or keys.get(re.sub(r"\.\d+", "", name)) or kept_words()["leaves"].get(name.rpartition(".")[2])
        if field:
            sheet.put("cards" if field == "slurm_cards" else field, value, f"{where}: {key}")
        elif "." not in key:
            sheet.leave(key, where)


def _flat(values: Any, prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Dotted keys and their plain values; of a list of plain values the whole."""
    if isinstance(values, Mapping) and depth < _MOST_DEPTH:
        for key, value in values.items():
            yield from _flat(value, f"{prefix}.{key}" if prefix else str(key), depth + 1)
    elif isinstance(values, list) and any(isinstance(one, Mapping | list) for one in values) and depth < _MOST_DEPTH:
        for at, value in enumerate(values):
            yield from _flat(value, f"{prefix}.{at}", depth + 1)
    else:
        yield prefix, values


# ---- Launchers: machines, and the commands that they start.

_CARDS = re.compile(r"^(?P<name>[A-Za-z][\w. -]*?)(?::(?P<count>\d+))?$")


def _read_launcher(sheet: Sheet, values: Mapping[str, Any], where: str) -> None:
    words: dict[str, list[Any]] = {}
    values = _with_usual(values)
    told = {
        str(name): str(value)
        for key in ("envs", "env")
        if isinstance(values.get(key), Mapping)
        for name, value in values[key].items()
        if value not in (None, "")
    }
    images = _images(values)
    for key, value in _flat(values):
        leaf = re.sub(r"\.\d+", "", key)
        place = key.rpartition(".")[0]
        if leaf.rpartition(".")[2] in ("command", "args", "entrypoint") and (isinstance(value, list) or place in images):
            words.setdefault(place, []).extend(value if isinstance(value, list) else _words(str(value)))
        elif leaf.rpartition(".")[2] in ("run", "command", "args", "commands", "entrypoint"):
            for text in value if isinstance(value, list) else [value]:
                read_commands(sheet, str(text), f"{where}: {leaf}", told)
        elif isinstance(value, str) and value.lstrip().startswith("{") and leaf.endswith(".json"):
            for inner in _documents(Path(leaf), value):  # a file inside a ConfigMap
                read_settings(sheet, inner, f"{where}: {leaf}")
        elif isinstance(value, str) and leaf.endswith("serveConfigV2"):
            for inner in _documents(Path("serve.yaml"), value):
                read_settings(sheet, inner, f"{where}: {leaf}")
        elif leaf.endswith("accelerators"):
            for one in value if isinstance(value, list) else [value]:
                _put_cards(sheet, str(one), f"{where}: {leaf}", also=isinstance(value, list))
        elif leaf.startswith("resources.accelerators."):
            named = leaf.removeprefix("resources.accelerators.")
            _put_cards(sheet, named if value is None else f"{named}:{value}", f"{where}: resources.accelerators", also=True)
        elif leaf.endswith(("nvidia.com/gpu", "amd.com/gpu", "reservations.devices.count")) and str(value).isdigit():
            sheet.put("cards", int(value), f"{where}: {leaf}")
        elif leaf in ("num_nodes", "nodes") or leaf.endswith(("spec.numNodes", "spec.parallelism")):
            sheet.put("nodes", value, f"{where}: {leaf}")
        elif leaf.endswith("workerGroupSpecs.replicas") and isinstance(value, int):
            sheet.put("nodes", value + 1, f"{where}: {leaf}")  # its head works too
        elif leaf.endswith("use_spot"):
            sheet.put("spot", value, f"{where}: {leaf}")
        elif leaf.endswith(("resources.infra", "resources.any_of.infra", "resources.ordered.infra")):
            _put_places(sheet, str(value), f"{where}: {leaf}")
        elif leaf in ("resources.cloud", "resources.region"):
            sheet.put(leaf.rpartition(".")[2], str(value), f"{where}: {leaf}")
        elif leaf.endswith("gpu.name"):
            sheet.put("gpu", value, f"{where}: {leaf}")
        elif leaf.endswith("gke-accelerator"):
            sheet.put("gpu", str(value).removeprefix("nvidia-"), f"{where}: {leaf}")
        elif leaf.endswith(tuple(kept_words()["containers"]["other_cards"])):
            sheet.leave(f"{leaf.rpartition('.')[2].rpartition('/')[2]}={value}"[:60], f"{where}: {leaf}")
    for place in images.keys() - words.keys():
        words[place] = []
    for place, command in words.items():
        text = [str(one) for one in command]
        if place in images and not any(_starts(text, row["words"]) for row in kept_words()["commands"]):
            _read_image(sheet, *images[place], text, f"{where}: {place}")
            continue
        at = next((at for at, word in enumerate(text) if kept_words()["keys"].get(word.lstrip("-").partition("=")[0]) == "model"), -1)
        if at >= 0 and (_OPEN.search(text[at]) or any(_OPEN.search(word) for word in text[at + 1 : at + 2])):
            sheet.leave("=".join(text[at : at + 1 if "=" in text[at] else at + 2])[:80], f"{where}: {place}")
        shell = (
            text[2]
            if text[:1] and text[0].rpartition("/")[2] in ("sh", "bash") and text[1:2] == ["-c"] and len(text) > 2
            else shlex.join(text)
        )
        read_commands(sheet, shell, f"{where}: {place}")


def _images(values: Mapping[str, Any]) -> dict[str, tuple[Mapping[str, Any], dict[str, Any]]]:
    """Place of a container -> (row of its image, variables of its environment), for images whose
    entry point serves."""
    flat = {key: value for key, value in _flat(values) if not isinstance(value, list)}
    listed = {key: value for key, value in _flat(values) if key.endswith(".environment") and isinstance(value, list)}
    found = {}
    for key, value in flat.items():
        place, _, leaf = key.rpartition(".")
        row = _image(str(value)) if leaf == "image" else None
        if row is None:
            continue
        told = {
            str(flat[name]): flat.get(f"{name[:-5]}.value") for name in flat if re.fullmatch(rf"{re.escape(place)}\.env\.\d+\.name", name)
        }
        told |= {name.rpartition(".")[2]: one for name, one in flat.items() if name.startswith(f"{place}.environment.")}
        told |= dict(str(one).split("=", 1) for one in listed.get(f"{place}.environment", ()) if "=" in str(one))
        found[place] = (row, told)
    return found


def _image(name: str) -> Mapping[str, Any] | None:
    """The row of an image by its name, without its registry and tag."""
    plain = re.sub(r"[:@].*", "", name.rpartition("/")[2])
    return next((row for row in kept_words()["images"] if row["name"] == plain), None)


def _read_image(sheet: Sheet, row: Mapping[str, Any], told: Mapping[str, Any], words: Sequence[str], where: str) -> None:
    """A container that serves: the options behind its image and what its environment says."""
    sheet.forms.append(row["name"])
    sheet.put("task", "serve", where)
    sheet.put("framework", row.get("framework"), where)
    _read_options(sheet, words, where, takes_first=row.get("model") == "first")
    keys = kept_words()["keys"]
    for name, value in told.items():
        if name in row.get("settings", ()) and name.casefold() in keys:
            sheet.put(keys[name.casefold()], value, f"{where}: {name}")


def _words(text: str, *, comments: bool = False) -> list[str]:
    """The words of a command; none of one that no shell would take."""
    with contextlib.suppress(ValueError):
        return shlex.split(text, comments=comments)
    return []


def _put_cards(sheet: Sheet, text: str, where: str, *, also: bool = False) -> None:
    """A card and how many; of several that would do (`also`) all names."""
    found = _CARDS.match(text.strip())
    if found:
        known = sheet.value("gpu") if also and sheet.where("gpu") == where else None
        if known and found["name"] not in str(known).split(","):
            sheet.fields["gpu"] = (f"{known},{found['name']}", where)
        sheet.put("gpu", found["name"], where)
        sheet.put("cards", int(found["count"] or 1), where)
        if found["name"] == "gpu":  # a scheduler's word for any card
            del sheet.fields["gpu"]


def _put_places(sheet: Sheet, text: str, where: str) -> None:
    cloud, _, region = text.partition("/")
    for field, value in (("clouds", cloud), ("regions", region.partition("/")[0])):
        if value and value != "*":
            known = sheet.value(field) or []
            sheet.fields[field] = ([*known, *([value] if value not in known else [])], where)


# ---- Commands, of a script or copied from a page.


def read_commands(sheet: Sheet, text: str, where: str, told: Mapping[str, str] | None = None) -> None:
    """Every command of a text that trains or serves, with the variables that it sets itself and
    those that are told."""
    for line in text.splitlines():
        if line.lstrip().startswith("#SBATCH"):
            _read_options(sheet, line.split()[1:], where, takes_first=False)
    lines = _lines(text)
    variables = {**(told or {}), **_variables(lines, told or {})}
    for line in lines:
        if not (set_ := _ASSIGNED.match(line)) or set_["name"] not in variables:
            _read_line(sheet, _expanded(line, variables), where)
    for value in variables.values():
        if " " in value:  # a command that is put together and started later
            _read_line(sheet, value, where)


def read_typed(text: str) -> Kept | None:
    """What a command that is pasted as a request says (vllm serve ..., torchrun ...); None for a
    sentence, also for one that only begins with a command."""
    lines = [line.strip().lstrip("$>").strip().strip("`") for line in _lines(text)]
    if not any(map(_is_command, lines)) or not all(_is_command(line) or not line or _ASSIGNED.match(line) for line in lines):
        return None
    sheet = Sheet()
    read_commands(sheet, text, "--ask")
    return settled(sheet, Path()) if sheet.forms else None


def _is_command(line: str) -> bool:
    """Whether a line is a command from its first word to its last: what is neither an option nor
    its value is the name of a model or a file."""
    words = _words(line)
    row = next((row for row in kept_words()["commands"] if _starts(words[:_MOST_BEFORE], row["words"]) is not None), None)
    if row is None:
        return False
    begun = _starts(words, row["words"]) or 0
    before, rest = words[: begun - len(row["words"])], words[begun:]
    is_named = row.get("model") == "first"
    if not all(word.rpartition("/")[2] in _BEFORE or _ASSIGNED.match(word) for word in before):
        return False
    for at, word in enumerate(rest):
        is_value = at > 0 and rest[at - 1].startswith("-") and "=" not in rest[at - 1]
        if not (word.startswith("-") or is_value or _NAME.search(word) or word.endswith(_NAMED_FILES) or (is_named and at == 0)):
            return False
    return any(word.startswith("-") or "=" in word for word in rest) or len(rest) <= 1


def _lines(text: str) -> list[str]:
    """The lines of a script without comments, with what is continued on the next line or by an
    open quotation."""
    plain = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    found: list[str] = []
    for line in _CONTINUED.sub(" ", f"{plain}\n").splitlines():
        is_open = found and _ASSIGNED.match(found[-1]) and found[-1].count('"') % 2 and len(found[-1]) < _MOST_JOINED
        if is_open:
            found[-1] = f"{found[-1]} {line}"
        else:
            found.append(line)
    return found


def _read_line(sheet: Sheet, line: str, where: str) -> None:
    plain = line.strip().lstrip("$>").strip().strip("`").rstrip("\\").strip()
    if not plain or plain.startswith("#"):
        return
    words = _words(plain, comments=True) or plain.replace('"', " ").replace("'", " ").split()
    _read_command(sheet, words, where)
    for word in words:
        if " " in word and word != plain:  # a command for another shell: srun bash -c '...'
            for inner in _lines(word):
                _read_line(sheet, inner, where)


def _variables(lines: Sequence[str], told: Mapping[str, str]) -> dict[str, str]:
    """What a script sets its variables to: each value that is the only one, or that others are
    hung on to (CMD="$CMD --bf16"). One that is set otherwise in two places has no value here."""
    set_: list[tuple[str, str, bool]] = []
    for line in lines:
        if (one := _ASSIGNED.match(line)) is None or one["name"] in told:  # who starts it decides
            continue
        name, words = one["name"], _words(one["value"].strip(), comments=True)
        if len(words) < 2:  # else it is set for the command behind it alone
            hung = re.match(rf"\$(?:{name}\b|\{{{name}\}})", words[0]) if words else None
            set_.append((name, words[0][hung.end() :] if hung else "".join(words), hung is not None))
    plain = [name for name, _, is_hung in set_ if not is_hung]
    found: dict[str, str] = {}
    for name, value, is_hung in set_:
        if plain.count(name) == 1:
            before = found.get(name, "") if is_hung else ""
            found[name] = (before + _expanded(value, {**found, **told}))[:_MOST_JOINED]
    return found


def _expanded(text: str, variables: Mapping[str, str]) -> str:
    """A text with its variables; of one that is not set its default (${NAME:-default}), and as it
    stands where it has none."""

    def value(found: re.Match[str]) -> str:
        name = found["plain"] or found["name"]
        if name in variables:
            return variables[name]
        return found["usual"] if found["mark"] else found[0]

    return _VARIABLE.sub(value, text)[:_MOST_JOINED]


def _with_usual(values: Any, depth: int = 0) -> Any:
    """Settings with the defaults of variables that stand in them (${NAME:-default})."""
    if isinstance(values, Mapping) and depth < _MOST_DEPTH:
        return {key: value if key in _OF_SHELL else _with_usual(value, depth + 1) for key, value in values.items()}
    if isinstance(values, list) and depth < _MOST_DEPTH:
        return [_with_usual(value, depth + 1) for value in values]
    return _expanded(values, {}) if isinstance(values, str) and "${" in values else values


def _read_command(sheet: Sheet, words: Sequence[str], where: str) -> None:
    for row in kept_words()["commands"]:
        start = _starts(words, row["words"])
        if start is None:
            continue
        sheet.forms.append(" ".join(row["words"]))
        for field in ("task", "framework", "stage"):
            sheet.put(field, row.get(field), where)
        _read_options(sheet, words[start:], where, takes_first=row.get("model") == "first")
        if row.get("task") == "finetune":
            _put_stage(sheet, words, where)
        if row.get("settings") == "first" and len(words) > start:
            sheet.put("settings", words[start], f"{where}: {' '.join(row['words'])}")
        return
    if _trains(words):
        sheet.forms.append("python")
        sheet.put("task", "finetune", where)
        _read_options(sheet, words, where, takes_first=False)
        _put_stage(sheet, words, where)
        return
    if any(word.rpartition("/")[2] in kept_words()["containers"]["commands"] for word in words[:3]):
        _read_container(sheet, words, where)


def _put_stage(sheet: Sheet, words: Sequence[str], where: str) -> None:
    """What a script is called after says what is trained by it (dpo_training.py), where no option
    does."""
    script = next((word.rpartition("/")[2] for word in words if word.endswith(".py")), "")
    stages = kept_words()["values"]["stage"]
    for part in re.split(r"[^a-z]+", script.casefold()):
        if stages.get(part) and part not in ("rm", "pt"):
            sheet.put("stage", part, f"{where}: {script}")


def _trains(words: Sequence[str]) -> bool:
    """Whether words start a script of Python with a model and settings of a training."""
    started = any(re.fullmatch(r"(?:.*/)?python[\d.]*", word) for word in words[:6])
    options = [word.lstrip("-").partition("=")[0].replace("-", "_") for word in words if word.startswith("--")]
    fields = {kept_words()["keys"].get(option, "") for option in options}
    trained = fields & {"micro_batch", "accumulation", "epochs", "steps", "lora_rank"}
    return started and len(trained) >= (1 if "model" in fields else 2)


def _read_container(sheet: Sheet, words: Sequence[str], where: str) -> None:
    """`docker run ... IMAGE OPTIONS` of an image whose entry point serves."""
    at = next((at for at, word in enumerate(words) if _image(word)), 0)
    row = _image(words[at]) if at else None
    if row is None:
        return
    before = words[:at]
    told = dict(word.split("=", 1) for word in before if re.fullmatch(r"[A-Z_]+=.*", word))
    _read_image(sheet, row, told, words[at + 1 :], where)
    given = re.search(r"--gpus[ =]\W*(?:device=)?(\d+(?:,\d+)*)", " ".join(before))
    if given:
        listed = given[1].split(",")
        sheet.put("cards", len(listed) if "device=" in given[0] else int(given[1]), f"{where}: --gpus")


def _starts(words: Sequence[str], wanted: Sequence[str]) -> int | None:
    """Where the words behind a command's own begin; None where it is another."""
    for at in range(min(len(words), 40)):
        if [word.rpartition("/")[2] for word in words[at : at + len(wanted)]] == list(wanted):
            return at + len(wanted)
    return None


def _read_options(sheet: Sheet, words: Sequence[str], where: str, *, takes_first: bool) -> None:
    keys, at = kept_words()["keys"], 0
    while at < len(words) and words[at] not in ("&&", ";", "|", "||", "&"):
        word = words[at]
        at += 1
        if not word.startswith("-"):
            name, mark, value = word.partition("=")
            if takes_first and not mark:
                sheet.put("model", word, where)
                takes_first = False
            elif mark and name in keys:  # yolo and Hydra write options so
                sheet.put(keys[name], value, f"{where}: {name}")
            continue
        name, mark, value = word.lstrip("-").partition("=")
        if not mark:
            has_value = at < len(words) and not re.match(r"--?[A-Za-z]", words[at]) and words[at] not in ("&&", ";", "|")
            value, at = (words[at], at + 1) if has_value else ("true", at)
        field = keys.get(name.replace("-", "_"))
        if field in _YES_OR_NO and _VARIABLE.fullmatch(value):  # another option that may follow
            value = "true"
        if field == "slurm_cards":
            kind = re.fullmatch(r"(?:gpu:)?(?:(?P<name>[A-Za-z][\w-]*):)?(?P<count>\d+)", value)
            if kind:
                _put_cards(sheet, f"{kind['name'] or 'gpu'}:{kind['count']}", f"{where}: {word.partition('=')[0]}")
        elif field:
            sheet.put(field, value, f"{where}: {word.partition('=')[0]}")
        else:
            sheet.leave(word.partition("=")[0], where)


# ---- From fields to a wish.


def settled(sheet: Sheet, path: Path) -> Kept:
    """The wish that the fields say together."""
    wishes: dict[str, Any] = {}
    told: list[tuple[str, str, str]] = []

    def say(option: str, value: Any, *fields: str) -> None:
        if value in (None, "", "none") and option not in ("offload", "sharding", "recompute"):
            return
        try:
            read_wish(option, value)
        except InputError:
            sheet.leave(f"{fields[0]}={value}"[:60], sheet.where(*fields))
            return
        wishes[option] = value
        told.append((option, str(value), sheet.where(*fields)))

    _say_model(sheet, path, say)
    task = _say_method(sheet, say)
    if task in ("serve", "batch"):
        _say_service(sheet, say)
    else:
        _say_run(sheet, say, path)
    _say_place(sheet, say)
    is_whole_said = any(sheet.value(field) for field in ("cards", "processes", "nodes", "global_batch"))
    batch = 0 if is_whole_said else int(wishes.get("global_batch", 0))
    return Kept(tuple(dict.fromkeys(sheet.forms)), wishes, tuple(told), tuple(sheet.unused.items()), batch)


Say = Callable[..., None]


def _meant(field: str, value: Any) -> str:
    word = str(value)
    table = kept_words()["values"].get(field, {})
    return str(table.get(word, table.get(word.casefold(), word)))


def _yes(value: Any) -> bool:
    return str(value).casefold() in _WORDS_OF_YES


def _whole(value: Any) -> int:
    return int(float(value)) if re.fullmatch(r"\d+(\.\d+)?(e\d+)?", str(value)) else 0


def _say_model(sheet: Sheet, path: Path, say: Say) -> None:
    model = sheet.value("model") or sheet.value("model_name") or sheet.value("tokenizer")
    if not isinstance(model, str) or "$" in model or "{{" in model:
        return
    beside = (path if path.is_dir() else path.parent) / model
    say("model", str(beside) if model.startswith(("./", "../")) and beside.exists() else model, "model", "model_name", "tokenizer")


def _say_method(sheet: Sheet, say: Say) -> str:
    stage = _meant("stage", sheet.value("stage") or ("grpo" if _whole(sheet.value("completions")) > 1 else ""))
    task = str(sheet.value("task") or "finetune")
    if stage == "pt":
        task, stage = "train", ""
    say("task", task, "task", "stage")
    if task in ("serve", "batch"):
        return task
    method = _meant("method", sheet.value("method") or ("lora" if _yes(sheet.value("uses_lora")) or sheet.value("lora_rank") else ""))
    narrow = _yes(sheet.value("four_bit")) or str(sheet.value("bits") or "") == "4"
    if method == "lora" and narrow:
        method = "qlora"
    if stage and task != "train":
        say("method", stage, "stage")
        say("update", method or "full", "method", "uses_lora", "lora_rank", "stage")
    elif task == "finetune" and (method or any(sheet.value(one) is not None for one in ("model", "model_name", "tokenizer", "loads"))):
        say("method", method or "full", "method", "uses_lora", "lora_rank", "model", "model_name", "tokenizer", "loads")
    if method in ("lora", "qlora", "dora"):
        say("lora_rank", _whole(sheet.value("lora_rank")) or None, "lora_rank")
        say("lora_targets", _targets(sheet), "lora_targets", "all_linear")
        for field in ("lora_alpha", "lora_dropout"):
            if (value := sheet.value(field)) is not None:
                sheet.leave(f"{field}={value}", sheet.where(field))
    return task


def _targets(sheet: Sheet) -> str:
    """The modules that get adapters, as the option takes them; "" where the plan is to choose."""
    told = sheet.value("lora_targets")
    if _yes(sheet.value("all_linear")) or (isinstance(told, str) and told.casefold() in ("all", "all-linear")):
        return "all-linear"
    names = told if isinstance(told, list) else re.split(r"[\s,]+", told.strip("[] ")) if isinstance(told, str) else []
    if any(str(name).startswith("to_") for name in names):  # of a denoiser, whose adapters are on its attention in any case
        sheet.leave("target_modules", sheet.where("lora_targets"))
        return ""
    return ",".join(str(name).strip("'\"").removesuffix("_proj") for name in names if name)


def _say_run(sheet: Sheet, say: Say, path: Path) -> None:
    say("seq_len", _whole(sheet.value("seq_len")) or None, "seq_len")
    micro, times = _whole(sheet.value("micro_batch")), _whole(sheet.value("accumulation")) or 1
    cards = _whole(sheet.value("cards")) or _whole(sheet.value("processes")) or 1
    whole = cards * (_whole(sheet.value("nodes")) or 1) if not sheet.value("processes") else cards
    batch = _whole(sheet.value("global_batch")) or (micro * times * whole if micro else 0)
    say("micro_batch", micro or None, "micro_batch")
    say("global_batch", batch or None, "global_batch", "accumulation", "micro_batch")
    _say_precision(sheet, say)
    say("optimizer", _meant("optimizer", sheet.value("optimizer") or ""), "optimizer")
    if (keeps := sheet.value("keeps")) is not None:
        say("recompute", "none" if _yes(keeps) else "full", "keeps")
    elif (recomputes := sheet.value("recomputes")) is not None:
        say("recompute", "none" if str(recomputes).casefold() in ("false", "no", "0", "none") else "full", "recomputes")
    elif any(form.get("recomputes") for form in kept_words()["forms"] if form["name"] in sheet.forms):  # its trainer does unless told
        say("recompute", "full", "method", "stage")
    attention = _meant("attention", sheet.value("attention") or "")
    say("attention", attention or ("flash" if _yes(sheet.value("flash")) else ""), "attention", "flash")
    _say_sharding(sheet, say)
    steps, epochs = _whole(sheet.value("steps")), float(sheet.value("epochs") or 0 if _is_number(sheet.value("epochs")) else 0)
    say("epochs", epochs or None, "epochs")
    _say_data(sheet, say, path, steps=steps, batch=batch, epochs=epochs)
    say("tensor_parallel", _whole(sheet.value("tensor_parallel")) or None, "tensor_parallel")
    say("pipeline_parallel", _whole(sheet.value("pipeline_parallel")) or None, "pipeline_parallel")
    say("image_size", str(_whole(sheet.value("image_size")) or ""), "image_size")
    for option in ("trees", "depth", "completions"):
        say(option, _whole(sheet.value(option)) or None, option)


def _is_number(value: Any) -> bool:
    return re.fullmatch(r"\d+(\.\d+)?", str(value)) is not None


def _say_precision(sheet: Sheet, say: Say) -> None:
    told = _meant("precision", sheet.value("precision") or "").removeprefix("torch.")
    told = _meant("precision", told) if told else ""
    for field, word in (("is_bf16", "bf16"), ("is_fp16", "fp16")):
        if told in ("", "fp32") and _yes(sheet.value(field)):  # beside weights of fp32: mixed
            told = word
    say("precision", told, "precision", "is_bf16", "is_fp16")


def _say_sharding(sheet: Sheet, say: Say) -> None:
    zero = sheet.value("zero")
    named = re.search(r"zero_?(\d)", str(sheet.value("deepspeed") or ""))
    if zero is not None and str(zero) in "0123":
        say("sharding", f"zero{zero}" if str(zero) != "0" else "none", "zero")
    elif named:
        say("sharding", f"zero{named[1]}", "deepspeed")
    elif sheet.value("fsdp"):
        say("sharding", "fsdp", "fsdp")
    elif sheet.value("distributed"):
        say("sharding", _meant("distributed", sheet.value("distributed")), "distributed")
    elif sheet.value("sharding"):
        say("sharding", _meant("sharding", sheet.value("sharding")), "sharding")
    moved = [str(sheet.value(field) or "none").casefold() not in ("none", "false") for field in ("offloads", "offloads_params")]
    if any(moved):
        say("offload", "all" if all(moved) else "optimizer" if moved[0] else "params", "offloads", "offloads_params")


#: Loaders of the datasets library that read the files they are given.
_LOADERS = frozenset({"json", "csv", "parquet", "text", "arrow", "webdataset", "imagefolder", "audiofolder", "videofolder"})


def _data_file(sheet: Sheet, path: Path) -> str:
    """The file or folder of data that a script reads, where it lies beside the script; it is left
    unused where it does not."""
    named = sheet.value("data_files")
    first = next(iter(named.values()), None) if isinstance(named, dict) else named[0] if isinstance(named, list) and named else named
    if not isinstance(first, str):
        return ""
    folder = path if path.is_dir() else path.parent
    found = next((place for place in (folder / first, Path(first)) if place.exists()), None)
    if found is None:
        sheet.leave(f"data_files={first}", sheet.where("data_files"))
    return str(found or "")


def _say_data(sheet: Sheet, say: Say, path: Path, *, steps: int, batch: int, epochs: float) -> None:
    """The amount: a data set that is known, else what the steps go through."""
    dataset = sheet.value("dataset")
    name = dataset[0] if isinstance(dataset, list) and dataset else dataset
    if isinstance(name, str) and name in _LOADERS:  # a way to read files, no data set
        name = _data_file(sheet, path)
    if isinstance(name, str) and name:
        most = _whole(sheet.value("samples")) * (len(dataset) if isinstance(dataset, list) else name.count(",") + 1)
        if most and most < (_rows_of(name) or math.inf):  # of each data set so many rows
            say("data", f"{most}samples", "samples", "dataset")
            return
        say("data", name, "dataset")
        if not any(one.startswith("dataset=") for one in sheet.unused):
            _say_share(sheet, say, name, steps=steps, batch=batch)
            return
    length = _whole(sheet.value("seq_len"))
    if steps > 0 and batch and length:
        say("data", f"{steps * batch * length / (epochs or 1.0):.0f}tok", "steps")
    elif steps > 0 and batch and sheet.value("micro_batch"):
        say("data", f"{steps * batch / (epochs or 1.0):.0f}samples", "steps")
    elif steps > 0:
        sheet.leave(f"steps={steps}", sheet.where("steps"))


def _rows_of(name: str) -> float:
    """Rows of a data set that is known; 0 of any other."""
    try:
        rows = read_wish("data", name).get("data_samples")
    except RightfitError:
        return 0.0
    return float(rows) if isinstance(rows, int | float) else 0.0


def _say_share(sheet: Sheet, say: Say, name: str, *, steps: int, batch: int) -> None:
    """How often steps go through a data set whose rows are known: they decide, whatever the
    epochs."""
    if steps <= 0:
        return
    rows = read_wish("data", name).get("data_samples")
    if batch and isinstance(rows, int | float) and rows > 0:
        say("epochs", float(f"{steps * batch / rows:.3g}"), "steps")
    else:
        sheet.leave(f"steps={steps}", sheet.where("steps"))


def _say_service(sheet: Sheet, say: Say) -> None:
    say("framework", sheet.value("framework"), "framework")
    say("tensor_parallel", _whole(sheet.value("tensor_parallel")) or None, "tensor_parallel")
    say("pipeline_parallel", _whole(sheet.value("pipeline_parallel")) or None, "pipeline_parallel")
    say("quantization", _meant("quantization", sheet.value("quantization") or ""), "quantization")
    say("kv_cache", _meant("kv_cache", sheet.value("kv_cache") or ""), "kv_cache")
    say("gpu_memory_utilization", sheet.value("memory_share") or None, "memory_share")
    _say_precision(sheet, say)
    say("output_tokens", _whole(sheet.value("output_tokens")) or None, "output_tokens")
    if context := sheet.value("context"):
        sheet.leave(f"max_model_len={context}", sheet.where("context"))


def _say_place(sheet: Sheet, say: Say) -> None:
    gpu, cards = sheet.value("gpu"), _whole(sheet.value("cards")) or _whole(sheet.value("processes"))
    say("gpu", gpu, "gpu")
    if cards > 1:
        sheet.leave(f"{cards} cards", sheet.where("cards", "processes"))
    say("max_nodes", _whole(sheet.value("nodes")) or None, "nodes")
    if sheet.value("spot") is not None:
        say("purchase", "spot" if _yes(sheet.value("spot")) else "on-demand", "spot")
    for option, fields in (("cloud", ("clouds", "cloud")), ("region", ("regions", "region"))):
        found = next((sheet.value(one) for one in fields if sheet.value(one)), None)
        say(option, found, *fields)
