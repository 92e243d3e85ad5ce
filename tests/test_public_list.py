"""The public list of rightfit equals reality, and importing it is cheap."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path

import rightfit
from rightfit import api, errors, running
from rightfit.cli.app import build

SOURCE = Path(rightfit.__file__).parent.parent


def in_a_new_process(code: str) -> str:
    environment = dict(os.environ, PYTHONPATH=str(SOURCE))
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment).stdout.strip()


def test_list_is_sorted_and_complete() -> None:
    assert list(rightfit.__all__) == sorted(rightfit.__all__)
    functions = {
        name
        for name, item in vars(api).items()
        if inspect.isfunction(item) and item.__module__ == api.__name__ and not name.startswith("_")
    }
    functions |= {"ingest", "probe", "runs", "watch"}  # of rightfit.running
    classes = {name for name, item in vars(errors).items() if inspect.isclass(item) and item.__module__ == errors.__name__}
    assert set(rightfit.__all__) == (functions - {"read_workload"}) | classes | {"Workload", "__version__"}


def test_every_command_but_those_that_start_a_server_has_a_function_of_its_name() -> None:
    commands = {name for name, command in build().commands.items() if not getattr(command, "hidden", False)} - {"serve", "mcp"}
    assert len(commands) > 20
    assert [name for name in sorted(commands) if not inspect.isfunction(getattr(rightfit, name, None))] == []
    for room in ("market", "exports", "measure", "explain"):  # whichever modules are loaded
        in_a_new_process(f"import rightfit.{room}, rightfit; assert all(callable(getattr(rightfit, name)) for name in {sorted(commands)})")


def test_every_public_name_can_be_had_and_is_documented() -> None:
    for name in rightfit.__all__:
        value = getattr(rightfit, name)
        assert name == "__version__" or inspect.getdoc(value), name
    assert set(dir(rightfit)) == set(rightfit.__all__)


def test_public_functions_are_typed() -> None:
    for name in set(rightfit.__all__) & (vars(api).keys() | vars(running).keys()):
        signature = inspect.signature(getattr(rightfit, name))
        if inspect.isclass(getattr(rightfit, name)):
            continue
        assert signature.return_annotation is not inspect.Signature.empty
        assert all(parameter.annotation is not inspect.Parameter.empty for parameter in signature.parameters.values())


def test_import_loads_nothing_heavy() -> None:
    loaded = in_a_new_process(
        "import sys, rightfit; print(' '.join(name for name in ('numpy', 'pydantic', 'click', 'rich', 'yaml') if name in sys.modules))"
    )
    assert loaded == ""


def test_estimate_is_a_function_and_a_package_whichever_comes_first() -> None:
    assert in_a_new_process("import rightfit.estimation.figures, rightfit; print(callable(rightfit.estimate))") == "True"
    assert (
        in_a_new_process(
            "import rightfit; e = rightfit.estimate; import rightfit.estimation.figures as f; print(callable(e), f.Figure.__name__)"
        )
        == "True Figure"
    )


def test_unknown_names_are_attribute_errors() -> None:
    assert not hasattr(rightfit, "plam")
