"""A training script read without running it: models, settings of trainers, defaults of arguments,
data sets. What is worked out while it runs is not guessed."""

from __future__ import annotations

import ast
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rightfit import facts, reach
from rightfit.errors import FileInputError
from rightfit.messages import Message, system_problem
from rightfit.workload.folders import few_below
from rightfit.workload.kept_files import Kept, Sheet, kept_words, settled

_MAX_BYTES, _MOST_FILES, _MOST_ENTRIES = 1_000_000, 100, 10_000
_DEEP = 40
_VISION = ("torchvision", "models", "applications")
_CLASSICAL = ("sklearn", "xgboost", "xgb", "lightgbm", "lgb", "catboost", "cuml", "imblearn", "umap", "hdbscan")
_REDUCERS = ("pca", "truncated-svd", "umap", "t-sne")


def is_code(text: str) -> bool:
    """Whether a wish names a script that is there."""
    return text.endswith((".py", ".ipynb")) and Path(text).is_file()


def read_code(path: Path) -> Kept:
    """What a script, or the scripts of a folder, say. Raises FileInputError where they say
    nothing."""
    reach.refuse_file(repr(str(path)[:80]))
    sheet = Sheet()
    for file in _scripts(path):
        tree = _tree(file)
        if tree is not None:
            _Reader(sheet, file.name).read(tree)
    for field, other in (
        ("micro_batch", "batch_size"),
        ("micro_batch", "train_batch_size"),
        ("model", "timm"),
        ("model", "reducer"),
        ("model", "dimensions"),
    ):
        if other in sheet.fields:
            sheet.fields.setdefault(field, sheet.fields[other])
    if "timm" in sheet.fields:
        sheet.fields.setdefault("task", ("train", sheet.where("timm")))
    if "task" not in sheet.fields and sheet.fields.keys() & {"serves", "generates"} and not sheet.fields.keys() & {"optimizer", "epochs"}:
        sheet.put("task", "serve" if "serves" in sheet.fields else "batch", sheet.where("serves", "generates"))
    if "loads" not in sheet.fields and "dimensions" in sheet.fields and sheet.value("model") == sheet.value("dimensions"):
        sheet.fields["task"] = ("train", sheet.where("dimensions"))  # no weights are loaded, whatever trains
    if "task" not in sheet.fields and "loads" not in sheet.fields and sheet.value("model") is None:
        sheet.put("task", "train", "")
    if not sheet.fields.keys() - {"task", "loads"}:
        raise FileInputError(Message("workload.code_nothing", name=path))
    sheet.forms.append("code")
    return settled(sheet, path)


def _scripts(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(
            few_below(path, (".py",), most=_MOST_ENTRIES),
            key=lambda one: (not any(word in one.stem for word in ("train", "tune", "main")), str(one)),
        )[:_MOST_FILES]
    return [path]


def _tree(file: Path) -> ast.Module | None:
    try:
        data = file.read_bytes()[: _MAX_BYTES + 1]
    except OSError as error:
        raise FileInputError(Message("problems.cannot_read", name=file, error=system_problem(error))) from None
    text = data.decode("utf-8-sig", "replace")
    if file.suffix == ".ipynb":
        text = _cells(text)
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _cells(text: str) -> str:
    """The code of a notebook, its commands to the shell left out."""
    import json

    try:
        cells = json.loads(text).get("cells", ())
        code = ["".join(cell.get("source", ())) for cell in cells if cell.get("cell_type") == "code"]
    except (ValueError, AttributeError, TypeError):
        return ""
    return "\n".join(line for part in code for line in part.splitlines() if not line.lstrip().startswith(("!", "%")))


class _Reader:
    """One script: constants by name, then the calls that use them."""

    def __init__(self, sheet: Sheet, name: str) -> None:
        self.sheet, self.name = sheet, name
        self.known: dict[str, Any] = {}
        self.lines: dict[str, int] = {}
        self.imports: dict[str, str] = {}
        self.classes: set[str] = set()
        self.guards: dict[int, ast.expr] = {}

    def read(self, tree: ast.Module) -> None:
        """Names first, so that a call may stand before what its arguments mean."""
        nodes = list(ast.walk(tree))
        for node in nodes:
            self._learn(node)
        for node in nodes:
            if isinstance(node, ast.If):
                self.guards.update({id(call): node.test for part in node.body for call in ast.walk(part) if isinstance(call, ast.Call)})
        for node in nodes:
            if isinstance(node, ast.Call):
                self._call(node)
            elif isinstance(node, ast.For):
                self._loop(node)
        for name, value in self.known.items():
            field = self._field(name.rpartition(".")[2].casefold())
            if field and isinstance(value, str | int | float) and not name.startswith("__"):
                self.sheet.put(field, value, f"{self.name}:{self.lines.get(name, 1)}")
        self._read_dimensions()

    def _read_dimensions(self) -> None:
        """A model of one's own by its dimensions, where layers, width and heads are told."""
        found: dict[str, int] = {}
        for name, value in self.known.items():
            if (meant := kept_words()["dimensions"].get(name.casefold())) and type(value) is int and value > 0:
                found.setdefault(meant, value)
        words = kept_words()["inner_dimensions"]
        if found.keys() >= {"layers", "hidden", "heads"}:
            for name, value in self.known.items():
                if (meant := words.get(name.casefold())) and type(value) is int and value > 0:
                    found.setdefault(meant, value)
            line = next(self.lines[name] for name in self.known if kept_words()["dimensions"].get(name.casefold()) == "layers")
            self.sheet.put("dimensions", ",".join(f"{name}={value}" for name, value in found.items()), f"{self.name}:{line}")

    def _field(self, name: str) -> str:
        words = kept_words()
        found = words["variables"].get(name) or words["keys"].get(name) or ""
        return str(found)

    # ---- what names mean

    def _learn(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._assign(target, node.value)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self._assign(node.target, node.value)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            self._defaults(node.args)
        elif isinstance(node, ast.ClassDef):
            self.classes.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            module = f"{getattr(node, 'module', None) or ''}"
            for one in node.names:
                self.imports[one.asname or one.name] = module or one.name
        elif isinstance(node, ast.Call):
            self._learn_call(node)
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    self._keep(key.value, value)

    def _learn_call(self, node: ast.Call) -> None:
        """Arguments of a command line with their defaults, and objects that hold settings."""
        name = _last(node.func)
        if name in ("add_argument", "option"):
            self._argument(node)
        elif name.startswith("DEFINE_") and len(node.args) > 1 and isinstance(node.args[0], ast.Constant):
            self._keep(str(node.args[0].value), node.args[1])
        elif name in ("dict", "set_defaults") or (
            name.endswith(("Config", "Args", "Arguments", "Params", "Namespace")) and name[0].isupper()
        ):
            for one in node.keywords:
                if one.arg:
                    self._keep(one.arg, one.value, over=name in self.classes)

    def _defaults(self, told: ast.arguments) -> None:
        """The defaults of a function's arguments."""
        places = [*told.posonlyargs, *told.args]
        for place, value in zip(places[len(places) - len(told.defaults) :], told.defaults, strict=True):
            self._keep(place.arg, value)
        for place, default in zip(told.kwonlyargs, told.kw_defaults, strict=True):
            if default is not None:
                self._keep(place.arg, default)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self._keep(target.id, value)
        elif isinstance(target, ast.Attribute):
            self._keep(target.attr, value)

    def _keep(self, name: str, value: ast.expr, *, over: bool = False) -> None:
        if isinstance(value, ast.Call) and _last(value.func) in ("field", "Option", "Argument", "Field"):  # of a dataclass or a command
            value = next((one.value for one in value.keywords if one.arg == "default"), value.args[0] if value.args else value)
        found = self.constant(value)
        if found is not None and (over or name not in self.known):
            self.known[name] = found
            self.lines[name] = value.lineno

    def _argument(self, node: ast.Call) -> None:
        """An argument of a command with its default."""
        names = [one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        default = next((one.value for one in node.keywords if one.arg == "default"), None)
        name = next((one for one in names if one.startswith("--")), names[0] if names else "")
        if name and default is not None:
            self._keep(name.lstrip("-").replace("-", "_"), default)

    def constant(self, node: ast.expr, depth: int = 0) -> Any:
        """The value of an expression that is written as one; None where it is worked out while
        running."""
        if depth > _DEEP:
            return None
        if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float | bool):
            return node.value
        if isinstance(node, ast.Name):
            return self.known.get(node.id)
        if isinstance(node, ast.JoinedStr):
            parts = [
                self.constant(getattr(one, "value", one) if isinstance(one, ast.FormattedValue) else one, depth + 1) for one in node.values
            ]
            return None if None in parts else "".join(map(str, parts))
        if isinstance(node, ast.List | ast.Tuple):
            items = [self.constant(one, depth + 1) for one in node.elts]
            return items if items and all(isinstance(one, str) for one in items) else None
        if isinstance(node, ast.IfExp):
            test = self.constant(node.test, depth + 1)
            return None if test is None else self.constant(node.body if test else node.orelse, depth + 1)
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
            return next((found for one in node.values if (found := self.constant(one, depth + 1)) is not None), None)
        if isinstance(node, ast.Attribute):
            return node.attr if _last(node.value) in ("torch", "jnp", "tf") else self.known.get(node.attr)
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            return self.known.get(str(node.slice.value))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.FloorDiv | ast.Add):
            left, right = self.constant(node.left, depth + 1), self.constant(node.right, depth + 1)
            return _worked(left, right, node.op)
        if isinstance(node, ast.Call) and _last(node.func) in ("get", "getenv", "environ.get") and len(node.args) > 1:
            return self.constant(node.args[1], depth + 1)
        if isinstance(node, ast.Call) and _last(node.func) in ("int", "float", "str") and node.args:
            return self.constant(node.args[0], depth + 1)
        return None

    # ---- what calls say

    def _call(self, node: ast.Call) -> None:
        name, owner = _last(node.func), _owner(node.func)
        where = f"{self.name}:{node.lineno}"
        words = kept_words()
        if (model := self._estimator(node, name, owner)) is not None:
            self._classical(node, model, where)
            return
        module = owner or self.imports.get(name, "").rpartition(".")[2]
        is_loader = name == "load_data" and isinstance(node.func, ast.Attribute) and _owner(node.func.value) == "datasets"
        if (is_loader or module == "datasets") and self._dataset(owner if is_loader else name, where):
            return
        is_hub = owner == "hub" and name == "load" and len(node.args) > 1
        if is_hub or (module in _VISION and name not in ("load", "list_models", "fit", "train")):
            named = self.constant(node.args[int(is_hub)]) if (is_hub or name == "get_model") and node.args else name
            if isinstance(named, str) and name not in self.classes:
                self.sheet.put("model", named.casefold() if module == "applications" else named, where)
                self.sheet.put("task", "finetune" if self._is_pretrained(node, usual=module == "applications") else "train", where)
                return
        encoder = next((self.constant(one.value) for one in node.keywords if one.arg == "encoder_name"), None)
        if isinstance(encoder, str) and name[:1].isupper():  # segmentation_models_pytorch
            self.sheet.put("model", f"{name}-{encoder}".casefold(), where)
            self.sheet.put("task", "train", where)
        for row in words["calls"]:
            named_so = name in row["names"] or (row.get("ending") and name.endswith(row["ending"]))
            if not named_so or not _fits(owner, row.get("on", ())):
                continue
            self._row(node, row, where)
            if row.get("first") == "ignored":
                return

    def _estimator(self, node: ast.Call, name: str, owner: str) -> str | None:
        """The model that an estimator of classical learning is."""
        root = (self.imports.get(owner) or owner or self.imports.get(name, "")).partition(".")[0]
        if name in ("train", "cv") and root in _CLASSICAL and owner:
            return {"xgb": "xgboost", "lgb": "lightgbm"}.get(root, root)
        is_ours = root in _CLASSICAL or name.endswith(("Classifier", "Regressor"))
        return _estimators().get(name.casefold()) if is_ours and name[:1].isupper() and name not in self.classes else None

    def _classical(self, node: ast.Call, model: str, where: str) -> None:
        self.sheet.put("reducer" if model in _REDUCERS else "model", model, where)
        self.sheet.put("task", "train", where)
        variables = kept_words()["variables"]
        for one in node.keywords:
            field = {"depth": "depth", "iterations": "trees"}.get(one.arg or "") or variables.get(one.arg or "")
            if field in ("trees", "depth") and isinstance(value := self.constant(one.value), int) and value > 0:
                self.sheet.put(field, value, where)

    def _dataset(self, name: str, where: str) -> bool:
        """A data set that a library brings: torchvision.datasets.CIFAR10, datasets.load_iris."""
        found = name.removeprefix("load_").removeprefix("fetch_")
        if found in ("ImageFolder", "dataset", "from_dict", "from_list", "from_generator", "from_disk") or found.startswith("make_"):
            return False
        self.sheet.put("dataset", found, where)
        return True

    def _is_pretrained(self, node: ast.Call, *, usual: bool) -> bool:
        """Whether weights are loaded: a fine-tune. `usual`: what holds where nothing is said."""
        for one in node.keywords:
            if one.arg in ("weights", "pretrained"):
                if isinstance(one.value, ast.Constant):
                    return one.value.value not in (None, False)
                told = self.constant(one.value)
                return (
                    bool(told) if told is not None else isinstance(one.value, ast.Attribute) and _last(one.value.value).endswith("_Weights")
                )
        return usual or (bool(node.args) and isinstance(node.args[0], ast.Constant) and node.args[0].value is True)

    def _row(self, node: ast.Call, row: Mapping[str, Any], where: str) -> None:
        keys, variables = kept_words()["keys"], kept_words()["variables"]
        at = int(row.get("at", 0))
        if (first := row.get("first")) and first != "ignored" and len(node.args) > at:
            told = node.args[at]
            value = self.constant(told)
            if isinstance(value, str) or (isinstance(value, int) and first in ("epochs", "batch_size")):
                self.sheet.put(first, value, where)
            elif isinstance(told, ast.Name) and row.get("bare"):
                self.sheet.put(first, told.id, where)
            else:
                self.sheet.leave(f"{ast.unparse(told)[:40]} ({first})", where)
        test = self.guards.get(id(node))
        for field, value in row.get("sets", {}).items():
            if field == "recomputes" and test is not None and not self.constant(test):  # done where a setting says so
                if self.constant(test) is None:
                    self.sheet.leave(f"{_last(node.func)} (if {ast.unparse(test)[:40]})", where)
                continue
            self.sheet.put(field, value, where)
        for one in node.keywords:
            if one.arg is None or row.get("first") == "ignored":
                continue
            field = row.get("keywords", {}).get(one.arg) or keys.get(one.arg) or variables.get(one.arg)
            value = self.constant(one.value)
            if field and value is not None:
                self.sheet.put(field, value, where)
            elif field and field != "ignored" and not (isinstance(one.value, ast.Name) and one.value.id == one.arg):
                self.sheet.leave(f"{one.arg}={ast.unparse(one.value)[:40]}", where)

    def _loop(self, node: ast.For) -> None:
        """for epoch in range(EPOCHS)."""
        target = node.target.id if isinstance(node.target, ast.Name) else ""
        if "epoch" in target and isinstance(node.iter, ast.Call) and _last(node.iter.func) in ("range", "trange") and node.iter.args:
            value = self.constant(node.iter.args[-1])
            if isinstance(value, int):
                self.sheet.put("epochs", value, f"{self.name}:{node.lineno}")


def _worked(left: Any, right: Any, operator: ast.operator) -> Any:
    numbers = isinstance(left, int | float) and isinstance(right, int | float)
    if isinstance(operator, ast.Mult) and numbers and abs(left) < 1e12 and abs(right) < 1e12:
        return left * right
    if isinstance(operator, ast.FloorDiv) and numbers and right:
        return left // right
    if isinstance(operator, ast.Add) and isinstance(left, str) and isinstance(right, str):
        return left + right
    return left + right if isinstance(operator, ast.Add) and numbers else None


def _last(node: ast.expr) -> str:
    """The last word of what is called."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _owner(node: ast.expr) -> str:
    """The word before the last."""
    return _last(node.value) if isinstance(node, ast.Attribute) else ""


def _fits(owner: str, wanted: list[str] | tuple[str, ...]) -> bool:
    return not wanted or any(owner.endswith(word) for word in wanted)


@functools.cache
def _estimators() -> Mapping[str, str]:
    """The class of an estimator, in small letters -> the model that is planned for it."""
    rows = facts.table("classical_models")
    return {alias: row["name"] for row in rows for alias in (row["name"].replace("-", ""), *row["aliases"].split(";")) if alias.isascii()}
