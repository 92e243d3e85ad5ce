"""Whether the software that a case names is one that the estimates know: a name that nobody knows tells as little as an empty cell."""

from __future__ import annotations

import functools

from rightfit.facts.classical_words import library_of
from rightfit.facts.engines import engine_class
from rightfit.facts.pattern_tables import first_match
from rightfit.facts.trainers import sample_stack, software_class
from rightfit.facts.word_tables import says

#: The column that names the software, by kind of case.
COLUMNS = {"training": "framework", "serving": "engine", "forward": "engine", "samples": "framework", "classical": "library"}


@functools.lru_cache(maxsize=4096)
def is_known_software(kind: str, text: str) -> bool:
    """Whether `text`, the cell of COLUMNS[kind], names software that is known; an empty cell names none."""
    words = text.strip().lower()
    if not words:
        return False
    if kind in ("training", "forward", "samples") and says("software", kind, words):
        return True
    known = {
        "training": lambda: software_class(words) != 0,
        "serving": lambda: engine_class(words).name != "generic",
        "forward": lambda: first_match("forward_engines", words) is not None,
        "samples": lambda: sample_stack(words) != "eager",
        "classical": lambda: library_of(words) != "other",
    }
    return known[kind]()
