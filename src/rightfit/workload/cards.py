"""How people write the cards that they have."""

from __future__ import annotations

import re

_FORM = re.compile(r"(?:(?P<count>\d{1,3})\s*[x×*]?\s*)?(?P<gpu>[A-Za-z][\w .+-]*?)\s*(?:@\s*(?P<place>[^@]+))?")


def read_cards(text: str) -> tuple[int, str, str | None] | None:
    """ "2x RTX-3090@home" as (2, "RTX-3090", "home"): 1 where no count is said, None where no place is, None altogether where it is no such text."""
    form = _FORM.fullmatch(text.strip())
    return None if form is None else (int(form["count"] or 1), form["gpu"], form["place"])
