"""What was used last is kept within its bytes, whoever asks at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from rightfit.recent import Recent


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
