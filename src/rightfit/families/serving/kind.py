"""The family of services of language models: online, and batches worked off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rightfit.families.serving.disaggregate import disaggregated_section
from rightfit.families.serving.explore import explore
from rightfit.families.serving.formats import freed_formats, quantisation_advice
from rightfit.families.serving.simulate import refuse_simulation, with_simulation
from rightfit.search.answer import Option, Section
from rightfit.search.family import Beside
from rightfit.search.service.economics import economics, server_of
from rightfit.search.service.found import ServingExploration
from rightfit.search.service.kind import service_family

if TYPE_CHECKING:
    from rightfit.catalog import Catalog


def other_ways(exploration: ServingExploration, options: tuple[Option, ...], catalog: Catalog) -> Beside:
    """Weights of fewer bits, an API, serverless, spot, prompts and answers apart."""
    freed = freed_formats(exploration, options, catalog)
    apart = (disaggregated(exploration, options[0]),) if options and not exploration.wish.is_batch else ()
    return Beside(quantisation_advice(freed, options) if freed else (), economics(exploration, options, freed, apart))


def disaggregated(exploration: ServingExploration, option: Option) -> Section | None:
    """Prompts and answers on servers of their own, of the option's kind."""
    machine = int(exploration.fleet.machine_index[server_of(exploration, option)])
    return disaggregated_section(exploration, option, machine=machine)


def play(exploration: ServingExploration, options: tuple[Option, ...], candidates: list[int]) -> tuple[Option, ...]:
    """The options with the simulation's figures."""
    refuse_simulation(exploration.wish)
    return with_simulation(exploration, options, candidates)


FAMILY = service_family("serving", explore, ways=other_ways, play=play)
