"""Configurations of the classes of transformers against the classes themselves, built without
weights: how many are read, and how far their parameters are from the class's own count. The figures
stand in docs/concepts/configurations.md.

Usage beside pytest: python tests/oracle/test_config_coverage.py prints the table of that page.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import random
from collections.abc import Mapping
from typing import Any

import pytest

from rightfit.errors import RightfitError
from rightfit.facts.config_classes import config_class, known_types
from rightfit.facts.config_json import parse_config
from rightfit.facts.config_models import model_from_config

pytestmark = pytest.mark.deep
os.environ.setdefault("HF_HUB_OFFLINE", "1")

#: Class of tasks of transformers -> the least share that is read within LARGEST_ERROR.
GOALS: Mapping[str, tuple[str, float]] = {
    "causal language models": ("MODEL_FOR_CAUSAL_LM_MAPPING_NAMES", 0.95),
    "vision-language models": ("MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES", 0.95),
    "image classification": ("MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES", 0.8),
    "object detection": ("MODEL_FOR_OBJECT_DETECTION_MAPPING_NAMES", 0.8),
    "speech to text": ("MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES", 0.8),
    "all": ("MODEL_MAPPING_NAMES", 0.8),
}
LARGEST_ERROR = 0.02
SAMPLED = 40


def _transformers() -> Any:
    pytest.importorskip(
        "torch", reason="the counts of classes need torch: pip install torch --index-url https://download.pytorch.org/whl/cpu"
    )
    return pytest.importorskip("transformers", minversion="5.0", reason="the counts of classes need transformers 5")


def _class_of(name: str, config: Any) -> Any:
    """The class that is counted, as in the table."""
    import transformers

    known = config_class(name)
    for one in (getattr(transformers, known.model_class, None) if known else None, transformers.AutoModel):
        if one is not None:
            return one
    return None


def _count(name: str, config: Any) -> int:
    """Parameters of a class, built on the meta device."""
    import torch
    from transformers.initialization import no_init_weights

    maker = _class_of(name, config)
    with torch.device("meta"), no_init_weights():
        model = maker.from_config(config) if hasattr(maker, "from_config") else maker(config)
        with contextlib.suppress(Exception):  # classes that tie nothing, each in its way
            model.tie_weights()
    return sum(parameter.numel() for parameter in model.parameters())


@functools.cache
def _outcome(name: str) -> str:
    """Within, off, refused; empty where the class itself cannot be built from its defaults."""
    from transformers import CONFIG_MAPPING

    try:
        config = CONFIG_MAPPING[name]()
        counted = _count(name, config)
    except Exception:  # a default that its own class refuses, a library that is not there
        return ""
    written = {"model_type": name, **json.loads(config.to_json_string())}
    try:
        found = model_from_config(parse_config(json.dumps(written).encode(), label=name), name=name, label=name, source="test")
    except RightfitError as error:
        return f"refused: {error}"
    error = getattr(found, "params_total", 0) / counted - 1.0
    return "within" if abs(error) <= LARGEST_ERROR else f"off by {error:.1%}"


def coverage(mapping: str) -> tuple[int, int, dict[str, str]]:
    """How many classes of a mapping are read within the error, of how many that can be built, and
    what became of the others."""
    import transformers.models.auto.modeling_auto as auto

    outcomes = {name: found for name in getattr(auto, mapping) if (found := _outcome(name))}
    within = sum(found == "within" for found in outcomes.values())
    return within, len(outcomes), {name: found for name, found in outcomes.items() if found != "within"}


@pytest.mark.parametrize("group", GOALS)
def test_so_many_configurations_are_read_within_two_percent(group: str) -> None:
    _transformers()
    mapping, goal = GOALS[group]
    within, built, others = coverage(mapping)
    assert built > 10
    assert within >= goal * built, others


def test_classes_hold_where_several_keys_are_other_than_usual() -> None:
    """Sums were made from keys changed one at a time; here two to four are changed at once, by a
    seed that the recording never saw."""
    _transformers()
    from transformers import CONFIG_MAPPING

    chance = random.Random(20261127)
    names = [
        name for name in known_types() if (one := config_class(name)) and one.task in ("causal", "encoder", "image") and not one.subtypes
    ]
    tried, far = 0, {}
    for name in chance.sample(names, min(SAMPLED, len(names))):
        known = config_class(name)
        assert known is not None
        keys = [
            key
            for key, value in known.defaults.items()
            if type(value) is int and "." not in key and value > 1 and key in {k for _, _, p, _ in known.terms for k, _ in p}
        ]
        changes = {key: known.defaults[key] * chance.choice((2, 3)) for key in chance.sample(keys, min(len(keys), 3))}
        try:
            config = CONFIG_MAPPING[name](**changes)
            counted = _count(name, config)
        except Exception:  # keys that do not go together
            continue
        written = {"model_type": name, **json.loads(config.to_json_string())}
        try:
            found = model_from_config(parse_config(json.dumps(written).encode(), label=name), name=name, label=name, source="test")
        except RightfitError:  # heads that do not divide the width: refused, in one line
            continue
        tried += 1
        error = getattr(found, "params_total", 0) / counted - 1.0
        if abs(error) > LARGEST_ERROR:
            far[name] = (changes, error)
    assert tried >= SAMPLED // 2
    assert len(far) <= 0.1 * tried, far


if __name__ == "__main__":
    for shown, (mapping_name, _) in GOALS.items():
        good, whole, rest = coverage(mapping_name)
        print(f"| {shown} | {good} | {whole} | {', '.join(sorted(rest)) or 'none'} |")
