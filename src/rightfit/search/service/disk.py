"""What one server of a service or a batch job keeps on disk: weight files as they were published, a draft and adapters beside them.

The bill rents volumes by it, and the plan carries it (`estimate.disk_bytes`), so that the files that start a server make the disk large
enough.
"""

from __future__ import annotations

import numpy as np

from rightfit.estimate.convert import model_columns
from rightfit.estimate.serving_extras import kept_bytes
from rightfit.facts.records import TransformerArchitecture
from rightfit.physics import adapters
from rightfit.search.service.stacks import format_rows
from rightfit.search.service.wish import ServingWish, usual
from rightfit.search.weight_files import num_parameters, published_bytes


def weights_bytes(wish: ServingWish) -> float:
    """Everything that is fetched before the first request [bytes]: the model, a draft, adapters."""
    extras, model = wish.extras, wish.model
    found = published_bytes(model)
    if extras.draft is not None:
        found += published_bytes(extras.draft)
    if extras.adapters and isinstance(model, TransformerArchitecture):
        found += extras.adapters * float(adapters.adapter_bytes(model_columns([model]), rank=np.full(1, extras.adapter_rank))[0])
    return found


def kept_of(wish: ServingWish) -> float:
    """What caches of prompts take that are kept for later requests, on all servers together [bytes]."""
    if not wish.extras.hit_share:
        return 0.0
    return kept_bytes(wish.extras, wish.model, input_tokens=wish.input_tokens, rate_per_s=wish.rate_per_s, users=wish.users)


def disk_bytes(wish: ServingWish, run_format: str) -> float:
    """What a server keeps [bytes], with weights in the format that runs where its file is the larger, and a batch job's progress."""
    known = format_rows().get(run_format) if wish.generates else None
    as_run = num_parameters(wish.model) * float(known["bits"]) / 8.0 if known else 0.0
    more = max(0.0, as_run - published_bytes(wish.model))
    return weights_bytes(wish) + more + (float(usual()["batch_progress_bytes"]) if wish.is_batch else 0.0)
