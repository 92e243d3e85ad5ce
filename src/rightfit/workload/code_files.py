"""A training script read without running it: models, settings of trainers, defaults of arguments,
data sets. What is worked out while it runs is not guessed."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rightfit import reach
from rightfit.errors import FileInputError
from rightfit.messages import Message, system_problem
from rightfit.workload.folders import few_below
from rightfit.workload.kept_files import Kept, Sheet, kept_words, settled

_MAX_BYTES, _MOST_FILES, _MOST_ENTRIES = 1_000_000, 100, 10_000
_DEEP = 40
_VISION = ("torchvision", "models")


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
    if "batch_size" in sheet.fields:
        sheet.fields.setdefault("micro_batch", sheet.fields["batch_size"])
    if "timm" in sheet.fields:
        sheet.fields.setdefault("model", sheet.fields["timm"])
        sheet.fields.setdefault("task", ("train", sheet.where("timm")))
    if not sheet.fields:
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

    def read(self, tree: ast.Module) -> None:
        """Names first, so that a call may stand before what its arguments mean."""
        nodes = list(ast.walk(tree))
        for node in nodes:
            self._learn(node)
        for node in nodes:
            if isinstance(node, ast.Call):
                self._call(node)
            elif isinstance(node, ast.For):
                self._loop(node)
        for name, value in self.known.items():
            field = self._field(name.rpartition(".")[2].casefold())
            if field and isinstance(value, str | int | float) and not name.startswith("__"):
                self.sheet.put(field, value, f"{self.name}: {name.rpartition('.')[2]}")

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
        elif isinstance(node, ast.Call) and _last(node.func) == "add_argument":
            self._argument(node)
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    self._keep(key.value, value)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self._keep(target.id, value)
        elif isinstance(target, ast.Attribute):
            self._keep(target.attr, value)

    def _keep(self, name: str, value: ast.expr) -> None:
        if isinstance(value, ast.Call) and _last(value.func) == "field":  # of a dataclass
            value = next((one.value for one in value.keywords if one.arg == "default"), value)
        found = self.constant(value)
        if found is not None:
            self.known.setdefault(name, found)

    def _argument(self, node: ast.Call) -> None:
        """An argument of argparse with its default."""
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
        if isinstance(node, ast.Attribute):
            return self.known.get(node.attr, node.attr if _last(node.value) in ("torch", "jnp", "tf") else None)
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
        if (model := words["estimators"].get(name)) is not None:
            self.sheet.put("model", model, where)
            self.sheet.put("task", "train", where)
            return
        if owner in _VISION and name[:1].islower() and name not in ("load", "list_models", "get_model", "fit", "train"):
            self.sheet.put("model", name, where)
            self.sheet.put("task", "train" if not _is_pretrained(node) else "finetune", where)
            return
        for row in words["calls"]:
            if name not in row["names"] or not _fits(owner, row.get("on", ())):
                continue
            self._row(node, row, where)
            if row.get("first") == "ignored":
                return

    def _row(self, node: ast.Call, row: Mapping[str, Any], where: str) -> None:
        keys, variables = kept_words()["keys"], kept_words()["variables"]
        if (first := row.get("first")) and first != "ignored" and node.args:
            value = self.constant(node.args[0])
            if isinstance(value, str):
                self.sheet.put(first, value, where)
            else:
                self.sheet.leave(f"{ast.unparse(node.args[0])[:40]} ({first})", where)
        for field, value in row.get("sets", {}).items():
            self.sheet.put(field, value, where)
        for one in node.keywords:
            if one.arg is None or row.get("first") == "ignored":
                continue
            field = row.get("keywords", {}).get(one.arg) or keys.get(one.arg) or variables.get(one.arg)
            value = self.constant(one.value)
            if field and value is not None:
                self.sheet.put(field, value, where)
            elif field and field != "ignored":
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
    return left + right if isinstance(operator, ast.Add) and numbers else None


def _last(node: ast.expr) -> str:
    """The last word of what is called."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _owner(node: ast.expr) -> str:
    """The word before the last."""
    return _last(node.value) if isinstance(node, ast.Attribute) else ""


def _fits(owner: str, wanted: list[str] | tuple[str, ...]) -> bool:
    return not wanted or any(owner.endswith(word) for word in wanted)


def _is_pretrained(node: ast.Call) -> bool:
    """Whether weights are loaded: a fine-tune."""
    for one in node.keywords:
        if one.arg in ("weights", "pretrained"):
            return not (isinstance(one.value, ast.Constant) and one.value.value in (None, False))
    return bool(node.args) and isinstance(node.args[0], ast.Constant) and node.args[0].value is True
