"""Files of Python that no package holds, as modules: scripts, helpers of tests."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

SCRIPTS = Path(__file__).parents[2] / "scripts"


def load_module(path: Path) -> Any:
    """A file as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def load_script(name: str) -> ModuleType:
    """A script of the repository as a module."""
    module: ModuleType = load_module(SCRIPTS / f"{name}.py")
    return module
