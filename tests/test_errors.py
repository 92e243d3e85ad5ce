"""The exception tree: exit codes, messages, and that its drawing is true."""

from __future__ import annotations

import inspect
import re

import pytest

from rightfit import errors


def tree(base: type[Exception], depth: int = 0) -> list[tuple[int, str]]:
    found = [(depth, base.__name__)]
    for child in base.__subclasses__():
        if child.__module__ == errors.__name__:
            found += tree(child, depth + 1)
    return found


def test_the_drawing_shows_every_class() -> None:
    drawn = re.findall(r"\b\w+Error\b", str(errors.__doc__))
    assert drawn == [name for _, name in tree(errors.RightfitError)]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.InputError("x"), 2),
        (errors.UnknownNameError("cloud", "awss"), 2),
        (errors.AmbiguousNameError("model", "llama", ["a", "b"]), 2),
        (errors.FileInputError("x"), 2),
        (errors.NoAnswerError("x"), 1),
        (errors.UnavailableError("x"), 3),
        (errors.MissingComponentError("x"), 3),
        (errors.NetworkError("x"), 3),
        (errors.CatalogError("x"), 3),
    ],
)
def test_exit_codes(error: errors.RightfitError, code: int) -> None:
    assert error.exit_code == code


def test_unknown_name_says_what_is_nearest_and_allowed() -> None:
    error = errors.UnknownNameError("method", "qlroa", nearest=["qlora", "lora"], allowed="allowed: lora, qlora", field="method")
    assert str(error) == "unknown method 'qlroa'; allowed: lora, qlora; did you mean qlora, lora?"
    assert error.nearest == ("qlora", "lora")
    assert error.field == "method"


def test_long_names_are_cut() -> None:
    assert len(str(errors.UnknownNameError("model", "x" * 10_000))) < 120


def test_every_class_is_documented() -> None:
    classes = [item for item in vars(errors).values() if inspect.isclass(item) and item.__module__ == errors.__name__]
    assert all(inspect.getdoc(item) for item in classes)
