"""HTTP as the modules of the providers use it: paced, retried with growing pauses, and with errors in one plain line.

Credentials travel in headers only; no message ever holds a header, a query or a body.
"""

from __future__ import annotations

import datetime
import email.utils
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

from rightfit.errors import MissingComponentError, NetworkError, RightfitError
from rightfit.records import dataclass

_RETRIED = frozenset([408, 425, 429, 500, 502, 503, 504])
_NOTED_SKEW_S = 300.0
_REFUSED_SKEW_S = 86400.0


@dataclass(frozen=True, slots=True)
class Pace:
    """How hard a provider is asked: the least pause between requests, tries, and pauses between tries (doubling from the first)."""

    between_s: float = 0.05
    tries: int = 6
    first_pause_s: float = 0.5
    longest_pause_s: float = 30.0
    timeout_s: float = 30.0


class _TryAgainError(Exception):
    """A fault that may pass."""

    def __init__(self, what: str, *, after_s: float | None = None) -> None:
        super().__init__(what)
        self.after_s = after_s


def endpoint(name: str, default: str) -> str:
    """The address of a service; RIGHTFIT_ENDPOINT_<NAME> overrides it (for tests and proxies)."""
    return os.environ.get(f"RIGHTFIT_ENDPOINT_{name.upper()}", default).rstrip("/")


class Client:
    """One provider's connection. Use it as a context manager."""

    def __init__(self, provider: str, *, credentials: str = "", pace: Pace | None = None) -> None:
        try:
            import httpx
        except ImportError:
            raise MissingComponentError(f"{provider}: needs httpx and tenacity; pip install 'rightfit[prices]'") from None
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
        """Page after page; `next_of(page)` gives the next address or parameters. A page that points to one already read is an error."""
        seen: set[str] = set()
        target: str | None = url
        current = dict(params or {})
        while target is not None:
            key = f"{target} {sorted(current.items())}"
            if key in seen:
                raise NetworkError(f"{self.provider}: page {len(seen)} of the list leads back to a page already read; try again later")
            seen.add(key)
            page = self.json(target, params=current or None, **request)
            yield page
            following = next_of(page)
            if isinstance(following, Mapping):
                current = {**current, **following}
            else:
                target, current = (following or None), {}

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
            raise NetworkError(f"{self.provider}: {_place(url)} {error} ({pace.tries} tries); try again later") from None

    def _once(self, url: str, *, method: str, read: Any, **request: Any) -> Any:
        import httpx

        time.sleep(max(0.0, self._last_s + self.pace.between_s - time.monotonic()))
        self._last_s = time.monotonic()
        try:
            answer = self._http.request(method, url, **request)
        except httpx.TimeoutException:
            raise _TryAgainError(f"did not answer within {self.pace.timeout_s:g} s") from None
        except httpx.RemoteProtocolError:
            raise _TryAgainError("broke off its answer") from None
        except (httpx.TransportError, httpx.InvalidURL) as error:
            raise _TryAgainError(f"cannot be reached ({type(error).__name__})") from None
        self._watch_clock(answer.headers.get("Date", ""))
        self._check_status(answer, url)
        return read(answer)

    def _check_status(self, answer: Any, url: str) -> None:
        status = answer.status_code
        if status in _RETRIED:
            said = answer.headers.get("Retry-After", "")
            raise _TryAgainError(f"answered {status}", after_s=float(said) if said.replace(".", "", 1).isdigit() else None)
        if status in (401, 403):
            raise refused(self.provider, self.credentials, skew_s=self.skew_s)
        if status >= 400:
            raise NetworkError(
                f"{self.provider}: {_place(url)} answered {status}; the service may have changed, see `rightfit catalog refresh --help`"
            )

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
                f"{self.provider}: this machine's clock is {abs(days):.0f} days {'ahead' if days > 0 else 'behind'}; set it right, or prices get wrong dates"
            )


def _read_json(answer: Any) -> Any:
    try:
        return answer.json()
    except ValueError:
        raise _TryAgainError("gave an answer that is cut short or not JSON") from None


def refused(provider: str, credentials: str, *, skew_s: float = 0.0) -> NetworkError:
    """Credentials that the provider does not take; a clock that is off is the other usual cause."""
    clock = f"; this machine's clock is {abs(skew_s) / 60:.0f} minutes off" if abs(skew_s) > _NOTED_SKEW_S else ""
    way = f"; renew them: {credentials}" if credentials else ""
    return NetworkError(f"{provider}: the credentials are missing, expired or lack the permission{way}{clock}")


def one_line(provider: str, error: Exception) -> RightfitError:
    """The fault of a provider's own client library as one line without anything secret: its code, not its message."""
    code = str(getattr(error, "code", "") or type(error).__name__)
    return NetworkError(f"{provider}: the request failed ({code[:80]}); try again later")


def _place(url: str) -> str:
    """Host and path of an address, nothing that could be secret."""
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    return f"{parts.hostname or url}{parts.path}"
