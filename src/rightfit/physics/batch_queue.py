"""How long requests wait for a server that works in batches: it takes what has gathered while it
worked, at most so many at once, and the next request alone where nothing has.

The queue at the ends of passes is a Markov chain: from n waiting, min(max(n, 1), most) are served
in S(batch) while Poisson(rate S) more arrive. A request that finds the server at work waits for the
rest of the pass, for the full batches before it, and for its own pass; one that finds it idle takes
S(1).

Source: Bailey 1954 (bulk service), with service times that depend on the batch;
docs/decisions/serving-load.md.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rightfit.physics.columns import Array, once
from rightfit.records import dataclass

Index = NDArray[np.intp]

#: Numbers of waiting requests that a chain may go to, numbers that one block of rows may hold, and
#: states that are told apart: beyond them neighbours are one state.
_LENGTHS = (16, 24, 36, 54, 80, 120, 180, 280, 420)
_BLOCK = 2e6
_STATES = 32
_HALVINGS = 11
#: Parts of a pass in which requests of large batches come.
_THIRDS = 3
#: Batches up to this size are small: which of them a request joins is told apart, at so many
#: moments of a pass, with those that come after it at three points of a normal law (Gauss-Hermite).
_SMALL = 16
_MOMENTS = 6
_NORMAL = ((-(3.0**0.5), 1.0 / 6.0), (0.0, 2.0 / 3.0), (3.0**0.5, 1.0 / 6.0))


def latency_s(service_s: Array, rate_per_s: Array, *, shares: Array) -> Array:
    """Time from arrival to answer at each share of the requests.

    `service_s` [s] (N, B) of a pass with 1 .. B inputs, infinite where it does not fit, and then
    nothing larger is taken; `rate_per_s` [1/s] (N,), `shares` [1] (P,)
    -> [s], (N, P); infinite where more arrives than is served.

    Source: Bailey 1954; known error: under 10 % against simulation from
    0.01 to 0.95 of the rate that the server can do (tests/physics/test_batch_queue.py).
    """
    most = np.isfinite(service_s).sum(axis=1)
    out = np.full((service_s.shape[0], shares.shape[0]), np.inf)
    full_s = service_s[np.arange(most.shape[0]), np.maximum(most - 1, 0)]
    with np.errstate(invalid="ignore"):
        stable = (most > 0) & (rate_per_s * full_s < most)
    # Busy no longer than with one request a pass: so many find it idle that the shares are theirs.
    with np.errstate(invalid="ignore"):
        idle = stable & (rate_per_s * service_s[:, 0] <= 1.0 - shares.max(initial=0.0))
    out[idle] = service_s[idle, :1]
    rows = np.flatnonzero(stable & ~idle)
    lengths = _lengths(service_s[rows], rate_per_s[rows], most[rows], full_s[rows])
    code = 2 * np.searchsorted(_LENGTHS, lengths).clip(max=len(_LENGTHS) - 1) + (most[rows] <= _SMALL)
    for one in once(code).tolist():
        count, some = _LENGTHS[one // 2], rows[code == one]
        for part in np.array_split(some, max(1, int(np.ceil(some.shape[0] * min(count, _STATES) * count * 16 / _BLOCK)))):
            met = _Met(service_s[part], rate_per_s[part], most[part], count)
            parts = _of_small_batches(met) if one % 2 else _of_large_batches(met)
            out[part] = _quantiles(parts, service_s[part, 0], shares)
    return out


def pooled_latency_s(service_s: Array, rate_per_s: Array, servers: Array, *, shares: Array) -> Array:
    """Time from arrival to answer where servers take requests one at a time from one queue.

    `service_s` [s] (N,) of a request, `rate_per_s` [1/s] (N,) of all, `servers` [1] (N,),
    `shares` [1] (P,) -> [s], (N, P); infinite where more arrives than is served.

    Requests that wait are as many as in M/M/c, and their wait falls off twice as fast.
    Source: Erlang 1917 (delay probability); Tijms 2003, chapter 9 (M/D/c); known error: under 10 %
    against simulation for two servers and more (tests/physics/test_pooled_queue.py).
    """
    blocked, found = np.ones(servers.shape), np.ones(servers.shape)
    for count in range(1, int(servers.max(initial=0.0)) + 1):
        blocked = _blocked(blocked, rate_per_s * service_s, count)
        found = np.where(servers == count, blocked, found)
    return _pooled(found, service_s, rate_per_s, servers, shares)


def pooled_servers(service_s: Array, rate_per_s: float, *, share: float, limit_s: float, utilisation: float, most: Array) -> Array:
    """The fewest servers [1] (N,) with one queue of Poisson arrivals at `rate_per_s` [1/s], each
    taking `service_s` [s] (N,), that keep `limit_s` [s] at a `share` [1] of the requests and are
    busy for no more than `utilisation` [1] of the time; `most` [1] (N,) where no fewer do -> [1].

    Source: Erlang's loss by its recursion over servers (Erlang 1917), the law of `pooled_latency_s`
    for one server after another.
    """
    rate, needed, blocked = np.full(most.shape, rate_per_s), most.copy(), np.ones(most.shape)
    for count in range(1, _MOST_SERVERS):
        if not (needed > count).any():
            break
        blocked = _blocked(blocked, rate * service_s, count)
        servers = np.full(most.shape, float(count))
        kept = (rate * service_s <= utilisation * count) & (count < needed)
        kept &= _pooled(blocked, service_s, rate, servers, np.array([share]))[:, 0] <= limit_s
        needed = np.where(kept, servers, needed)
    return needed


#: Servers that one queue feeds at most.
_MOST_SERVERS = 4096


def _blocked(fewer: Array, load: Array, count: int) -> Array:
    """Erlang's loss with `count` servers from that with one less."""
    return np.asarray(load * fewer / (count + load * fewer))


def _pooled(blocked: Array, service_s: Array, rate_per_s: Array, servers: Array, shares: Array) -> Array:
    """Latencies (N, P) from Erlang's loss."""
    with np.errstate(divide="ignore", invalid="ignore"):
        busy = rate_per_s * service_s / servers
        waits = blocked / (1.0 - busy * (1.0 - blocked))
        falls_s = service_s / (2.0 * servers * (1.0 - busy))
        beyond = np.log(np.maximum(waits[:, None] / np.maximum(1.0 - shares[None, :], 1e-12), 1.0))
        latency = service_s[:, None] + falls_s[:, None] * beyond
    return np.where((busy < 1.0)[:, None], latency, np.inf)


def _lengths(service_s: Array, rate_per_s: Array, most: Index, full_s: Array) -> Array:
    """How long a queue gets: the batch that a rate settles at with its spread, and what a server
    near its limit piles up."""
    batches = np.arange(1, service_s.shape[1] + 1)
    work_s = np.where(np.isfinite(service_s), service_s, 0.0)
    settled = np.argmax(batches >= rate_per_s[:, None] * work_s, axis=1) + 1.0
    load = rate_per_s * full_s / most
    piled = np.where(load > 0.5, 4.0 / (1.0 - load), 0.0)
    return np.asarray(np.minimum(settled, most) + 7.0 * np.sqrt(settled) + 10.0 + piled)


@dataclass(frozen=True, slots=True)
class _Met:
    """Rows whose queues go up to `count` [requests]: `service_s` [s] (N, B) of passes,
    `rate_per_s` [1/s] (N,), `most` [requests] (N,) at once.
    """

    service_s: Array
    rate_per_s: Array
    most: Index
    count: int

    @property
    def full_s(self) -> Array:
        """Time of a full pass (N, 1, 1) [s]."""
        return np.asarray(self.service_s[np.arange(len(self.most)), self.most - 1])[:, None, None]

    def started_s(self, waiting: Array) -> Array:
        """Time of the pass that starts with `waiting` (S,) requests, of 1 where there are none,
        (N, S) [s]."""
        size = np.clip(waiting[None, :], 1.0, self.most[:, None])
        return self.passes_s(size[:, :, None])[:, :, 0]

    def passes_s(self, size: Array) -> Array:
        """Times of passes of `size` (N, ., .) inputs, linear between whole numbers [s]."""
        low = np.floor(size).astype(np.intp)
        high = np.minimum(low + 1, self.most[:, None, None])
        first, second = (np.take_along_axis(self.service_s, at.reshape(len(at), -1) - 1, axis=1).reshape(at.shape) for at in (low, high))
        return np.asarray(first + (size - low) * (second - first))


#: Weights of requests (N, ., .), how long the rest of a pass that they wait for may be [s], what
#: they wait for beside it [s]; and the weight of those that find the server idle (N,).
_Parts = tuple[Array, Array, Array, Array]


def _of_large_batches(met: _Met) -> _Parts:
    """By the number waiting before and after a pass: the next batch takes them all, or those before
    a request make a full one."""
    stride = -(-met.count // _STATES)
    first = np.arange(0, met.count, stride)
    centre = np.asarray(first + 0.5 * (stride - 1), dtype=np.float64)
    pass_s = met.started_s(centre)
    left = np.maximum(centre[None, :] - met.most[:, None], 0.0)
    come = np.cumsum(_poisson(met.rate_per_s[:, None] * pass_s, met.count), axis=2)
    last = (first + stride - 1)[None, None, :] - np.floor(left)[:, :, None].astype(np.intp)
    below = np.where(last >= 0, np.take_along_axis(come, last.clip(0, met.count - 1), axis=2), 0.0)
    below[..., -1] = 1.0
    moves = np.diff(below, axis=2, prepend=0.0)
    share, alone = _shares(met, _stationary(moves), pass_s)
    most, after = met.most[:, None, None], centre[None, None, :]
    own_s = met.passes_s(np.minimum(np.broadcast_to(after + 1.0, moves.shape), most))
    weight = share[:, :, None] * moves / _THIRDS
    rest_s = np.broadcast_to(pass_s[:, :, None] / _THIRDS, moves.shape)
    waits = []
    for third in range(_THIRDS):  # those that come first wait for more of the pass and fewer full batches
        before = left[:, :, None] + (third + 0.5) / _THIRDS * np.maximum(after - left[:, :, None], 0.0)
        waits.append(own_s + np.floor(before / most) * met.full_s + pass_s[:, :, None] * (1.0 - (third + 1.0) / _THIRDS))
    whole = np.concatenate([weight] * _THIRDS, axis=2)
    return whole, np.concatenate([rest_s] * _THIRDS, axis=2), np.concatenate(waits, axis=2), alone


def _of_small_batches(met: _Met) -> _Parts:
    """By those left over, the moment within the pass, the others that came before a request, and
    those that come after it and still share its batch."""
    waiting, most_come = np.arange(met.count), float((met.rate_per_s * met.full_s[:, 0, 0]).max())
    width = int(np.ceil(most_come + 6.0 * np.sqrt(most_come) + 4.0))
    pass_s = met.started_s(waiting.astype(np.float64))
    left = np.maximum(waiting[None, :] - met.most[:, None], 0)
    come = _poisson(met.rate_per_s[:, None] * pass_s, met.count)
    back = waiting[None, None, :] - left[:, :, None]
    moves = np.where(back >= 0, np.take_along_axis(come, back.clip(0), axis=2), 0.0)
    moves[..., -1] += np.maximum(1.0 - moves.sum(axis=2), 0.0)
    share, alone = _shares(met, _stationary(moves), pass_s)
    share, start, pass_s, states = _joined(share, left, pass_s)
    return (*_moments(met, share, start, pass_s, width=width, states=states), alone)


def _joined(share: Array, left: Index, pass_s: Array) -> tuple[Array, Array, Array, Index]:
    """Neighbouring states as one, the more of them the longer the queue: their share, those left
    over and their pass in the mean, and how many they are."""
    count, single = share.shape[1], _STATES // 2
    further = np.geomspace(single, count, _STATES // 2, endpoint=False).astype(np.intp) if count > single else ()
    starts = once(np.concatenate([np.arange(min(single, count)), further]).astype(np.intp))
    whole = np.add.reduceat(share, starts, axis=1)
    safe = np.where(whole > 0, whole, 1.0)
    over, mean_s = (np.add.reduceat(share * values, starts, axis=1) / safe for values in (left, pass_s))
    return whole, over, mean_s, np.diff(starts, append=count).astype(np.intp)


def _moments(met: _Met, share: Array, left: Array, pass_s: Array, *, width: int, states: Index) -> tuple[Array, Array, Array]:
    """What requests wait for at each moment of a pass; `states` (S,) that are joined wait for as
    many more or fewer batches."""
    most, rate, found = met.most[:, None, None], met.rate_per_s[:, None, None], []
    smeared = (states[None, :, None] - 1) / most * met.full_s
    rounded = np.where(states > 1, 0.5, 0.0)[None, :, None]
    for moment in (np.arange(_MOMENTS) + 0.5) / _MOMENTS:
        before = share[:, :, None] * _poisson(met.rate_per_s[:, None] * pass_s * moment, width) / _MOMENTS
        ahead = left[:, :, None] + np.arange(width)[None, None, :]
        full = np.floor((ahead + rounded) / most + 1e-9)
        still_s = pass_s[:, :, None] * (1.0 - moment) + full * met.full_s
        for step, part in _NORMAL:
            after = np.maximum(rate * still_s + step * np.sqrt(rate * still_s), 0.0)
            size = np.clip(ahead - full * most + 1.0 + after, 1.0, most)
            least_s = pass_s[:, :, None] * (1.0 - moment - 0.5 / _MOMENTS) + full * met.full_s - 0.5 * smeared
            rest_s = np.broadcast_to(pass_s[:, :, None] / _MOMENTS + smeared, size.shape)
            found.append((before * part, rest_s, met.passes_s(size) + np.where(full > 0, least_s, np.maximum(least_s, 0.0))))
    weight, rest_s, own_s = (np.concatenate(values, axis=2) for values in zip(*found, strict=True))
    return weight, rest_s, own_s


def _shares(met: _Met, chance: Array, pass_s: Array) -> tuple[Array, Array]:
    """Of all requests the share that comes in a pass from each state, and the share that finds the
    server idle."""
    during = chance * met.rate_per_s[:, None] * pass_s
    total = during.sum(axis=1) + chance[:, 0]
    return during / total[:, None], chance[:, 0] / total


def _poisson(mean: Array, count: int) -> Array:
    """Chances of 0 .. count - 1 arrivals, (..., count); the last holds all more."""
    number = np.arange(count)
    fallen = np.concatenate([[0.0], np.cumsum(np.log(number[1:]))])
    chance = np.exp(number * np.log(np.maximum(mean, 1e-300))[..., None] - mean[..., None] - fallen)
    chance[..., -1] = np.maximum(1.0 - chance[..., :-1].sum(axis=-1), 0.0)
    return np.asarray(chance)


def _stationary(moves: Array) -> Array:
    """The long-run chance of each state of chains (N, S, S), (N, S)."""
    count = moves.shape[1]
    balance = np.swapaxes(moves, 1, 2) - np.eye(count)
    balance[:, -1, :] = 1.0
    goal = np.zeros((moves.shape[0], count, 1))
    goal[:, -1, 0] = 1.0
    return np.asarray(np.maximum(np.linalg.solve(balance, goal)[..., 0], 0.0))


def _quantiles(parts: _Parts, alone_s: Array, shares: Array) -> Array:
    """Times below which the shares lie: the rest of a pass is uniform, the others are fixed."""
    weight, rest_s, own_s, alone = parts
    per_s, rest_s = 1.0 / np.maximum(rest_s, 1e-12), np.maximum(rest_s, 1e-12)
    longest = np.maximum(np.where(weight > 1e-12, rest_s + own_s, 0.0).max(axis=(1, 2)), alone_s)
    out = np.empty((len(alone_s), shares.shape[0]))
    for place, share in enumerate(shares.tolist()):
        low, high = alone_s.copy(), np.maximum(longest, alone_s * 1.001)
        for _ in range(_HALVINGS):
            middle = np.sqrt(low * high)
            reached = (middle[:, None, None] - own_s) * per_s
            below = np.einsum("nij,nij->n", weight, np.minimum(np.maximum(reached, 0.0, out=reached), 1.0, out=reached))
            enough = below + alone * (middle >= alone_s) >= share
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        out[:, place] = np.where(alone >= share, alone_s, high)
    return out
