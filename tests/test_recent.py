"""What was used last is kept within its bytes, whoever asks at once."""

from __future__ import annotations

import ast
import copy
import dataclasses
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from source import every_module, nodes_of

from rightfit.recent import Recent, exact_key


def kept(most_bytes: int = 100) -> Recent[str, bytes]:
    return Recent(most_bytes, size_of=len)


def test_the_least_recently_used_makes_room() -> None:
    values = kept()
    for name in "abcde":
        values.put(name, bytes(20))
    assert values.get("a") is not None  # used, so b is now the oldest
    values.put("f", bytes(20))
    assert (values.get("b"), values.size_bytes, len(values)) == (None, 100, 5)
    assert values.get("a") == bytes(20)


def test_a_value_that_would_fill_more_than_a_quarter_is_not_kept_and_drops_none() -> None:
    values = kept()
    values.put("a", bytes(20))
    values.put("b", bytes(values.largest_bytes + 1))
    assert (values.get("b"), len(values), values.size_bytes) == (None, 1, 20)


def test_a_value_put_anew_is_counted_once_and_clearing_counts_nothing() -> None:
    values = kept()
    for size in (10, 25, 5):
        values.put("a", bytes(size))
    assert (values.get("a"), values.size_bytes) == (bytes(5), 5)
    values.clear()
    assert (len(values), values.size_bytes) == (0, 0)


def test_many_threads_leave_the_count_right() -> None:
    values = kept(1_000)

    def use(seed: int) -> None:
        for number in range(2_000):
            name = str((seed * 7 + number * 13) % 97)
            values.put(name, bytes(number % 250))
            values.get(name)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(use, range(8)))
    assert values.size_bytes <= 1_000
    assert values.size_bytes == sum(len(values.get(str(name)) or b"") for name in range(97))


@dataclasses.dataclass(frozen=True)
class Measured:
    name: str
    values: Any


PAIRS: list[tuple[Any, Any]] = [
    (np.arange(2000.0), np.where(np.arange(2000) == 1000, 7.0, np.arange(2000.0))),
    (np.zeros((2, 3)), np.zeros((3, 2))),
    (np.zeros(2, dtype=np.float32), np.zeros(1, dtype=np.float64)),
    (np.array(["a", None], dtype=object), np.array(["a", "None"], dtype=object)),
    (np.float64(1.0), np.float32(1.0)),
    (1, True),
    (1, 1.0),
    (1, "1"),
    (None, "None"),
    (0.1, 0.1 + 2**-55),
    (float("nan"), "nan"),
    (("a", "b"), ("a, b",)),
    (("a", ("b",)), (("a",), "b")),
    (["a"], ("a",)),
    ({"a": 1}, {"a": 2}),
    ({"a": {"b": 1}}, {"a": {"c": 1}}),
    ({1}, {2}),
    (Path("a"), "a"),
    ("x" * 30_000 + "a", "x" * 30_000 + "b"),
    ("\udcff", "\\udcff"),
]


@pytest.mark.parametrize(
    "wrap", [lambda value: value, lambda value: Measured("a", value), lambda value: {"a": [value]}], ids=["bare", "record", "mapping"]
)
@pytest.mark.parametrize(("one", "other"), PAIRS, ids=range(len(PAIRS)))
def test_what_differs_has_another_key(one: Any, other: Any, wrap: Callable[[Any], Any]) -> None:
    assert exact_key(wrap(one)) != exact_key(wrap(other))
    assert exact_key(wrap(one)) == exact_key(wrap(copy.deepcopy(one)))


def test_an_array_that_numpy_prints_in_short_is_read_to_its_last_byte() -> None:
    one, other = (np.arange(2000.0), np.arange(2000.0))
    other[1000] = 7.0
    assert repr(one) == repr(other), "what made two questions one"
    assert exact_key(Measured("a", one)) != exact_key(Measured("a", other))
    assert exact_key(one) != exact_key(one[:, None])
    assert exact_key(np.asfortranarray(np.arange(6.0).reshape(2, 3))) == exact_key(np.arange(6.0).reshape(2, 3))


def test_parts_and_mappings() -> None:
    assert exact_key("a", "b") != exact_key("ab")
    assert exact_key(np.ones(2), np.ones(1)) != exact_key(np.ones(1), np.ones(2))
    assert exact_key({"a": 1, "b": 2}) == exact_key({"b": 2, "a": 1})


def test_an_object_that_hides_what_it_holds_is_no_part_of_a_key() -> None:
    with pytest.raises(TypeError, match="does not say what it holds"):
        exact_key({"a": object()})


#: What puts answers by a key, or makes a key.
KEYED = frozenset({"put", "ask", "exact_key", "key_of", "sha256", "blake2b"})
#: The name of a plan, which is no key of an answer, and is made of JSON alone.
NAMES = {"exports/job.py"}


def printed_keys(nodes: Iterable[ast.AST]) -> list[int]:
    """Lines where something printed becomes a part of a key."""
    found = []
    for call in nodes:
        if isinstance(call, ast.Call) and getattr(call.func, "attr", getattr(call.func, "id", "")) in KEYED:
            for part in ast.walk(call):
                shown = isinstance(part, ast.FormattedValue) and part.conversion == ord("r")
                made = isinstance(part, ast.Name) and part.id == "repr"
                found += [call.lineno] if shown or made or (isinstance(part, ast.keyword) and part.arg == "default") else []
    return found


def test_no_key_is_made_of_what_an_object_prints() -> None:
    assert [f"{name}:{line}" for name, path in every_module().items() if name not in NAMES for line in printed_keys(nodes_of(path))] == []
    text = "kept.put((repr(job)[:20_000], target), found)\nsha256(json.dumps(parts, default=str).encode())\nkept.put(f'{job!r}', 1)"
    assert printed_keys(ast.walk(ast.parse(text))) == [1, 2, 3]
