"""What one token multiplies with is what the model says is active: over every
bundled language model."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from rightfit import facts
from rightfit.estimation.convert import model_columns
from rightfit.facts.records import TransformerArchitecture
from rightfit.physics import transformer
from rightfit.physics.collectives import Group, all_to_all_s, dispatch_s
from rightfit.physics.columns import LinkColumns, ModelColumns
from rightfit.physics.operators import RateColumns

#: Layers that share their weights multiply with them again and again.
SHARED = ("albert/",)
#: Tables that are looked up lie beside the word embedding (per-layer embeddings, positions of long
#: encoders, relative attention): fewer products.
LOOKED_UP = ("google/gemma-3n", "google/gemma-4-E", "allenai/led-")
#: Two attention blocks a layer and experts that compute nothing: the published mean of active
#: parameters follows the routing.
BY_ROUTING = ("meituan-longcat/LongCat-Flash",)
#: Dimensions that are the defaults of a class or of its preview, beside a count that was read.
BY_DEFAULTS = ("tencent/Hy4-preview", "RecursiveSI/flint")
#: Products per active parameter: how far dimensions and published counts may differ.
LEAST, MOST = 0.85, 1.1


@functools.cache
def decoders() -> tuple[str, ...]:
    names = (row["name"] for row in facts.table("models_transformer"))
    found = ((name, facts.model(name)) for name in names if not name.startswith(SHARED + LOOKED_UP + BY_ROUTING + BY_DEFAULTS))
    return tuple(name for name, one in found if isinstance(one, TransformerArchitecture) and "decoder" in one.kind)


def columns(names: tuple[str, ...]) -> ModelColumns:
    records = [facts.model(name) for name in names]
    return model_columns([one for one in records if isinstance(one, TransformerArchitecture)])


def products_per_active(model: ModelColumns) -> np.ndarray:
    """Weights of the products of a token over the active parameters that are not looked up."""
    counted = sum((item.flops_per_token / 2.0 for item in transformer.layer_matmuls(model)), start=np.zeros(1))
    ends = transformer.embedding_parameters(model) + transformer.head_parameters(model) + model.params_vision
    return np.asarray(counted / (model.params_active - ends))


def test_every_decoder_multiplies_with_its_active_parameters() -> None:
    names = decoders()
    assert len(names) > 300
    ratio = products_per_active(columns(names))
    off = {name: round(float(value), 3) for name, value in zip(names, ratio, strict=True) if not LEAST < value < MOST}
    assert off == {}


@pytest.mark.parametrize(
    ("name", "latent"),
    [
        ("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16", 1024.0),
        ("deepseek-ai/DeepSeek-V3", 7168.0),
        ("Qwen/Qwen3-30B-A3B", 2048.0),
        ("meta-llama/Meta-Llama-3-8B", 4096.0),
    ],
)
def test_experts_in_a_latent_width_are_found_from_the_counts(name: str, latent: float) -> None:
    assert float(transformer.expert_hidden_size(columns((name,)))[0]) == pytest.approx(latent, rel=0.01)


def test_one_row_answers_as_it_does_in_a_table() -> None:
    """The scale belongs to a row: a table of many models changes none of them."""
    names = ("nvidia/Nemotron-H-8B-Base-8K", "meta-llama/Meta-Llama-3-8B", "albert/albert-base-v2")
    together = products_per_active(columns(names))
    alone = [float(products_per_active(columns((name,)))[0]) for name in names]
    assert together == pytest.approx(alone)


def _links() -> LinkColumns:
    return LinkColumns.of(intra_bandwidth=[450e9], intra_kind=[3], inter_bandwidth=[400e9])


def _rates() -> RateColumns:
    from rightfit.estimation.training import rate_columns
    from rightfit.physics.columns import DeviceColumns, SetupColumns

    return rate_columns(SetupColumns(), DeviceColumns())


@pytest.mark.parametrize("chosen", [1.0, 2.0, 8.0, 22.0])
@pytest.mark.parametrize("servers", [1.0, 2.0, 8.0])
def test_a_token_sent_once_a_server_never_takes_longer_than_once_an_expert(chosen: float, servers: float) -> None:
    ranks = Group(np.array([8 * servers]), np.array([8.0]), np.array([1.0]))
    once = dispatch_s(np.array([1e8]), np.array([chosen]), ranks, _links(), _rates())
    each = all_to_all_s(np.array([1e8 * chosen]), ranks, _links(), _rates())
    assert once[0] <= each[0] * 1.0000001
    if chosen >= 8 and servers > 1:
        assert once[0] < each[0]
