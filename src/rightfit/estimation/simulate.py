"""Discrete-event simulation of continuous batching: what the analytic queue model is checked
against, and `--simulate` in an answer.

One replica follows the rules of vLLM's scheduler (V1): running sequences first, one token each;
then prompts that were begun; then waiting requests in order of arrival while the step has tokens
left, a slot is free and the cache has room; a request that finds the cache full while it decodes
evicts the youngest, which starts again later. Steps in which nothing but decoding happens are
passed in one jump with their exact summed time, so the cost is per event, not per step.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Sequence
from heapq import heapify, heappop, heappush

import numpy as np

from rightfit.errors import QuantityError
from rightfit.messages import Message
from rightfit.physics.columns import Array
from rightfit.physics.queueing import ReplicaColumns
from rightfit.records import dataclass
from rightfit.workload.traces import Requests

LARGEST_TABLE = 16384
NEVER_S = math.inf


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Figures of one latency [s]."""

    mean: float
    p50: float
    p95: float
    p99: float

    @classmethod
    def of(cls, values: Array) -> Percentiles:
        """Percentiles of `values`; all NaN when there are none."""
        if values.size == 0:
            return cls(math.nan, math.nan, math.nan, math.nan)
        return cls(float(values.mean()), *(float(value) for value in np.percentile(values, [50, 95, 99])))


@dataclass(frozen=True, slots=True)
class Simulated:
    """What a simulated run shows. Latencies in seconds, rates per second over the time in
    which requests came.

    `busy` is the share of that time in which a replica worked; `mean_batch` sequences per step;
    `saturated` true when requests came faster than they were finished in the second half of the
    run, so that latencies grow with the length of the run and mean nothing.
    """

    ttft: Percentiles
    tpot: Percentiles
    latency: Percentiles
    requests_per_s: float
    output_tokens_per_s: float
    busy: float
    mean_batch: float
    evictions: int
    saturated: bool
    ttft_s: Array
    tpot_s: Array
    latency_s: Array


@dataclass(frozen=True, slots=True)
class _Limits:
    """One row of ReplicaColumns as plain numbers."""

    table: list[float]
    prompts: list[float]
    slope: float
    stall: float
    cache_token_s: float
    prompt_pair_s: float
    max_batch: int
    chunk_tokens: int
    cache_tokens: float
    cache_reserve: float


def _limits(one: ReplicaColumns) -> _Limits:
    chunk = int(one.chunk_tokens[0]) or 10**12
    table = one.sequences_s(np.arange(int(one.max_batch[0]) + 1, dtype=np.float64)[None, :])[0]
    prompts = one.prompts_s(np.arange(min(chunk, LARGEST_TABLE) + 1, dtype=np.float64)[None, :])[0]
    return _Limits(
        table=table.tolist(),
        prompts=prompts.tolist(),
        slope=float(prompts[-1] - prompts[-2]),
        stall=float(one.stall[0]),
        cache_token_s=float(one.cache_token_s[0]),
        prompt_pair_s=float(one.prompt_pair_s[0]),
        max_batch=int(one.max_batch[0]),
        chunk_tokens=chunk,
        cache_tokens=float(one.cache_tokens[0]) or math.inf,
        cache_reserve=float(one.cache_reserve[0]),
    )


class _Replica:
    """State of one replica between two calls of `run`."""

    def __init__(self, limits: _Limits, *, inputs: Sequence[int], outputs: Sequence[int], first: list[float], finish: list[float]) -> None:
        self.limits, self.inputs, self.outputs, self.first, self.finish = limits, inputs, outputs, first, finish
        self.arrivals: list[tuple[float, int]] = []  # (time, request), sorted from `next` on
        self.next = 0
        self.clock = 0.0
        self.steps = 0  # decode steps so far; a request ends at a step number known when it starts to decode
        self.running: list[tuple[int, int, int]] = []  # heap of (last step, order of admission, request)
        self.cached = 0  # tokens that running sequences hold
        self.committed = 0.0  # tokens for which room is kept
        self.prefilling: list[list[int]] = []  # [request, tokens done, tokens wanted, output left]
        self.returned: list[list[int]] = []  # evicted requests, which go first
        self.order = 0
        self.busy_s = 0.0
        self.batch_s = 0.0
        self.evictions = 0
        self.successors: list[int] = []  # closed loop: requests still to be sent, last first

    def add(self, time_s: float, request: int) -> None:
        """A request that will arrive at `time_s`."""
        arrivals = self.arrivals
        if arrivals and arrivals[-1][0] > time_s:
            insort(arrivals, (time_s, request), lo=self.next)
        else:
            arrivals.append((time_s, request))

    def run(self, until: float) -> None:
        """Work until the clock passes `until` or nothing is left to do."""
        limits, inputs, outputs, finish = self.limits, self.inputs, self.outputs, self.finish
        table, cache_s, max_batch = limits.table, limits.cache_token_s, limits.max_batch
        capacity, reserve = limits.cache_tokens, limits.cache_reserve
        running, arrivals, closed = self.running, self.arrivals, bool(self.successors)
        clock, steps, cached, position = self.clock, self.steps, self.cached, self.next
        committed, busy_s, batch_s = self.committed, self.busy_s, self.batch_s
        while clock < until:
            batch = len(running)
            if self.prefilling or self.returned:
                can_admit = True
            elif position < len(arrivals) and arrivals[position][0] <= clock:
                request = arrivals[position][1]
                can_admit = batch < max_batch and max(committed, cached) + inputs[request] + reserve * outputs[request] <= capacity
                if not can_admit and not batch:
                    raise QuantityError(
                        Message(
                            "estimate.request_above_this_cache",
                            number=request + 1,
                            tokens=inputs[request] + outputs[request],
                            capacity=f"{capacity:.0f}",
                        )
                    )
            elif batch:
                can_admit = False
            elif position < len(arrivals):  # idle: on to the next arrival
                clock = arrivals[position][0]
                continue
            else:
                break
            if can_admit:
                self.clock, self.steps, self.cached, self.next, self.committed = clock, steps, cached, position, committed
                spent = self._mixed_step()
                busy_s += spent
                batch_s += spent * batch
                clock, steps, cached, position, committed = self.clock, self.steps, self.cached, self.next, self.committed
                continue
            # nothing but decoding: jump to the next completion, the next arrival that can be
            # admitted, or the full cache
            step = table[batch] + cache_s * cached
            growth = cache_s * batch
            count = running[0][0] - steps
            room = (capacity - cached) // batch
            if room < count:
                if room < 1:
                    self.clock, self.steps, self.cached, self.next, self.committed = clock, steps, cached, position, committed
                    self._evict()
                    cached, committed = self.cached, self.committed
                    continue
                count = int(room)
            if batch < max_batch:
                wait = (arrivals[position][0] if position < len(arrivals) else until) - clock
                if 0.0 < wait < count * step + growth * count * (count - 1) * 0.5:
                    if growth:
                        half = step - 0.5 * growth
                        count = min(count, max(1, math.ceil((math.sqrt(half * half + 2.0 * growth * wait) - half) / growth)))
                    else:
                        count = min(count, max(1, math.ceil(wait / step)))
            spent = count * step + growth * count * (count - 1) * 0.5
            clock += spent
            busy_s += spent
            batch_s += spent * batch
            steps += count
            cached += count * batch
            while running and running[0][0] == steps:
                request = heappop(running)[2]
                finish[request] = clock
                cached -= inputs[request] + outputs[request]
                committed -= inputs[request] + reserve * outputs[request]
                if closed:
                    self._send_next(clock)
        self.clock, self.steps, self.cached, self.next = clock, steps, cached, position
        self.committed, self.busy_s, self.batch_s = committed, busy_s, batch_s

    def _send_next(self, clock: float) -> None:
        """Closed loop: the user whose request ended sends another."""
        if self.successors:
            self.add(clock, self.successors.pop())

    def _admit(self, budget: int) -> None:
        """Move requests into `prefilling` while the step has tokens left, a slot is free and
        the cache has room."""
        limits, arrivals = self.limits, self.arrivals
        taken = len(self.running) + len(self.prefilling)
        budget -= sum(entry[2] - entry[1] for entry in self.prefilling)
        held = self.cached + sum(entry[2] for entry in self.prefilling)
        while budget > 0 and taken < limits.max_batch:
            if self.returned:
                entry = self.returned[-1]
            elif self.next < len(arrivals) and arrivals[self.next][0] <= self.clock:
                request = arrivals[self.next][1]
                entry = [request, 0, self.inputs[request], self.outputs[request]]
            else:
                return
            need = entry[2] + limits.cache_reserve * entry[3]
            if max(self.committed, held) + need > limits.cache_tokens and taken:
                return
            if self.returned:
                self.returned.pop()
            else:
                self.next += 1
            self.prefilling.append(entry)
            self.committed += self.inputs[entry[0]] + limits.cache_reserve * self.outputs[entry[0]]
            held += entry[2]
            budget -= entry[2]
            taken += 1

    def _mixed_step(self) -> float:
        """One step with pieces of prompts beside the running sequences; returns its time."""
        limits, running = self.limits, self.running
        batch = len(running)
        budget = max(limits.chunk_tokens - batch, 1)
        self._admit(budget)
        used = 0
        pairs = 0.0
        done = 0
        for entry in self.prefilling:
            piece = min(entry[2] - entry[1], budget - used)
            if piece <= 0:
                break
            pairs += piece * (entry[1] + 0.5 * piece)
            entry[1] += piece
            used += piece
            done += entry[1] == entry[2]
        prompts = limits.prompts
        stalled = prompts[used] if used < len(prompts) else prompts[-1] + limits.slope * (used - len(prompts) + 1)
        stalled += limits.prompt_pair_s * pairs
        step = limits.table[batch] + limits.cache_token_s * self.cached + (limits.stall * stalled if batch else stalled)
        self.clock += step
        self._advance(batch)
        for entry in self.prefilling[:done]:
            self._start(entry)
        del self.prefilling[:done]
        return step

    def _advance(self, batch: int) -> None:
        """Each running sequence got a token; those at their end leave."""
        running = self.running
        self.steps += 1
        self.cached += batch
        while running and running[0][0] == self.steps:
            self._end(heappop(running)[2])

    def _start(self, entry: list[int]) -> None:
        """A prompt is done: its step also gave the first token (or the next one,
        after an eviction)."""
        request, _, length, left = entry
        if math.isnan(self.first[request]):
            self.first[request] = self.clock
        self.cached += length + 1
        if left <= 1:
            self._end(request)
            return
        self.order += 1
        heappush(self.running, (self.steps + left - 1, self.order, request))

    def _end(self, request: int) -> None:
        self.finish[request] = self.clock
        self.cached -= self.inputs[request] + self.outputs[request]
        self.committed -= self.inputs[request] + self.limits.cache_reserve * self.outputs[request]
        if self.successors:
            self._send_next(self.clock)

    def _evict(self) -> None:
        """The youngest sequence gives up its cache and computes it anew later, with what it
        generated as part of its prompt."""
        youngest = max(self.running, key=lambda item: item[1])
        if len(self.running) == 1:
            raise QuantityError(
                Message("estimate.request_above_cache_alone", number=youngest[2] + 1, capacity=f"{self.limits.cache_tokens:.0f}")
            )
        self.running.remove(youngest)
        heapify(self.running)
        last, _, request = youngest
        left = last - self.steps
        length = self.inputs[request] + self.outputs[request] - left
        self.cached -= length
        self.committed -= self.inputs[request] + self.limits.cache_reserve * self.outputs[request]
        self.returned.append([request, 0, length, left])
        self.evictions += 1


def simulate(replicas: ReplicaColumns, requests: Requests, *, num_replicas: int = 1, warm_up: float = 0.1) -> Simulated:
    """Latencies of `requests`, dealt in turn to `num_replicas` copies of a replica. The first
    `warm_up` share of the requests fills the replicas and is not counted."""
    fleet, first, finish = _fleet(replicas, requests, num_replicas=num_replicas)
    for request, time in enumerate(requests.arrival_s.tolist()):
        fleet[request % num_replicas].arrivals.append((time, request))
    for replica in fleet:
        replica.run(NEVER_S)
    return _summary(replicas, requests, fleet=fleet, first=first, finish=finish, arrival_s=requests.arrival_s, warm_up=warm_up)


def simulate_closed(replicas: ReplicaColumns, requests: Requests, *, users: int) -> Simulated:
    """`users` of one replica who each send the next of `requests` when their last is answered.
    Arrival times are ignored."""
    (replica,), first, finish = _fleet(replicas, requests, num_replicas=1)
    replica.successors = list(range(users, len(requests)))[::-1]
    for request in range(min(users, len(requests))):
        replica.add(0.0, request)
    replica.run(NEVER_S)
    sent = np.full(len(requests), np.nan)
    for time, request in replica.arrivals:
        sent[request] = time
    return _summary(replicas, requests, fleet=[replica], first=first, finish=finish, arrival_s=sent, warm_up=0.1)


def _fleet(replicas: ReplicaColumns, requests: Requests, *, num_replicas: int) -> tuple[list[_Replica], list[float], list[float]]:
    capacity = float(replicas.cache_tokens[0])
    total = requests.input_tokens + requests.output_tokens
    if capacity and total.max() > capacity:
        worst = int(total.argmax())
        raise QuantityError(Message("estimate.request_above_cache", number=worst + 1, tokens=int(total[worst]), capacity=f"{capacity:.0f}"))
    limits = _limits(replicas)
    inputs, outputs = requests.input_tokens.tolist(), requests.output_tokens.tolist()
    first, finish = [math.nan] * len(inputs), [math.nan] * len(inputs)
    return [_Replica(limits, inputs=inputs, outputs=outputs, first=first, finish=finish) for _ in range(num_replicas)], first, finish


def _summary(
    replicas: ReplicaColumns,
    requests: Requests,
    *,
    fleet: list[_Replica],
    first: list[float],
    finish: list[float],
    arrival_s: Array,
    warm_up: float,
) -> Simulated:
    first_s, finish_s = np.asarray(first) + float(replicas.request_s[0]), np.asarray(finish) + float(replicas.request_s[0])
    order = np.argsort(arrival_s, kind="stable")[int(warm_up * len(requests)) :]
    arrivals, outputs = arrival_s[order], requests.output_tokens[order]
    ttft, latency = first_s[order] - arrivals, finish_s[order] - arrivals
    decoded = np.maximum(outputs - 1, 1)
    tpot = ((finish_s - first_s)[order] / decoded)[outputs > 1]
    window = max(float(arrivals[-1] - arrivals[0]), 1e-12)
    within = (finish_s > arrivals[0]) & (finish_s <= arrivals[-1])
    worked = sum(replica.busy_s for replica in fleet)
    span = max(float(np.nanmax(finish_s) - np.nanmin(arrival_s)), 1e-12)
    return Simulated(
        ttft=Percentiles.of(ttft),
        tpot=Percentiles.of(tpot),
        latency=Percentiles.of(latency),
        requests_per_s=float(within.sum()) / window,
        output_tokens_per_s=float(requests.output_tokens[within].sum()) / window,
        busy=min(worked / (span * len(fleet)), 1.0),
        mean_batch=sum(replica.batch_s for replica in fleet) / max(worked, 1e-12),
        evictions=sum(replica.evictions for replica in fleet),
        saturated=_grows(arrival_s, finish_s),
        ttft_s=ttft,
        tpot_s=tpot,
        latency_s=latency,
    )


SATURATION_SHARE = 0.95
FEWEST_TO_JUDGE = 200


def _grows(arrival_s: Array, finish_s: Array) -> bool:
    """True when under 95 % of what came in the second half of the run was finished in that time.
    Runs under 200 requests are not judged."""
    middle, end = np.quantile(arrival_s, [0.5, 1.0])
    came = int(((arrival_s > middle) & (arrival_s <= end)).sum())
    went = int(((finish_s > middle) & (finish_s <= end)).sum())
    return came >= FEWEST_TO_JUDGE // 2 and went < SATURATION_SHARE * came
