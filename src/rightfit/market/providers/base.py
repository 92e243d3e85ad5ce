"""What every source of prices has in common: the rows it gives, what it needs, and how it is asked.

A provider is asked part by part (usually region by region), so that a refresh that was interrupted
goes on with the parts it lacks.
"""

from __future__ import annotations

import datetime
import email.utils
import importlib.util
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from rightfit.errors import MissingComponentError, NetworkError, RightfitError
from rightfit.messages import Message, at_place
from rightfit.records import dataclass


class PriceRow(NamedTuple):
    """One price as the provider states it: `price` in `currency` for `hours` hours
    of the whole server, of the day `as_of` where a list says it (else of the day of asking)."""

    provider: str
    instance_type: str
    region: str
    purchase: str
    price: float
    currency: str = "USD"
    hours: float = 1.0
    note: str = ""
    as_of: str = ""


class ServerRow(NamedTuple):
    """A server type as the provider describes it; used only for types that the catalog
    does not know yet."""

    provider: str
    instance_type: str
    family: str
    category: str
    vcpus: float
    memory_gib: float
    gpu_name: str = ""
    gpu_count: float = 0.0
    gpu_memory_gib: float = 0.0
    arch: str = "x86_64"
    local_nvme_gb: float = 0.0
    network_gbps: float = 0.0


class InterruptionRow(NamedTuple):
    """How often spot servers of a type are reclaimed: a row of `offers.INTERRUPTION_BANDS`."""

    provider: str
    region: str
    instance_type: str
    band: int
    savings_pct: float


class MarketRow(NamedTuple):
    """USD per accelerator-hour over the offers of a marketplace."""

    provider: str
    gpu_name: str
    gpu_count: int
    region: str
    purchase: str
    low: float
    median: float
    high: float
    offers: int


Row = PriceRow | ServerRow | InterruptionRow | MarketRow
ROW_TYPES: Mapping[str, type[Row]] = {kind.__name__: kind for kind in (PriceRow, ServerRow, InterruptionRow, MarketRow)}


@dataclass(frozen=True, slots=True)
class KnownServer:
    """What the catalog knows of a server type that a price may depend on."""

    instance_type: str
    vcpus: float
    memory_gib: float
    accelerator_name: str
    num_accelerators: float


@dataclass(frozen=True, slots=True)
class Known:
    """The catalog as a provider module sees it: its regions (no pseudo ones) and server
    types by provider."""

    regions: Mapping[str, tuple[str, ...]]
    servers: Mapping[str, Mapping[str, KnownServer]]
    every_type: bool = False  # also types without accelerator where asking costs one request a type


@dataclass(frozen=True, slots=True)
class Need:
    """What a provider asks for: Python packages (with the extra that brings them) and credentials,
    in words and as a test."""

    extra: str = "prices"
    packages: tuple[str, ...] = ("httpx", "tenacity")
    credentials: str = ""  # empty: none are needed
    variables: tuple[tuple[str, ...], ...] = ()  # any one of these groups, all set
    files: tuple[str, ...] = ()  # or one of these files

    def missing_packages(self) -> tuple[str, ...]:
        """Packages that are not installed."""
        return tuple(name for name in self.packages if not _is_installed(name))

    def has_credentials(self) -> bool:
        """Whether something that looks like credentials is there; whether they are good only
        the provider can say."""
        if not self.credentials:
            return True
        if any(all(os.environ.get(name) for name in group) for group in self.variables):
            return True
        return any(os.path.exists(os.path.expanduser(name)) for name in self.files)  # noqa: PTH110, PTH111


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # the package that should hold it is missing
        return False


class Provider(Protocol):
    """A source of current prices."""

    name: str  # as on the command line
    covers: tuple[str, ...]  # providers of the catalog whose rows it gives
    source: str  # what stands beside each price
    needs: Need

    def parts(self, inventory: Known) -> Sequence[str]:
        """The pieces that are asked for one by one."""
        ...

    def fetch(self, client: Client, part: str, *, inventory: Known) -> Iterator[Row]:
        """The rows of one piece; a RightfitError in one line when it cannot be had."""
        ...


def match_accelerator(name: str, *, memory_gib: float = 0.0) -> str:
    """Our name for an accelerator as a provider calls it, the variant by its memory; empty where it
    is not known or not certain."""
    from rightfit import facts

    known = facts.accelerators()
    found = [known[match] for match in facts.match_accelerators(name)]
    if memory_gib and len(found) > 1:
        found = [
            entry for entry in found if abs(entry.memory_bytes / 2**30 / memory_gib - 1) < 0.12
        ]  # nominal and usable sizes differ by 8 %
    return found[0].name if len(found) == 1 else ""


# ---- HTTP as the modules of the providers use it: paced, retried with growing pauses, and with
# errors in one plain line.
#
# Credentials travel in headers only; no message ever holds a header, a query or a body.

_RETRIED = frozenset([408, 425, 429, 500, 502, 503, 504])
_NOTED_SKEW_S = 300.0
_REFUSED_SKEW_S = 86400.0


@dataclass(frozen=True, slots=True)
class Pace:
    """How hard a provider is asked: the least pause between requests, tries, and pauses between
    tries (doubling from the first)."""

    between_s: float = 0.05
    tries: int = 6
    first_pause_s: float = 0.5
    longest_pause_s: float = 30.0
    timeout_s: float = 30.0


class _TryAgainError(Exception):
    """A fault that may pass."""

    def __init__(self, what: Message, *, after_s: float | None = None) -> None:
        super().__init__(what)
        self.what, self.after_s = what, after_s


def endpoint(name: str, default: str) -> str:
    """The address of a service; RIGHTFIT_ENDPOINT_<NAME> overrides it (for tests and proxies)."""
    return os.environ.get(f"RIGHTFIT_ENDPOINT_{name.upper()}", default).rstrip("/")


class Client:
    """One provider's connection. Use it as a context manager."""

    def __init__(self, provider: str, *, credentials: str = "", pace: Pace | None = None) -> None:
        try:
            import httpx
        except ImportError:
            raise MissingComponentError(Message("catalog.needs_client", provider=provider)) from None
        self.provider, self.credentials, self.pace = provider, credentials, pace or Pace()
        self.skew_s = 0.0  # this machine's clock less the server's
        self._http = httpx.Client(timeout=self.pace.timeout_s, follow_redirects=True)
        self._last_s = 0.0

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def json(self, url: str, *, method: str = "GET", **request: Any) -> Any:
        """The JSON answer of one request. An answer cut short counts as a fault that may pass."""
        return self._retried(url, method=method, read=_read_json, **request)

    def text(self, url: str, **request: Any) -> str:
        """The text of one answer."""
        return str(self._retried(url, method="GET", read=lambda answer: answer.text, **request))

    def content(self, url: str, **request: Any) -> bytes:
        """The bytes of one answer."""
        return bytes(self._retried(url, method="GET", read=lambda answer: answer.content, **request))

    def pages(self, url: str, *, next_of: Any, params: Mapping[str, Any] | None = None, **request: Any) -> Iterator[Any]:
        """Page after page; `next_of(page)` gives the next address or parameters. A page that points
        to one already read is an error."""
        seen: set[str] = set()
        target: str | None = url
        current = dict(params or {})
        while target is not None:
            key = f"{target} {sorted(current.items())}"
            if key in seen:
                raise NetworkError(at_place(self.provider, Message("catalog.page_loops", page=len(seen))))
            seen.add(key)
            page = self.json(target, params=current or None, **request)
            yield page
            following = next_of(page)
            if isinstance(following, Mapping):
                current = {**current, **following}
            else:
                target, current = (following or None), {}

    def of_library(self, call: Any, request: Any, *, passes: Callable[[BaseException], bool]) -> Any:
        """What the provider's own client library answers, tried again while `passes` says that
        its error may pass."""
        import tenacity

        again = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(self.pace.tries),
            wait=tenacity.wait_random_exponential(multiplier=self.pace.first_pause_s, max=self.pace.longest_pause_s),
            retry=tenacity.retry_if_exception(passes),
            reraise=True,
        )
        return again(call, request)

    def _retried(self, url: str, *, method: str, read: Any, **request: Any) -> Any:
        import tenacity

        pace = self.pace
        growing = tenacity.wait_random_exponential(multiplier=pace.first_pause_s, max=pace.longest_pause_s)

        def pause(state: tenacity.RetryCallState) -> float:
            error = state.outcome.exception() if state.outcome else None
            asked = error.after_s if isinstance(error, _TryAgainError) else None
            return float(min(asked, pace.longest_pause_s)) if asked is not None else float(growing(state))

        again = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(pace.tries), wait=pause, retry=tenacity.retry_if_exception_type(_TryAgainError), reraise=True
        )
        try:
            return again(self._once, url, method=method, read=read, **request)
        except _TryAgainError as error:
            raise NetworkError(
                Message("catalog.tries", provider=self.provider, url=_place(url), problem=error.what, tries=pace.tries)
            ) from None

    def _once(self, url: str, *, method: str, read: Any, **request: Any) -> Any:
        import httpx

        time.sleep(max(0.0, self._last_s + self.pace.between_s - time.monotonic()))
        self._last_s = time.monotonic()
        try:
            answer = self._http.request(method, url, **request)
        except httpx.TimeoutException:
            raise _TryAgainError(Message("catalog.no_answer", seconds=self.pace.timeout_s)) from None
        except httpx.RemoteProtocolError:
            raise _TryAgainError(Message("catalog.broken_off")) from None
        except (httpx.TransportError, httpx.InvalidURL) as error:
            raise _TryAgainError(Message("catalog.unreachable", kind=type(error).__name__)) from None
        self._watch_clock(answer.headers.get("Date", ""))
        self._check_status(answer, url)
        return read(answer)

    def _check_status(self, answer: Any, url: str) -> None:
        status = answer.status_code
        if status in _RETRIED:
            said = answer.headers.get("Retry-After", "")
            raise _TryAgainError(
                Message("catalog.status", status=status), after_s=float(said) if said.replace(".", "", 1).isdigit() else None
            )
        if status in (401, 403):
            raise refused(self.provider, self.credentials, skew_s=self.skew_s)
        if status >= 400:
            raise NetworkError(at_place(self.provider, Message("catalog.answered", url=_place(url), status=status)))

    def _watch_clock(self, date: str) -> None:
        try:
            server = email.utils.parsedate_to_datetime(date)
        except (TypeError, ValueError):
            return
        if server.tzinfo is None:
            return
        self.skew_s = (datetime.datetime.now(tz=datetime.UTC) - server).total_seconds()
        if abs(self.skew_s) > _REFUSED_SKEW_S:
            days = self.skew_s / 86400
            raise NetworkError(
                at_place(
                    self.provider,
                    Message(
                        "catalog.clock_off",
                        days=abs(days),
                        why=(Message("catalog.ahead") if days > 0 else Message("catalog.behind")),
                    ),
                )
            )


def _read_json(answer: Any) -> Any:
    try:
        return answer.json()
    except ValueError:
        raise _TryAgainError(Message("catalog.answer_cut_hint")) from None


def refused(provider: str, credentials: str, *, skew_s: float = 0.0) -> NetworkError:
    """Credentials that the provider does not take; a clock that is off is the other usual cause."""
    clock = Message("catalog.clock", minutes=abs(skew_s) / 60) if abs(skew_s) > _NOTED_SKEW_S else ""
    way = Message("catalog.renew", why=Message(f"catalog.credentials_{provider}")) if credentials else ""
    return NetworkError(at_place(provider, Message("catalog.credentials", way=way, clock=clock)))


def code_of(error: BaseException) -> str:
    """What a provider's own client library calls a fault."""
    return str(getattr(error, "code", "") or type(error).__name__)


def one_line(provider: str, error: Exception) -> RightfitError:
    """The fault of a provider's own client library as one line without anything secret: its
    code, not its message."""
    return NetworkError(at_place(provider, Message("catalog.request_failed", code=code_of(error)[:80])))


def _place(url: str) -> str:
    """Host and path of an address, nothing that could be secret."""
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    return f"{parts.hostname or url}{parts.path}"
