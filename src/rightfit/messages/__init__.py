"""What is said to the user, by key and fields: `Message("fleet.no_team", name=name).text("zh")`.
The sentences stand in gettext catalogs, one a room and language."""

from rightfit.messages.message import (
    LANGS,
    Lang,
    Message,
    at_place,
    cause,
    contradiction,
    did_you_mean,
    either,
    foreign,
    from_data,
    line_each,
    of_kind,
    spaced,
    system_problem,
    without_place,
    without_places,
)

__all__ = [
    "LANGS",
    "Lang",
    "Message",
    "at_place",
    "cause",
    "contradiction",
    "did_you_mean",
    "either",
    "foreign",
    "from_data",
    "line_each",
    "of_kind",
    "spaced",
    "system_problem",
    "without_place",
    "without_places",
]
