"""Hourly load profiles: how the rate of requests moves over a day, named, typed by hand, or counted in a trace."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rightfit import reach
from rightfit.errors import FileInputError, QuantityError, UnknownNameError
from rightfit.messages import Message, system_problem
from rightfit.units import SECONDS_PER_HOUR
from rightfit.workload.traces import Requests
from rightfit.workload.vocabulary import DATA, nearest_words

Array = NDArray[np.float64]

HOURS = 24

_SHAPES = tomllib.loads((DATA / "profiles.toml").read_text(encoding="utf-8"))
#: Shapes by assumption, not by measurement: relative load of each hour from midnight. A user's own profile or trace is always better.
SHAPES: dict[str, tuple[float, ...]] = {name: tuple(hours) for name, hours in _SHAPES.items()}


def hourly_rates(profile: str, *, peak_per_s: float) -> Array:
    """Rates of 24 hours (24,) [1/s] whose busiest is `peak_per_s`: the name of a shape, or 24 numbers separated by commas (relative or in
    requests/s)."""
    if not 0 < peak_per_s < math.inf:
        raise QuantityError(Message("workload.no_rate", value=peak_per_s), field="rate")
    shape = shape_of(profile)
    return np.asarray(shape / shape.max() * peak_per_s)


def shape_of(profile: str) -> Array:
    """The 24 numbers (24,) that a profile says: those of a named shape, typed with commas, or in a file (one a line or with commas)."""
    name = profile.strip().casefold()
    if "," in name:
        shape = _typed(profile)
    elif _is_file(profile):
        shape = _typed(_file_text(profile), where=Message("workload.part_before", place=profile))
    elif name in SHAPES:
        shape = np.array(SHAPES[name])
    else:
        raise UnknownNameError(
            "load profile",
            profile,
            nearest=nearest_words(name, list(SHAPES), count=1),
            allowed=Message("workload.part_profiles", names=", ".join(SHAPES)),
        )
    return shape


def _is_file(profile: str) -> bool:
    if reach.is_closed():
        return any(mark in profile for mark in "./\\")
    return any(mark in profile for mark in "./\\") or Path(profile).is_file()


def _file_text(path: str) -> str:
    """The numbers of a file with commas: one a line, the last cell where a line has several (hour,rate), a heading left out."""
    reach.refuse_file(repr(path[:80]), field="profile")
    try:
        text = Path(path).read_text("utf-8-sig")
    except FileNotFoundError:
        raise FileInputError(Message("problems.no_file", name=path, hint="")) from None
    except UnicodeDecodeError:
        raise FileInputError(Message("workload.profile_not_text", path=path, hours=HOURS)) from None
    except (OSError, ValueError) as error:
        raise FileInputError(Message("problems.cannot_read", name=path, error=system_problem(error))) from None
    lines = [line.strip().strip("[]") for line in text[:100_000].splitlines() if line.strip().strip("[]")]
    if len(lines) == 1:
        return lines[0]
    if lines and not any(mark.isdigit() for mark in lines[0]):
        lines = lines[1:]
    return ",".join(line.rstrip(",").rpartition(",")[2] for line in lines)


def _typed(profile: str, *, where: Message | str = "") -> Array:
    cells = [cell.strip() for cell in profile.rstrip(", ").split(",")]
    if len(cells) != HOURS:
        raise QuantityError(Message("workload.profile_hours", line=where, hours=HOURS, count=len(cells)))
    values = np.zeros(HOURS)
    for hour, cell in enumerate(cells):
        try:
            values[hour] = float(cell)
        except ValueError:
            raise QuantityError(Message("workload.profile_no_number", line=where, hour=hour, cell=cell[:40])) from None
        if not 0 <= values[hour] < math.inf:
            raise QuantityError(Message("workload.profile_negative", line=where, hour=hour, cell=cell[:40]))
    if values.max() <= 0:
        raise QuantityError(Message("workload.profile_zero", line=where))
    return values


def profile_of(requests: Requests) -> Array:
    """Mean rate in each hour of the day (24,) [1/s] of a trace, days laid over one another; hour 0 is the first of the trace.

    Hours that the trace does not reach get its mean rate.
    """
    hours = np.asarray(requests.arrival_s // SECONDS_PER_HOUR, dtype=np.intp)
    counted = np.bincount(hours % HOURS, minlength=HOURS).astype(np.float64)
    end = float(requests.arrival_s[-1])
    starts = np.arange(hours[-1] + 1) * SECONDS_PER_HOUR
    covered = np.bincount(np.arange(starts.size) % HOURS, np.minimum(end - starts, SECONDS_PER_HOUR), HOURS)
    mean = counted.sum() / max(covered.sum(), 1.0)
    return np.where(covered > 60.0, counted / np.maximum(covered, 1.0), mean)
