"""The family of services of one pass: encoders, vision, diffusion, speech, recommenders, classical models; online, and batches worked
off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rightfit.families.passes.explore import explore
from rightfit.search.answer import Option
from rightfit.search.family import Beside
from rightfit.search.service.economics import economics
from rightfit.search.service.found import ServingExploration
from rightfit.search.service.kind import service_family

if TYPE_CHECKING:
    from rightfit.catalog import Catalog


def other_ways(exploration: ServingExploration, options: tuple[Option, ...], _catalog: Catalog) -> Beside:
    """Serverless, spot, a mixed fleet."""
    return Beside(sections=economics(exploration, options))


FAMILY = service_family("passes", explore, ways=other_ways)
