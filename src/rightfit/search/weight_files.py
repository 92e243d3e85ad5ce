"""How large the weight files of a model are as they were published: what every server that starts from them keeps on disk."""

from __future__ import annotations

from typing import Any

import numpy as np

from rightfit import facts
from rightfit.facts.records import TracedModel, TransformerArchitecture

_PARTS = ("linear_bytes", "expert_bytes", "attention_bytes", "other_bytes")


def num_parameters(model: Any) -> float:
    """Parameters of a model, all components together."""
    return float(getattr(model, "params_total", 0) or getattr(model, "total_params", 0))


def published_bytes(model: Any) -> float:
    """The weight files of a model [bytes]: as counted in a file of one's own, else language models in 16 bit or fewer, all others in 32."""
    if isinstance(model, TransformerArchitecture):
        from rightfit.search.service.wish import is_generating

        if is_generating(model):
            return _decoder_bytes(model)
    known = model.stored_bytes if isinstance(model, TracedModel) else getattr(model, "model_bytes", 0.0)
    return float(known or num_parameters(model) * facts.coefficients("serving_planning")["other_weight_bytes"])


def _decoder_bytes(model: TransformerArchitecture) -> float:
    """A language model's files: each part in the format that it was published in."""
    from rightfit.estimate.convert import model_columns
    from rightfit.facts.engines import published_format, weight_formats
    from rightfit.physics import serving_memory
    from rightfit.physics.serving_columns import ServeColumns

    narrow = published_format(model.name)
    if not narrow:
        return model.params_total * float(facts.coefficients("serving_planning")["decoder_weight_bytes"])
    stored = weight_formats()[narrow]
    serve = ServeColumns().replace(**{name: np.full(1, getattr(stored, name)) for name in _PARTS})
    size = float(serving_memory.weights_bytes(model_columns([model]), serve)[0])
    return size * max(1.0, model.params_stored / model.params_total)  # files hold heads for several tokens beside
