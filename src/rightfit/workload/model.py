"""The user's wish: validated once, then frozen. All quantities are in base units."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from rightfit import reach, units
from rightfit.errors import FileInputError, InputError
from rightfit.messages import Message, at_place, did_you_mean, foreign, system_problem, without_place
from rightfit.workload import rules
from rightfit.workload.attributes import Attributes
from rightfit.workload.options import OPTIONS, overrules, raise_problems, read_wish, read_wishes
from rightfit.workload.vocabulary import nearest_words

# ---- Workload files: YAML, TOML or JSON, flat, by option name. Problems name the line and the key.

MAX_BYTES = 1_000_000
_ENDINGS = {".yaml": "yaml", ".yml": "yaml", ".toml": "toml", ".json": "json"}

Entries = dict[str, tuple[Any, int]]
"""Key -> (value, line number)."""


def load(path: str | Path, wishes: Mapping[str, Any]) -> dict[str, Any]:
    """The wishes of a file, overruled by `wishes`: of a workload file, or of another form that
    people keep (settings of trainers, launchers, commands, a folder of these). Each value is read
    once here so that a problem can name its line."""
    from rightfit.workload.kept_files import read_kept

    name = str(path)
    given = {key: value for key, value in wishes.items() if value is not None and value != ()}
    if (planned := plan_wishes(name)) is not None:
        return _of_plan(name, planned, given)
    if name != "-" and (kept := read_kept(Path(name))) is not None:
        if not kept.wishes.get("model") and not given.get("model"):
            raise FileInputError(Message("workload.kept_without_model", name=name, form=", ".join(kept.forms)), field="model")
        return {**kept.on(given).wishes, **given}
    entries = _entries(name, read_text(path))
    if {"model_type", "architectures"} & entries.keys():  # a model, where a workload was to be
        raise FileInputError(Message("workload.config_of_model", name=name), field="model")
    problems: list[InputError] = []
    for key, (value, line) in entries.items():
        try:
            read_wish(key, value)
        except InputError as error:
            place = Message("workload.file_key", name=name, line=line, word=key)
            problems.append(FileInputError(at_place(place, without_place(error.message, error.field)), field=error.field))
    raise_problems(problems)
    return {**{key.replace("-", "_"): value for key, (value, _) in entries.items()}, **given}


def saved_plan(name: str) -> Mapping[str, Any] | None:
    """The plan of a JSON file that `rightfit plan` wrote; None for any other file or name."""
    if not name.casefold().endswith(".json") or not Path(name).is_file():
        return None
    reach.refuse_file(repr(name[:80]))
    try:
        found = json.loads(Path(name).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    if (
        not isinstance(found, dict)
        or not {"schema_version", "options", "workload"} <= found.keys()
        or not isinstance(found["workload"], dict)
    ):
        return None
    return found


def chosen_server(name: str) -> str:
    """The server of the first option of a saved plan; empty for any other name."""
    if (found := saved_plan(name)) is None:
        return ""
    if not found["options"]:
        raise FileInputError(Message("planner.plan_without_options", file=name), field="on")
    first = found["options"][0]
    return f"{first['provider']}/{first['instance_type']}"


def plan_wishes(name: str) -> dict[str, Any] | None:
    """The request that a saved plan answers, without the defaults that it took; None for any
    other file."""
    if (found := saved_plan(name)) is None:
        return None
    assumed = (*found["workload"].get("assumed", ()), "assumed")
    return {key: value for key, value in found["workload"].items() if key not in assumed}


def _of_plan(name: str, planned: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The request of a plan, with what is changed of it; a service of what a run trains is made
    by the export of that run."""
    ends = not any(planned.get(key) for key in ("rate_per_s", "users")) and planned.get("task") not in ("serve", "batch")
    if ends and "task" in given and read_wish("task", given["task"]).get("task") in ("serve", "batch"):
        raise FileInputError(Message("workload.plan_then_serve", name=name, model=str(planned.get("model", ""))), field="task")
    overruled = {attribute for key in given for attribute in overrules(key)}
    return {**{key: value for key, value in planned.items() if key not in overruled}, **given}


def save(path: str | Path, wishes: Mapping[str, Any]) -> Path:
    """Write `wishes`, through a temporary neighbour so that a full disk never
    leaves half a file."""
    target = Path(path)
    form = _ENDINGS.get(target.suffix.casefold())
    if form is None:
        raise FileInputError(Message("workload.no_format", name=target.name))
    draft = target.with_name(f".{target.name}.part")
    try:
        draft.write_text(_WRITERS[form](wishes), encoding="utf-8")
        draft.replace(target)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise FileInputError(Message("problems.cannot_write", name=target, error=system_problem(error))) from None
    return target


def read_text(path: str | Path) -> str:
    """The text of a small UTF-8 file; "-" is standard input."""
    name = str(path)
    reach.refuse_file(repr(name[:80]))
    try:
        data = _read_bytes(name)
    except FileNotFoundError:
        raise FileInputError(Message("problems.no_file", name=name, hint=_neighbour(Path(name)))) from None
    except IsADirectoryError:
        raise FileInputError(Message("problems.is_folder", name=name, example=Path(name) / "workload.yaml")) from None
    except (OSError, ValueError) as error:
        raise FileInputError(Message("problems.cannot_read", name=name, error=system_problem(error))) from None
    if len(data) > MAX_BYTES:
        raise FileInputError(Message("workload.too_large", name=name, kilobytes=MAX_BYTES // 1000))
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise FileInputError(Message("workload.not_utf8_save", name=name, line=line, byte=data[error.start])) from None


def _read_bytes(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read(MAX_BYTES + 1)
    with Path(name).open("rb") as file:
        return file.read(MAX_BYTES + 1)


def _neighbour(path: Path) -> Message | str:
    """A file with a similar name in the same folder."""
    try:
        names = [entry.name for entry in path.parent.iterdir() if entry.suffix in _ENDINGS]
    except OSError:
        return ""
    near = nearest_words(path.name, names, count=1)
    return did_you_mean([path.parent / one for one in near])


def _entries(name: str, text: str) -> Entries:
    form = _ENDINGS.get(Path(name).suffix.casefold()) or ("json" if text.lstrip().startswith("{") else "yaml")
    if not text.strip():
        raise FileInputError(Message("workload.empty_file", name=name))
    if "\x00" in text:
        raise FileInputError(Message("workload.zero_byte", name=name, line=_line_at(text, text.index(chr(0)))))
    try:
        entries = _READERS[form](name, text)
    except RecursionError:
        raise FileInputError(Message("workload.too_deep", name=name)) from None
    return {key: entry for key, entry in entries.items() if key not in ("schema_version", "assumed")}


def _line_at(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _read_yaml(name: str, text: str) -> Entries:
    import yaml

    _refuse_yaml_bomb(name, text)
    try:
        root = yaml.compose(text, Loader=_yaml_loader())
    except yaml.YAMLError as error:
        raise FileInputError(_yaml_problem(name, error)) from None
    if root is None:
        raise FileInputError(Message("workload.no_content", name=name))
    if not isinstance(root, yaml.MappingNode):
        raise FileInputError(Message("workload.no_lines", name=name, line=root.start_mark.line + 1))
    entries: Entries = {}
    for key_node, value_node in root.value:
        key, line = str(getattr(key_node, "value", key_node)), key_node.start_mark.line + 1
        _add(entries, key, _yaml_value(value_node, name=name, key=key), line=line, name=name)
    return entries


def _yaml_loader() -> Any:
    import yaml

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _refuse_yaml_bomb(name: str, text: str) -> None:
    """Aliases can blow up and a workload needs none; depth can exhaust the stack of the C
    parser's composer."""
    import yaml

    depth = 0
    try:
        for event in yaml.parse(text, Loader=_yaml_loader()):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            line = event.start_mark.line + 1 if event.start_mark else 1
            if isinstance(event, yaml.AliasEvent):
                raise FileInputError(Message("workload.alias", name=name, line=line, anchor=event.anchor))
            if depth > 3:
                raise FileInputError(Message("workload.too_deep_line", name=name, line=line))
    except yaml.YAMLError as error:
        raise FileInputError(_yaml_problem(name, error)) from None


def _yaml_problem(name: str, error: Any) -> Message:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    place = Message("problems.at_line", line=mark.line + 1, column=mark.column + 1) if mark else ""
    return Message("problems.not_yaml", name=name, line=place, error=Message("workload.yaml_lines", error=foreign(problem)))


def _yaml_value(node: Any, *, name: str, key: str) -> Any:
    """Scalars stay as written ("no" is Norway, not false), so that our own readers see
    what the user typed."""
    import yaml

    if isinstance(node, yaml.ScalarNode):
        return None if node.tag == "tag:yaml.org,2002:null" else str(node.value)
    if isinstance(node, yaml.SequenceNode) and all(isinstance(item, yaml.ScalarNode) for item in node.value):
        return [str(item.value) for item in node.value]
    raise FileInputError(Message("workload.one_value", name=name, line=node.start_mark.line + 1, word=key))


def _add(entries: Entries, key: str, value: Any, *, line: int, name: str) -> None:
    folded = key.replace("-", "_")
    if folded in entries:
        raise FileInputError(Message("workload.twice", name=name, line=line, word=key, first=entries[folded][1]))
    entries[folded] = (value, line)


def _read_toml(name: str, text: str) -> Entries:
    import tomllib

    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"\(at line (\d+), column (\d+)\)", str(error))
        where = Message("workload.file_place", name=name, line=place[1], column=place[2]) if place else name
        raise FileInputError(Message("workload.not_toml", line=where, error=foreign(str(error).split(" (at ")[0]))) from None
    entries: Entries = {}
    for key, value in values.items():
        line = _line_of_key(text, key, pattern=r"^\s*[\"']?{}[\"']?\s*=")
        _add(entries, key, _flat(value, name=name, key=key, line=line), line=line, name=name)
    return entries


def _read_json(name: str, text: str) -> Entries:
    def refuse(word: str) -> Any:
        raise FileInputError(Message("workload.no_workload_number", name=name, word=word))

    try:
        pairs = json.loads(text, object_pairs_hook=_Pairs, parse_constant=refuse)
    except json.JSONDecodeError as error:
        raise FileInputError(
            Message("problems.not_json", name=name, line=error.lineno, column=error.colno, error=foreign(error.msg))
        ) from None
    except ValueError as error:  # an integer of thousands of digits
        raise FileInputError(Message("workload.unusable_json", name=name, error=foreign(str(error).split(";")[0]))) from None
    if not isinstance(pairs, _Pairs):
        raise FileInputError(Message("workload.no_object", name=name, object='{"model": ...}'))
    entries: Entries = {}
    for key, value in pairs:
        line = _line_of_key(text, key, pattern=r"\"{}\"\s*:", skip=sum(key == seen for seen in entries))
        _add(entries, key, _flat(value, name=name, key=key, line=line), line=line, name=name)
    return entries


class _Pairs(list[tuple[str, Any]]):
    """A JSON object as its pairs, so that a key given twice is seen."""


def _flat(value: Any, *, name: str, key: str, line: int) -> Any:
    if isinstance(value, (dict, _Pairs)) or (isinstance(value, list) and any(isinstance(item, (list, dict)) for item in value)):
        raise FileInputError(Message("workload.one_value", name=name, line=line, word=key))
    return value


def _line_of_key(text: str, key: str, *, pattern: str, skip: int = 0) -> int:
    matches = list(re.finditer(pattern.format(re.escape(key)), text, re.MULTILINE))
    return _line_at(text, matches[min(skip, len(matches) - 1)].end()) if matches else 1


def _write_yaml(wishes: Mapping[str, Any]) -> str:
    import yaml

    return yaml.safe_dump(dict(wishes), allow_unicode=True, sort_keys=False, default_flow_style=None, width=1000)


def _write_json(wishes: Mapping[str, Any]) -> str:
    return json.dumps(dict(wishes), ensure_ascii=False, indent=2) + "\n"


def _write_toml(wishes: Mapping[str, Any]) -> str:
    """JSON strings, numbers and lists are valid TOML, except for the DEL character,
    which no option takes."""
    return "".join(f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in wishes.items())


_READERS: Mapping[str, Callable[[str, str], Entries]] = {"yaml": _read_yaml, "toml": _read_toml, "json": _read_json}
_WRITERS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {"yaml": _write_yaml, "toml": _write_toml, "json": _write_json}


class Workload(Attributes):
    """What the user wants to run, on how much data, by when, for how much.

    The constructor takes the option names of `rightfit plan` with friendly values
    (`deadline="24h"`, `budget="1500cny/month"`, `cloud="aws,gcp"`), or the attributes in base
    units (`deadline_s=86400.0`). `assumed` names the attributes that the user left open and
    rightfit chose.
    """

    __slots__ = ()

    def __init__(self, **wishes: Any) -> None:
        chosen_by_us = wishes.pop("assumed", ())  # from to_dict(): those are chosen afresh
        for side in ("input", "output"):  # from to_dict(): the law says more than its mean beside it
            if wishes.get(f"{side}_law"):
                wishes[f"{side}_tokens"] = wishes.pop(f"{side}_law")
        given = read_wishes({key: value for key, value in wishes.items() if key not in chosen_by_us})
        given |= rules.as_typed(given)
        raise_problems(rules.contradictions(given))
        defaults = rules.defaults(given)
        super().__init__(**(given | defaults), assumed=tuple(defaults))

    @classmethod
    def from_file(cls, path: str | Path, **wishes: Any) -> Self:
        """Read a YAML, TOML or JSON file; `wishes` given here win over the file."""

        return cls(**load(path, wishes))

    def save(self, path: str | Path) -> Path:
        """Write the wish to a YAML, TOML or JSON file (by its ending) that from_file reads back to
        an equal Workload."""

        return save(path, self.wishes())

    def wishes(self) -> dict[str, Any]:
        """What the user gave, by option name in friendly form; defaults taken are left out."""
        found = {name: self._friendly(name) for name in OPTIONS if name not in self.assumed}
        return {name: value for name, value in found.items() if value is not None}

    def with_changes(self, **wishes: Any) -> Self:
        """The same wish with some options changed, validated again; None takes an option away."""
        overruled = {attribute for key in wishes for attribute in overrules(key)}
        kept = {key: value for key, value in self._given().items() if key not in overruled}
        return type(self)(**{**kept, **wishes})

    @property
    def is_tuning_assumed(self) -> bool:
        """Whether fine-tuning is our reading: neither task nor method was given."""
        return "task" in self.assumed and "method" in self.assumed and self.task != "train"

    def from_the_start(self) -> Workload:
        """The same wish, to train all weights from the start."""
        return self.settled(task="train", method="full")

    def settled(self, **attributes: Any) -> Self:
        """The same wish with attributes that we settled, which are taken as they are; what a user
        says goes through `with_changes`."""
        unknown = attributes.keys() - _NAMES
        if unknown:
            raise TypeError(f"a workload has no attribute {', '.join(sorted(unknown))}")
        found = object.__new__(type(self))
        for name in _NAMES:
            object.__setattr__(found, name, attributes[name] if name in attributes else getattr(self, name))
        return found

    def to_dict(self) -> dict[str, Any]:
        """All attributes that are set, in base units; Workload(**result) is equal."""
        values = {name: getattr(self, name) for name in _NAMES}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items() if value not in (None, (), "")}

    def _given(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in _NAMES if name not in self.assumed and name != "assumed"}
        return {name: value for name, value in values.items() if value is not None and value not in ((), "")}

    def _friendly(self, name: str) -> Any:
        option = OPTIONS[name]
        value = getattr(self, option.attributes[0])
        if value is None or value in ((), ""):
            return None
        if option.kind == "lengths":
            return getattr(self, option.attributes[1]) or value
        if option.kind == "duration":
            return units.exact_duration(value)
        if option.kind == "rate":
            return f"{units.exact_number(value)}/s"
        if option.kind in ("money", "price_pair"):
            return self.budget if option.kind == "money" else self.api_price
        return list(value) if isinstance(value, tuple) else value


#: All attributes, in their order.
_NAMES: Mapping[str, None] = dict.fromkeys(field.name for field in dataclasses.fields(Workload))
