"""Energy of servers and the CO2 of the grid that feeds them.

Source: Patterson et al. 2021 (arXiv 2104.10350), section 2; Cloud Carbon Footprint, methodology (power of processors and memory).
Known error: the building of servers and data centres (embodied CO2) is left out; a grid's yearly mean stands for every hour; what a seller
buys as green certificates does not count (location-based, GHG Protocol scope 2).
"""

from __future__ import annotations

import numpy as np

from rightfit.physics.columns import Array
from rightfit.units import GRAMS_PER_KG, SECONDS_PER_HOUR, WATTS_PER_KW


def server_w(
    *, num_cards: Array, card_w: Array, card_use: Array, vcpus: Array, memory_bytes: Array, vcpu_w: float, memory_w_per_byte: float
) -> Array:
    """Mean power of a server at work: cards x board power x use + vCPUs and memory at their mean draw.

    `num_cards` [1], `card_w` [W], `card_use` [1], `vcpus` [1], `memory_bytes` [bytes], `vcpu_w` [W], `memory_w_per_byte` [W/bytes] -> [W].
    """
    return np.asarray(num_cards * card_w * card_use + vcpus * vcpu_w + memory_bytes * memory_w_per_byte)


def energy_kwh(power_w: Array, *, servers: Array, time_s: Array, pue: Array) -> Array:
    """Energy at the meter of the building: power x servers x time x PUE.

    `power_w` [W], `servers` [1], `time_s` [s], `pue` [1] -> [kWh].
    """
    return np.asarray(power_w / WATTS_PER_KW * servers * time_s / SECONDS_PER_HOUR * pue)


def co2_kg(kwh: Array, *, grams_per_kwh: Array) -> Array:
    """CO2 equivalents of that energy.

    `kwh` [kWh], `grams_per_kwh` [g/kWh] -> [kg].
    """
    return np.asarray(kwh * grams_per_kwh / GRAMS_PER_KG)
