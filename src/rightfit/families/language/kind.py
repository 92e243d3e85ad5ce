"""The family of language models: training and fine-tuning of transformers on tokens."""

from __future__ import annotations

from rightfit.families.language.engine import LanguageEngine
from rightfit.families.language.options import evaluate_rows
from rightfit.families.language.space import base_setup, fleet_of, load_of, space_limits
from rightfit.families.language.tuning_wish import tuned_layout
from rightfit.families.language.wish import read_wish
from rightfit.search.option_facts import WorkFacts
from rightfit.search.training.found import Craft
from rightfit.search.training.kind import training_family
from rightfit.search.training.wish import TrainingWish


def facts_of(wish: TrainingWish) -> WorkFacts:
    """What explanations need beside: how long sequences are, and how many tokens there are."""
    return {"seq_len": wish.seq_len, "tokens": wish.amount.tokens}


def engine_of(wish: TrainingWish) -> LanguageEngine:
    """The physics of a wish; that of tuning knows how engines answer, and few plans need it."""
    if wish.tuning is None:
        return LanguageEngine.of(wish.model)
    from rightfit.families.language.tuning import TunedEngine

    return TunedEngine.tuned(wish)


CRAFT = Craft(
    read=read_wish,
    limits=space_limits,
    fleet=fleet_of,
    base=lambda wish, machines: base_setup(wish, machines.variants),
    engine=lambda wish, _machines: engine_of(wish),
    load=load_of,
    evaluate=evaluate_rows,
    layout=lambda found, _details, _position, layout: tuned_layout(found.wish, layout),
    facts=facts_of,
    unit_cost=lambda wish: ("per_million_tokens_usd", wish.amount.tokens),
)
FAMILY = training_family("language", CRAFT)
