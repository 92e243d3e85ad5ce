"""Architectures of modules that carry a Hugging Face configuration."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from rightfit.errors import RightfitError
from rightfit.facts.records import TransformerArchitecture

#: Heads and biases that a configuration does not tell.
LARGEST_DIFFERENCE = 0.02


def architecture_of(config: Mapping[str, Any] | None, params: int, *, name: str, source: str) -> TransformerArchitecture | None:
    """The transformer that `config` describes; None where it describes none, or one of another size than `params`."""
    if not config:
        return None
    from rightfit.facts.config_architecture import architecture_from_config

    try:
        found = architecture_from_config(config, name=name, label=f"{name} config", source=source)
    except RightfitError:
        return None
    if not found.vocab_size or abs(found.params_total - params) > LARGEST_DIFFERENCE * params:
        return None
    return dataclasses.replace(found, params_total=params)
