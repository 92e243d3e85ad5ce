"""Words that name a choice (task, method, purchase mode, cloud, precision ...) in a sentence: facts/data/words/{choices,fillers}.csv as
patterns."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rightfit.facts import word_tables
from rightfit.workload.vocabulary import CLOUDS, COUNTRIES

TABLE = "choices"


def pattern(names: Iterable[str]) -> re.Pattern[str]:
    """Any of the names, the longest first."""
    return re.compile("|".join(map(word_tables.name_pattern, sorted(names, key=len, reverse=True))), re.IGNORECASE)


def listed(chosen: str, table: str = TABLE) -> list[str]:
    """The words of one list."""
    return [word.word for word in word_tables.words(table, chosen)]


def _spelled(chosen: str) -> dict[str, re.Pattern[str]]:
    """Value -> pattern of its names."""
    names: dict[str, list[str]] = {}
    for word in word_tables.words(TABLE, chosen):
        names.setdefault(word.meaning, []).append(word.word)
    return {value: pattern(spellings) for value, spellings in names.items()}


METHODS = _spelled("method")
UPDATES = {value: spelled for value, spelled in METHODS.items() if value in ("qlora", "dora", "lora", "full")}
TUNING_METHODS = _spelled("tuning_method")
TUNING_KINDS = _spelled("tuning_kind")
PURCHASES = _spelled("purchase")
PRECISIONS = _spelled("precision")
QUANTIZATIONS = _spelled("quantization")
OPTIMIZERS = _spelled("optimizer")
SHARDINGS = _spelled("sharding")
FRAMEWORKS = _spelled("framework")
OBJECTIVES = _spelled("objective")
MAX_NODES = _spelled("max_nodes")
UNPLANNED = _spelled("unplanned_method")
RESIDENCIES = _spelled("residency")
WEIGHTY = pattern(listed("weighty"))
"""Words of wishes that no option holds: an answer that left them out would be one to another question."""
OWNING = pattern(listed("owning"))
"""Words before cards that somebody has already, and where such a machine stands."""
OWN_PLACES = _spelled("own_place")
TASKS = _spelled("task")
"""Words that hint at a task, the most telling task first."""
STRONG = _spelled("strong")
"""Words that say it."""
_NOT_ALONE = frozenset(listed("cloud_not_alone"))
CLOUD_NAMES = {
    **{name: name for name in listed("cloud") if name not in _NOT_ALONE},
    **{alias.replace("-", " "): cloud for alias, cloud in CLOUDS.items() if alias not in _NOT_ALONE},
    **word_tables.senses(TABLE, "cloud_name"),
}
CLOUD = pattern(CLOUD_NAMES)
COUNTRY_NAMES = {
    **{alias.replace("-", " "): code for alias, code in COUNTRIES.items() if len(alias) > 2 or not alias.isascii()},
    **word_tables.senses(TABLE, "continent"),
}
COUNTRY = pattern(COUNTRY_NAMES)
COUNTRY_CODES = word_tables.senses(TABLE, "country_code")
_BEFORE_CODE = "|".join(f"(?<={word})" for word in listed("before_country_code"))
COUNTRY_CODE = word_tables.shape(TABLE, rf"(?:{_BEFORE_CODE})(?P<code>{{country_code}})(?![A-Za-z])")
REGION = word_tables.shape(TABLE, r"(?<![\w-])(?:{region_start}-[a-z]+(?:-?[a-z]+)?-?\d?[a-z]?|{region_start_whole}-[a-z]+\d)(?![\w-])")
CITY = pattern(listed("city"))
FILLERS = frozenset(listed("filler_en", "fillers"))
NO_ADJECTIVES = frozenset(listed("no_adjective", "fillers"))
"""Words that say nothing of the thing after them: what stands before them counts something else."""
FILLERS_ZH = word_tables.shape("fillers", "{filler_zh}")


def is_of_machine(piece: str) -> bool:
    """Whether words that were left over tell of a machine of one's own, or where it stands."""
    return bool(OWNING.fullmatch(piece) or any(spelled.fullmatch(piece) for spelled in OWN_PLACES.values()))
