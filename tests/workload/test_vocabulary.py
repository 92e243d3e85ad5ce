"""Words and their other names."""

from __future__ import annotations

import pytest

from rightfit.errors import UnknownNameError
from rightfit.workload import vocabulary
from rightfit.workload.options import OPTIONS
from rightfit.workload.vocabulary import Vocabulary

VOCABULARIES = [value for value in vars(vocabulary).values() if isinstance(value, Vocabulary)]


@pytest.mark.parametrize("words", VOCABULARIES, ids=lambda words: words.words[0])
def test_aliases_lead_to_words_and_are_folded(words: Vocabulary) -> None:
    assert set(words.aliases.values()) <= set(words.words)
    assert not set(words.aliases) & set(words.words)
    assert all(alias == vocabulary.fold(alias) for alias in words.aliases)


def test_every_word_option_has_a_vocabulary() -> None:
    assert all((option.vocabulary is not None) == (option.kind in ("word", "words", "currency")) for option in OPTIONS.values())


@pytest.mark.parametrize(
    ("typed", "word"), [("Fine-Tuning", "finetune"), ("微调", "finetune"), (" 推理 ", "serve"), ("FINE_TUNE", "finetune")]
)
def test_other_names_of_tasks(typed: str, word: str) -> None:
    assert vocabulary.TASKS.find(typed, kind="task", field="task") == word


def test_nearest_word_is_offered() -> None:
    with pytest.raises(UnknownNameError) as caught:
        vocabulary.OPTIMIZERS.find("adamm", kind="optimizer", field="optimizer")
    assert caught.value.nearest[0] == "adamw"
    with pytest.raises(UnknownNameError) as caught:
        vocabulary.METHODS.find("zzz", kind="method", field="method")
    assert caught.value.nearest == ()
    assert "allowed: full, lora" in str(caught.value)


def test_countries_are_codes() -> None:
    assert all(len(code) == 2 and code.isupper() for code in vocabulary.COUNTRIES.values())
