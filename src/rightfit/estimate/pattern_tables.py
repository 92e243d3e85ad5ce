"""Tables whose rows are found by a pattern of a name: see rightfit.facts.pattern_tables."""

from __future__ import annotations

from rightfit.facts.pattern_tables import alias, beginning, first_match, matches

__all__ = ["alias", "beginning", "first_match", "matches"]
