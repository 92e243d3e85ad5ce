"""What a launcher calls a seller's server, where that is not the seller's instance type: RunPod rents cards by the pod and has no types."""

from __future__ import annotations

import re

from rightfit.export.document import OptionPart
from rightfit.facts.tables import table
from rightfit.messages import Message

RUNPOD = "runpod"
_BY_THE_CARD = re.compile(r"\d+x_")
_MEMORY = re.compile(r"\d+GB$")


def skypilot_name(option: OptionPart, instance_type: str = "") -> str:
    """The instance type in SkyPilot's catalog, "1x_RTX4090_SECURE" on RunPod's own hosts; "" where it has none for the card.

    `instance_type`: another host of the seller with the option's accelerators.
    """
    if option.provider != RUNPOD:
        return instance_type or option.instance_type
    card = _card(option, "skypilot")
    return f"{option.accelerator.count_per_node}x_{card}_SECURE" if option.accelerator and card else ""


def dstack_name(option: OptionPart) -> str:
    """The instance type that dstack knows: on RunPod the identifier of the card, of which `resources` says how many; "" where unknown."""
    return _card(option, "runpod") if option.provider == RUNPOD else option.instance_type


def is_by_the_card(option: OptionPart) -> bool:
    """Whether the price list names cards and no instance type ("8x_H200-SXM-141GB"): then a launcher is told the cards."""
    return option.provider != RUNPOD and _BY_THE_CARD.match(option.instance_type) is not None


def dstack_cards(option: OptionPart) -> dict[str, str | int]:
    """The cards as dstack's `resources.gpu` names them: H200 of 141 GB, eight of them."""
    assert option.accelerator is not None
    name, memory = option.accelerator.name.partition("-")[0], _MEMORY.search(option.accelerator.name)
    return {"name": name, **({"memory": memory[0]} if memory else {}), "count": option.accelerator.count_per_node}


def name_problem(option: OptionPart, name: str, program: Message | str) -> Message | str:
    """Why the program cannot be asked for this server ("" if it can)."""
    card = option.accelerator.name if option.accelerator else Message("export.a_server_without_cards")
    return "" if name else Message("export.part_no_pod", program=program, provider=option.provider, card=card)


def _card(option: OptionPart, column: str) -> str:
    wanted = option.accelerator.name if option.accelerator else ""
    return next((row[column] for row in table("runpod_cards") if row["accelerator"] == wanted), "")
