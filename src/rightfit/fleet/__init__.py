"""Many jobs and services at once: one plan to buy and place them.

This package shares its name with the public function `rightfit.fleet`, and importing it puts it in that function's place; so the package itself can be
called: `rightfit.fleet(...)` is `rightfit.api.fleet(...)`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _CallableRoom(ModuleType):
    def __call__(self, *values: Any, **settings: Any) -> Any:
        """One plan for many jobs and services; see rightfit.api.fleet."""
        from importlib import import_module

        return import_module("rightfit.api").fleet(*values, **settings)


sys.modules[__name__].__class__ = _CallableRoom
