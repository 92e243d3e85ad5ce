"""From columns of facts and settings to figures with intervals.

This package shares its name with the public function `rightfit.estimate`, and importing it puts it in that function's place; so the package
itself can be called: `rightfit.estimate(...)` is `rightfit.api.estimate(...)`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _CallableRoom(ModuleType):
    def __call__(self, *values: Any, **wishes: Any) -> Any:
        """What a workload does on one given server; see rightfit.api.estimate."""
        from importlib import import_module

        return import_module("rightfit.api").estimate(*values, **wishes)


sys.modules[__name__].__class__ = _CallableRoom
