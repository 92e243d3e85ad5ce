"""Models that are not bundled: config.json from the Hugging Face hub or ModelScope, through
huggingface_hub's own session."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, NoReturn

from rightfit.errors import FileInputError, MissingComponentError, NetworkError, RightfitError, UnknownNameError
from rightfit.facts.config_json import LARGEST_CONFIG_BYTES, parse_config
from rightfit.facts.config_models import model_from_config
from rightfit.facts.records import Model
from rightfit.messages import Message, foreign

# Long enough for a slow line to send a few kilobytes, short enough that a user without network
# waits for an answer, not for a coffee.
CONNECT_AND_READ_S = 4.0
WHOLE_TRANSFER_S = 10.0
_OFFLINE_WORDS = frozenset({"1", "true", "yes", "on"})
_MODELSCOPE_PREFIXES = ("ms:", "modelscope:")


class _Place(NamedTuple):
    """Where a model's config.json lies."""

    model_id: str
    host: str
    url: str
    is_modelscope: bool


def fetch_architecture(text: str, *, nearest: Sequence[str] = ()) -> Model:
    """The architecture of a hub id: from the local hub cache, else over the
    network in a few seconds.

    `ms:org/name`, or MODELSCOPE_ENDPOINT without HF_ENDPOINT, asks ModelScope; HF_ENDPOINT names
    a mirror of the hub; HF_HUB_OFFLINE forbids the network. `nearest` are bundled names to
    suggest in errors.
    """
    place = _place(text)
    data, source = _cached(place), f"local hub cache of {place.model_id}"
    if data is None:
        data, source = _download(place, nearest), place.url
    config = parse_config(data, label=f"{place.model_id} config.json")
    return model_from_config(config, name=place.model_id, label=f"{place.model_id} config.json", source=source)


def _place(text: str) -> _Place:
    prefix, _, rest = text.rpartition(":")
    hub, scope = (os.environ.get(key, "").strip().rstrip("/") for key in ("HF_ENDPOINT", "MODELSCOPE_ENDPOINT"))
    modelscope = text.casefold().startswith(_MODELSCOPE_PREFIXES) or bool(scope and not hub and not prefix)
    host = (scope or "https://www.modelscope.cn") if modelscope else (hub or "https://huggingface.co")
    if "://" not in host:
        host = f"https://{host}"
    path = f"models/{rest}/resolve/master" if modelscope else f"{rest}/resolve/main"
    return _Place(rest, host, f"{host}/{path}/config.json", modelscope)


def _library() -> Any:
    """The optional huggingface_hub, imported only here: it costs as much time as
    the rest of a plan."""
    try:
        import huggingface_hub
        import huggingface_hub.utils
    except ImportError:
        return None
    return huggingface_hub


def _cached(place: _Place) -> bytes | None:
    library = _library()
    if library is None or place.is_modelscope:
        return None
    try:
        path = library.try_to_load_from_cache(place.model_id, "config.json")
    except ValueError:  # the library refuses ids that the hub would refuse
        return None
    if not isinstance(path, str):
        return None
    try:
        with open(path, "rb") as stream:  # noqa: PTH123 - a path from the library, read at most to the limit
            return stream.read(LARGEST_CONFIG_BYTES + 1)
    except OSError:
        return None


def _download(place: _Place, nearest: Sequence[str]) -> bytes:
    hint = Message("facts.nearest_bundled", names=", ".join(nearest)) if nearest else ""
    if os.environ.get("HF_HUB_OFFLINE", "").strip().casefold() in _OFFLINE_WORDS:
        raise NetworkError(Message("facts.hub_offline", model=place.model_id, host=place.host, hint=hint))
    library = _library()
    if library is None:
        raise MissingComponentError(Message("facts.hub_package", model=place.model_id, host=place.host, hint=hint))
    headers = _headers(place, library)
    try:
        with _response(library.utils.get_session(), place.url, headers) as (status, answer_headers, chunks):
            if status != 200:
                _refuse(place, status, answer_headers, nearest, hint)
            return _collect(place, chunks)
    except RightfitError:
        raise
    except Exception as error:  # the session's exceptions differ between requests, httpx and their successors
        reason = str(error).strip().splitlines()[0][:120] if str(error).strip() else type(error).__name__
        raise NetworkError(
            Message("facts.hub_unreachable", model=place.model_id, host=place.host, error=foreign(reason), hint=hint)
        ) from None


def _headers(place: _Place, library: Any) -> dict[str, str]:
    """Our name, and the user's own hub login where it belongs. Written here because the library's
    builder first asks the hub for more."""
    headers = {"user-agent": "rightfit"}
    token = None if place.is_modelscope else library.get_token()
    if token:
        headers["authorization"] = f"Bearer {token}"
    return headers


@contextmanager
def _response(session: Any, url: str, headers: Mapping[str, str]) -> Iterator[tuple[int, Mapping[str, str], Iterator[bytes]]]:
    """Status, headers and body in pieces, whether the session is of httpx (huggingface_hub 1 and
    later) or of requests (before)."""
    if callable(getattr(session, "stream", None)):
        with session.stream("GET", url, headers=headers, timeout=CONNECT_AND_READ_S, follow_redirects=True) as answer:
            yield answer.status_code, answer.headers, answer.iter_bytes()
    else:
        with session.get(url, headers=headers, timeout=CONNECT_AND_READ_S, stream=True) as answer:
            yield answer.status_code, answer.headers, answer.iter_content(65536)


def _collect(place: _Place, chunks: Iterator[bytes]) -> bytes:
    """The body, unless it is too large or drips too slowly."""
    data, deadline = bytearray(), time.monotonic() + WHOLE_TRANSFER_S
    for chunk in chunks:
        data += chunk
        if len(data) > LARGEST_CONFIG_BYTES:
            raise FileInputError(Message("facts.config_too_large", label=place.url, megabytes=LARGEST_CONFIG_BYTES / 1000000.0))
        if time.monotonic() > deadline:
            raise NetworkError(Message("facts.hub_slow", host=place.host, seconds=WHOLE_TRANSFER_S, model=place.model_id))
    return bytes(data)


def _refuse(place: _Place, status: int, headers: Mapping[str, str], nearest: Sequence[str], hint: Message | str) -> NoReturn:
    code = headers.get("X-Error-Code", "")
    if code == "EntryNotFound":
        raise UnknownNameError("model", place.model_id, nearest=nearest, allowed=Message("names.no_config", host=place.host))
    if status == 404 or code == "RepoNotFound":
        raise UnknownNameError("model", place.model_id, nearest=nearest, allowed=Message("names.nowhere", host=place.host))
    if status in (401, 403):
        how = Message("facts.licence")
        raise NetworkError(Message("facts.hub_gated", model=place.model_id, host=place.host, status=status, why=how, hint=hint))
    raise NetworkError(Message("facts.hub_status", host=place.host, status=status, model=place.model_id, hint=hint))
