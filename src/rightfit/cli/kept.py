"""Files of others and training scripts at the command line: read as wishes, and told what was found
and what was not used."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rightfit.cli.output import View, note
from rightfit.errors import ContradictionError
from rightfit.explain.messages import label
from rightfit.messages import Message

if TYPE_CHECKING:
    from rightfit.workload.kept_files import Kept

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
    from rightfit.workload.code_files import is_code, read_code
    from rightfit.workload.kept_files import read_kept

    if code is not None and (file is not None or (model is not None and is_code(model))):
        raise ContradictionError(Message("cli.code_or_file"), field="code")
    if code is None and model is not None and is_code(model):
        code, model = Path(model), None
    if code is not None:
        kept: Kept | None = read_code(code)
    else:
        kept = read_kept(file) if file is not None and str(file) != "-" else None
    if kept is None:
        return model, file, wishes
    given = {name: value for name, value in wishes.items() if value not in (None, ()) and name != "model"}
    _tell(kept, view, {"model": model, **given})
    if code is None:
        return model, file, wishes
    found = {**kept.wishes, **given}
    return model or found.pop("model", None), None, {name: value for name, value in found.items() if name != "model"}


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
