"""Every option that takes free words, for every kind of work: a slip of the pen is refused in one
line, is read as what was meant, or the answer says that it read nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from test_options import KINDS, TABLE, answer_to, is_taken, refusal_of, rows_of

import rightfit
from rightfit.workload.options import OPTIONS

#: Kinds of options whose values are words of no closed list in the code; a model and a trace are
#: files or names with tests of their own.
FREE = tuple(
    name for name, option in OPTIONS.items() if option.kind in ("text", "names", "words", "slice") and name not in ("model", "trace")
)


def slips(value: str) -> tuple[str, ...]:
    """The last letter but one left out, and one letter too many."""
    return (*((value[:-2] + value[-1],) if len(value) > 3 else ()), value + "x")


def wishes() -> list[tuple[str, str, str]]:
    """(option, slip, kind): each value that the table of options has, with each slip, for the first
    kind that takes it."""
    found: dict[tuple[str, str], str] = {}
    for kind in KINDS:
        values = {**TABLE["options"], **rows_of("values", kind)}
        for option in FREE:
            if is_taken({**KINDS[kind], **rows_of("beside", kind).get(option, {}), option: values[option]}, option):
                for slip in slips(str(values[option])):
                    found.setdefault((option, slip), kind)
    return [(option, slip, kind) for (option, slip), kind in found.items()]


WISHES = wishes()


def test_every_free_option_is_walked() -> None:
    assert {option for option, _, _ in WISHES} == set(FREE)


@pytest.mark.parametrize(("option", "slip", "kind"), WISHES)
def test_a_slip_is_not_passed_over(option: str, slip: str, kind: str) -> None:
    beside: dict[str, Any] = {**KINDS[kind], **rows_of("beside", kind).get(option, {})}
    asked = {**beside, option: slip}
    refused = refusal_of(lambda: rightfit.plan(**asked, top=1))
    if refused is not None:
        assert ("\n" in str(refused), refused.exit_code) == (False, 2)
        return
    meant = str({**TABLE["options"], **rows_of("values", kind)}[option])
    is_told = any(slip in json.dumps(one.why.params, default=str) for one in rightfit.plan(**asked, top=1).assumptions)
    assert is_told or answer_to(asked) == answer_to({**beside, option: meant})
