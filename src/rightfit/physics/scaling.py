"""How many replicas, when, and what that costs: headroom, spares, autoscaling, cold starts, scale
to zero, spot mixes, APIs.

Pure arithmetic on arrays. Rates are requests per second, a month is 730 hours, a profile is the
mean rate of each hour (H,) or (N, H).

Source: accounting; docs/decisions/serving-economics.md.
"""

from __future__ import annotations

import math

import numpy as np

from rightfit.physics.columns import Array
from rightfit.records import dataclass
from rightfit.units import HOURS_PER_MONTH, MILLION, SECONDS_PER_HOUR


def replicas_for_rate(rate_per_s: Array, *, capacity_per_s: Array, headroom: Array, spare: Array) -> Array:
    """Replicas that serve a rate with a share of their capacity kept free, and `spare` more.

    `rate_per_s`, `capacity_per_s` [requests/s], capacity that of one replica at the latency target,
    `headroom` [1], 0.3 = at most 70 % used, `spare` [replicas] that may fail together (1 =
    N + 1) -> [replicas], at least 1.
    n = max(1, ceil(rate / (capacity * (1 - headroom)))) + spare. Example: 25/s at 4/s each and 20 %
    headroom: ceil(25 / 3.2) = 8.
    """
    needed = np.ceil(rate_per_s / (capacity_per_s * (1.0 - headroom)) - 1e-9)
    return np.maximum(needed, 1.0) + spare


def daily_replicas(rates_per_s: Array, *, capacity_per_s: Array, headroom: Array, spare: Array) -> Array:
    """Replicas in each hour of a profile. Hours without requests still keep one.

    `rates_per_s` [requests/s, (N, H)], `capacity_per_s` [requests/s], `headroom` [1], `spare`
    [replicas] -> [replicas, (N, H)].
    """
    return replicas_for_rate(rates_per_s, capacity_per_s=capacity_per_s[:, None], headroom=headroom[:, None], spare=spare[:, None])


@dataclass(frozen=True, slots=True)
class ColdStart:
    """Seconds from the wish for a replica to its first request, by part, each (N,).

    Units: `provision_s`, `image_s`, `weights_s`, `warm_up_s` [s].
    """

    provision_s: Array
    image_s: Array
    weights_s: Array
    warm_up_s: Array

    @property
    def total_s(self) -> Array:
        """All parts; they follow one another -> [s]."""
        return self.provision_s + self.image_s + self.weights_s + self.warm_up_s


def cold_start(
    *,
    weights_bytes: Array,
    weights_bytes_per_s: Array,
    device_bytes_per_s: Array,
    image_bytes: Array,
    image_bytes_per_s: Array,
    unpack_bytes_per_s: Array,
    provision_s: Array,
    warm_up_s: Array,
) -> ColdStart:
    """Cold start of a replica.

    `weights_bytes` [bytes], streamed from disk or object store at `weights_bytes_per_s` [bytes/s],
    then or at once to the devices at `device_bytes_per_s` [bytes/s]: the slower of the two decides
    because loaders overlap them; `image_bytes` [bytes] of the compressed container image (0 when it
    is cached on the node), pulled at `image_bytes_per_s` [bytes/s] and unpacked at
    `unpack_bytes_per_s` [bytes/s] of compressed bytes, one after the other as containerd does per
    layer; `provision_s` [s] until the server runs (0 when a warm node waits); `warm_up_s` [s] of
    engine start, graph capture, compilation.
    Example: 16 GB at 1 GB/s with 20 GB/s to the device: 16 s; 10 GB image at 0.5 GB/s and
    0.2 GB/s: 20 + 50 s.
    Known error: first reads from lazily loaded volumes (EBS snapshots, lazy object mounts) run at a
    small part of the rate.
    """
    image = image_bytes / image_bytes_per_s + image_bytes / unpack_bytes_per_s
    weights = weights_bytes / np.minimum(weights_bytes_per_s, device_bytes_per_s)
    return ColdStart(provision_s, image, weights, warm_up_s)


@dataclass(frozen=True, slots=True)
class Autoscale:
    """Settings of an autoscaler for N services, each (N,): replicas at least and at most; requests
    in flight per replica at which one is added (KEDA or HPA target value); the load (share of
    capacity) that this means; seconds to wait before one is taken away.

    Units: `min_replicas`, `max_replicas` [replicas], `target_in_flight` [requests], `target_load`
    [1], `cooldown_s` [s].
    """

    min_replicas: Array
    max_replicas: Array
    target_in_flight: Array
    target_load: Array
    cooldown_s: Array


def steepest_growth(rates_per_s: Array) -> Array:
    """Largest rise of a daily profile, as rate per second of time: from one hour to the next, the
    last to the first.

    `rates_per_s` [requests/s, (N, H)] -> [requests/s^2].
    """
    rise = np.roll(rates_per_s, -1, axis=-1) - rates_per_s
    growth: Array = np.maximum(rise.max(axis=-1), 0.0) / SECONDS_PER_HOUR
    return growth


def autoscale(
    rates_per_s: Array,
    *,
    capacity_per_s: Array,
    latency_s: Array,
    headroom: Array,
    spare: Array,
    cold_start_s: Array,
    reaction_s: Array,
    least_cooldown_s: Array,
    cooldown_starts: Array,
    least_target: Array,
) -> Autoscale:
    """Thresholds for a daily profile.

    `rates_per_s` [requests/s, (N, H)], `capacity_per_s` [requests/s] of one replica at its SLO,
    `latency_s` [s] of a request at that load, `headroom` [1], `spare` [replicas], `cold_start_s`
    [s], `reaction_s` [s] until the scaler acts (KEDA polls every 30 s, HPA every 15 s),
    `least_cooldown_s` [s], `cooldown_starts` [1] cold starts that a cooldown lasts at least,
    `least_target` [1] of (1 - headroom) below which no replica is added.
    The replicas of an hour must carry what comes until one more is ready: load at
    which one is added
        target = (1 - headroom) * (1 - growth * (cold start + reaction) / rate at the steepest
            hour), at least least_target of it,
    in flight = target * capacity * latency (Little 1961). min = replicas of the quietest hour,
    max = of the busiest with the headroom for growth. cooldown = max(least_cooldown_s,
    cooldown_starts * cold start): HPA's default stabilisation is 300 s; with k cold starts, at most
    1 / (1 + k) of the time that is paid for a replica which comes and goes is spent on starting it.
    Example: rise 36/s in an hour = 0.01/s^2, 120 s to react and start: 1.2/s come meanwhile; of
    12/s that is 10 %, so 0.7 * 0.9 = 0.63.
    """
    growth = steepest_growth(rates_per_s)
    steepest = np.argmax(np.roll(rates_per_s, -1, axis=-1) - rates_per_s, axis=-1)
    there = np.maximum(np.take_along_axis(rates_per_s, steepest[:, None], axis=-1)[:, 0], capacity_per_s * (1.0 - headroom))
    meanwhile = growth * (cold_start_s + reaction_s) / there
    target = (1.0 - headroom) * np.maximum(1.0 - meanwhile, least_target)
    counts = daily_replicas(rates_per_s, capacity_per_s=capacity_per_s, headroom=1.0 - target, spare=spare)
    return Autoscale(
        min_replicas=counts.min(axis=-1),
        max_replicas=counts.max(axis=-1),
        target_in_flight=np.maximum(np.floor(target * capacity_per_s * latency_s), 1.0),
        target_load=target,
        cooldown_s=np.maximum(cooldown_starts * cold_start_s, least_cooldown_s),
    )


def awake_share(rate_per_s: Array, *, busy_s: Array, idle_before_sleep_s: Array, cold_start_s: Array) -> Array:
    """Share of the time that a service which scales to zero is up and billed, Poisson requests.

    `rate_per_s` [requests/s], `busy_s` [s] that a request takes, `idle_before_sleep_s` [s] kept up
    after the last, `cold_start_s` [s], billed -> [1]. One cycle: asleep 1 / rate; then up for cold
    start + busy period + the idle time. Requests that come within the idle time T prolong it: the
    expected time until a gap over T is (exp(rate T) - 1) / rate, busy time on top rho / (1 - rho)
    as in M/G/infinity is left out below one request at a time. share = up / (up + 1 / rate). Known
    error: under 2 % for rate * busy < 0.1; an upper bound is 1.
    """
    rate = np.maximum(rate_per_s, 1e-15)
    exponent = np.minimum(rate * (idle_before_sleep_s + busy_s), 700.0)
    up = cold_start_s + np.expm1(exponent) / rate
    share: Array = up / (up + 1.0 / rate)
    return share


def cold_share(rate_per_s: Array, *, busy_s: Array, idle_before_sleep_s: Array, cold_start_s: Array) -> Array:
    """Share of the requests that meet a sleeping or starting service: those of one start over
    those of one cycle.

    `rate_per_s` [requests/s], `busy_s`, `idle_before_sleep_s`, `cold_start_s` [s] -> [1].
    A cycle of length 1 / rate / (1 - awake share) has rate * cycle requests; the first wakes the
    service and rate * cold start more come while it starts.
    """
    share = awake_share(rate_per_s, busy_s=busy_s, idle_before_sleep_s=idle_before_sleep_s, cold_start_s=cold_start_s)
    rate = np.maximum(rate_per_s, 1e-15)
    met: Array = np.minimum((1.0 + rate * cold_start_s) * (1.0 - share), 1.0)
    return met


def serverless_usd_per_month(
    rate_per_s: Array,
    *,
    busy_s: Array,
    price_usd_per_s: Array,
    request_usd: Array,
    idle_before_sleep_s: Array,
    cold_start_s: Array,
    concurrency: Array,
    month_h: float = HOURS_PER_MONTH,
) -> Array:
    """Monthly price of a service billed per second of instance time and per request.

    `rate_per_s` [requests/s], `busy_s` [s], `price_usd_per_s` [USD/s] of one running instance (GPU,
    vCPU and memory together), `request_usd` [USD], `idle_before_sleep_s`, `cold_start_s` [s],
    `concurrency` [requests] that one instance serves at once, `month_h` [h] of a month in which
    requests come -> [USD/month]. Instances beyond the
    first follow the load: max(awake share, rate * busy / concurrency) * price * month + requests.
    Services that bill only while a request runs have idle_before_sleep_s and cold_start_s of 0.
    """
    billed_alone = rate_per_s * busy_s / concurrency
    idle_billed = (idle_before_sleep_s + cold_start_s) > 0
    awake = awake_share(rate_per_s, busy_s=busy_s, idle_before_sleep_s=idle_before_sleep_s, cold_start_s=cold_start_s)
    instances = np.where(idle_billed, np.maximum(awake, billed_alone), billed_alone)
    return month_h * SECONDS_PER_HOUR * (instances * price_usd_per_s + rate_per_s * request_usd)


def serverless_break_even_per_s(
    *, server_usd_per_h: Array, busy_s: Array, price_usd_per_s: Array, request_usd: Array, concurrency: Array
) -> Array:
    """Rate above which a server that is always on is cheaper than pay per use without idle billing.

    `server_usd_per_h` [USD/h], `busy_s` [s], `price_usd_per_s` [USD/s], `request_usd` [USD],
    `concurrency` [requests] -> [requests/s], infinite when use is free. server / 3600 = rate *
    (busy / concurrency * price + request). Example: 1.2 USD/h against 0.0005 USD/s at 2 s a
    request: 0.333/s.
    """
    per_request = busy_s / concurrency * price_usd_per_s + request_usd
    rate: Array = np.divide(
        server_usd_per_h / SECONDS_PER_HOUR,
        per_request,
        out=np.full(np.broadcast(server_usd_per_h, per_request).shape, np.inf),
        where=per_request > 0,
    )
    return rate


def scale_to_zero_break_even_per_s(
    *, server_usd_per_h: Array, price_usd_per_s: Array, busy_s: Array, idle_before_sleep_s: Array, cold_start_s: Array
) -> Array:
    """Rate above which a server that is always on is cheaper than one that sleeps and costs
    `price_usd_per_s` while awake.

    `server_usd_per_h` [USD/h], `price_usd_per_s` [USD/s], `busy_s`, `idle_before_sleep_s`,
    `cold_start_s` [s] -> [requests/s]. Solves awake share = server price / awake price in closed
    form, x = rate: (x C + exp(x T) - 1) / (1 + x C + exp(x T) - 1) = f, by bisection. 0 when the
    awake price is not above the server's and sleeping never costs more: then infinite, it always
    pays to sleep.
    """
    share = server_usd_per_h / SECONDS_PER_HOUR / price_usd_per_s
    low, high = np.full(np.broadcast(share, busy_s).shape, -12.0), np.full(np.broadcast(share, busy_s).shape, 3.0)
    for _ in range(60):
        middle = 0.5 * (low + high)
        below = awake_share(10.0**middle, busy_s=busy_s, idle_before_sleep_s=idle_before_sleep_s, cold_start_s=cold_start_s) < share
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.where(share >= 1.0, np.inf, 10.0**high)


@dataclass(frozen=True, slots=True)
class SpotMix:
    """Spot servers with on-demand ones under them, each (N,): counts, price, and the chance that
    spot losses cut below what the rate needs.

    Units: `on_demand`, `spot` [servers], `usd_per_h` [USD/h], `shortfall_probability` [1].
    """

    on_demand: Array
    spot: Array
    usd_per_h: Array
    shortfall_probability: Array


def spot_mix(
    needed: Array, *, on_demand_usd_per_h: Array, spot_usd_per_h: Array, interruptions_per_h: Array, restore_h: Array, most_shortfall: Array
) -> SpotMix:
    """Cheapest mix that has fewer than `needed` replicas up with at most
    `most_shortfall` probability.

    `needed` [replicas], `on_demand_usd_per_h`, `spot_usd_per_h` [USD/h], `interruptions_per_h`
    [1/h] of one spot server, `restore_h` [h] until a replacement serves, `most_shortfall` [1].
    A spot server is up with probability a = 1 / (1 + interruptions * restore) (alternating
    renewal); with o on-demand and k spot servers the shortfall is P(Binomial(k, a) < needed - o).
    All o from 0 to needed are tried with the fewest k each; the cheapest is taken. Known error:
    interruptions of one pool come together; spread over pools or add on-demand where that matters.
    Example: 4 needed, each spot up 99 %, 1 % allowed: 5 spot (P(X < 4) = 0.1 %), 4
    spot would miss 3.9 %.
    """
    columns = np.broadcast_arrays(needed, on_demand_usd_per_h, spot_usd_per_h, interruptions_per_h, restore_h, most_shortfall)
    rows = [_one_mix(int(row[0]), *(float(value) for value in row[1:])) for row in zip(*columns, strict=True)]
    values = np.array(rows, dtype=np.float64).reshape(-1, 4)
    return SpotMix(values[:, 0], values[:, 1], values[:, 2], values[:, 3])


def _one_mix(
    needed: int, on_demand_usd: float, spot_usd: float, interruptions: float, restore: float, limit: float
) -> tuple[float, float, float, float]:
    up = 1.0 / (1.0 + interruptions * restore)
    best = (float(needed), 0.0, needed * on_demand_usd, 0.0)
    for fixed in range(needed):
        spot = needed - fixed
        miss = binomial_below(spot, up, needed - fixed)
        while miss > limit and fixed * on_demand_usd + (spot + 1) * spot_usd < best[2]:
            spot += 1
            miss = binomial_below(spot, up, needed - fixed)
        price = fixed * on_demand_usd + spot * spot_usd
        if miss <= limit and price < best[2]:
            best = (float(fixed), float(spot), price, miss)
    return best


def binomial_below(trials: int, chance: float, target: int) -> float:
    """P(Binomial(trials, chance) < wanted): `trials`, `chance`, `target` [1] -> [1]."""
    if chance >= 1.0:
        return float(trials < target)
    below = range(min(target, trials + 1))
    logs = (
        math.lgamma(trials + 1)
        - math.lgamma(k + 1)
        - math.lgamma(trials - k + 1)
        + k * math.log(chance)
        + (trials - k) * math.log1p(-chance)
        for k in below
    )
    return min(sum(math.exp(value) for value in logs), 1.0)


def api_usd(input_tokens: Array, *, output_tokens: Array, input_usd_per_million: Array, output_usd_per_million: Array) -> Array:
    """Price of tokens at an API: (input * price + output * price) / 1e6.

    `input_tokens`, `output_tokens` [tokens], `input_usd_per_million`, `output_usd_per_million`
    [USD/Mtoken] -> [USD].
    """
    return (input_tokens * input_usd_per_million + output_tokens * output_usd_per_million) / MILLION


@dataclass(frozen=True, slots=True)
class BreakEven:
    """Self-hosting against an API, each (N,): tokens per month (input and output together) above
    which own servers are cheaper (infinite = never, the API is cheaper per token than a full
    replica), the share of one replica's capacity at that volume, and what a million tokens cost on
    a full replica.

    Units: `tokens_per_month` [tokens/month], `share_of_replica` [1],
    `full_usd_per_million` [USD/Mtoken].
    """

    tokens_per_month: Array
    share_of_replica: Array
    full_usd_per_million: Array


def api_break_even(
    *,
    replica_usd_per_h: Array,
    replica_requests_per_s: Array,
    input_tokens: Array,
    output_tokens: Array,
    input_usd_per_million: Array,
    output_usd_per_million: Array,
    month_h: float = HOURS_PER_MONTH,
) -> BreakEven:
    """Monthly volume above which own replicas cost less than an API.

    `replica_usd_per_h` [USD/h], `replica_requests_per_s` [requests/s] at the latency target,
    `input_tokens`, `output_tokens` [tokens] per request, `input_usd_per_million`,
    `output_usd_per_million` [USD/Mtoken] of the API,
    `month_h` [h] of a month in which the replica is paid and asked.
    Own cost is a stair: a whole replica per started capacity. The first step is passed at
    requests = month of one replica / API price per request; if that is beyond one replica's
    capacity, each further replica loses too and the answer is never.
    Example: 2 USD/h = 1,460 USD a month; requests of 1,000 + 250 tokens at 0.5 and 1.5 USD per
    million cost 0.000875 USD: 1.67 million requests, 2.09 billion tokens a month, 0.635 requests/s.
    """
    request_usd = api_usd(
        input_tokens,
        output_tokens=output_tokens,
        input_usd_per_million=input_usd_per_million,
        output_usd_per_million=output_usd_per_million,
    )
    month_usd = replica_usd_per_h * month_h
    requests = np.divide(month_usd, request_usd, out=np.full(np.broadcast(month_usd, request_usd).shape, np.inf), where=request_usd > 0)
    capacity = replica_requests_per_s * month_h * SECONDS_PER_HOUR
    tokens = input_tokens + output_tokens
    share = requests / capacity
    return BreakEven(
        tokens_per_month=np.where(share <= 1.0, requests * tokens, np.inf),
        share_of_replica=share,
        full_usd_per_million=month_usd / (capacity * tokens) * MILLION,
    )
