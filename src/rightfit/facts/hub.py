"""Models that are not bundled: config.json from the Hugging Face hub or ModelScope, through
huggingface_hub's own session; folders and files of models as people keep them."""

from __future__ import annotations

import dataclasses
import math
import os
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn

from rightfit.errors import FileInputError, MissingComponentError, NetworkError, RightfitError, UnknownNameError
from rightfit.facts import bundled
from rightfit.facts.config_json import FILE_NAME, LARGEST_CONFIG_BYTES, architecture_from_config, parse_config, read_bytes
from rightfit.facts.config_models import model_from_config, read_config
from rightfit.facts.config_reader import families
from rightfit.facts.records import DiffusionModel, Model, TransformerArchitecture
from rightfit.messages import Message, at_place, cause, foreign, system_problem

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


# ---- Folders and files of models as people keep them: a configuration, an adapter with its base,
# a diffusion pipeline, a GGUF file. What stands in them decides, never what they are called.

_ADAPTER, _PIPELINE = "adapter_config.json", "model_index.json"


def read_folder(path: Path, named: Callable[[str], Model]) -> Model:
    """The model of a folder, or of one of the files that describe one; `named` finds the base of an
    adapter."""
    if path.suffix.casefold() == ".gguf":
        return read_gguf(path)
    inside = {name: path / name if path.is_dir() else path for name in (FILE_NAME, _PIPELINE, _ADAPTER)}
    if _is_there(inside[_PIPELINE], path, _PIPELINE):
        return _pipeline(inside[_PIPELINE])
    if not (path.is_dir() and inside[FILE_NAME].is_file()) and _is_there(inside[_ADAPTER], path, _ADAPTER):
        return _adapted(inside[_ADAPTER], named)
    if path.is_dir() and not inside[FILE_NAME].is_file():
        return read_config(path)  # which says what is missing
    values = parse_config(read_bytes(inside[FILE_NAME]), label=str(inside[FILE_NAME]))
    if "_class_name" in values:
        return _denoiser(values, inside[FILE_NAME])
    if isinstance(name := values.get("architecture"), str) and "model_type" not in values:
        return _of_timm(name, inside[FILE_NAME])
    return read_config(path)


def _is_there(file: Path, path: Path, name: str) -> bool:
    return file.is_file() and (path.is_dir() or path.name == name)


def _of_timm(name: str, file: Path) -> Model:
    """The bundled network that a configuration of timm names."""
    for text in (f"timm/{name}", f"timm/{name.partition('.')[0]}"):
        if entry := bundled.exact_names().get(text.casefold()):
            return bundled.load(entry)
    raise FileInputError(at_place(str(file), Message("facts.config_timm", word=name[:60])))


def _adapted(file: Path, named: Callable[[str], Model]) -> Model:
    """The base of an adapter: what is loaded, and what the adapter is merged into."""
    base = parse_config(read_bytes(file), label=str(file)).get("base_model_name_or_path")
    if not isinstance(base, str) or not base.strip():
        raise FileInputError(at_place(str(file), Message("facts.config_key_missing", word="base_model_name_or_path")))
    try:
        found = named(base)
    except RightfitError as error:
        raise FileInputError(at_place(str(file), Message("facts.adapter_base", base=base[:80], problem=cause(error)))) from None
    return dataclasses.replace(found, source=f"base of the adapter {file.parent.name or file.name}: {found.name}")


def _pipeline(file: Path) -> DiffusionModel:
    """The pipeline of a model_index.json: its denoiser's configuration decides which."""
    index = parse_config(read_bytes(file), label=str(file))
    for part in ("transformer", "unet", "prior"):
        inner = file.parent / part / FILE_NAME
        if inner.is_file():
            return _denoiser(parse_config(read_bytes(inner), label=str(inner)), inner)
    named = next((one[1] for one in (index.get("transformer"), index.get("unet")) if isinstance(one, list) and len(one) > 1), "")
    if not isinstance(named, str) or not named:
        raise FileInputError(at_place(str(file), Message("facts.pipeline_without_denoiser", word=str(index.get("_class_name"))[:60])))
    return _denoiser({"_class_name": named}, file)


def _denoiser(values: Mapping[str, Any], file: Path) -> DiffusionModel:
    """The bundled pipeline whose denoiser is of the class and the size of a configuration."""
    kind = str(values.get("_class_name"))
    records = [one for entry in bundled.index() if entry.family == "diffusion" and isinstance(one := bundled.load(entry), DiffusionModel)]
    alike = [one for one in records if one.denoiser_class == kind]
    for row in families()["denoisers"]:
        if row["class"] == kind and all(values.get(key) == wanted for key, wanted in row["where"].items()):
            alike = [one for one in records if one.name == row["model"]]
    if not alike:
        raise FileInputError(at_place(str(file), Message("facts.config_denoiser", word=kind[:60])))
    size = _size(values)
    sizes = [one.denoiser_params for one in alike]
    if len(values) == 1 and max(sizes) > 1.05 * min(sizes):  # the class alone, of a pipeline without its parts
        names, part = ", ".join(sorted(one.name for one in alike)), "unet" if "UNet" in kind else "transformer"
        raise FileInputError(
            at_place(str(file), Message("facts.pipeline_of_several", word=kind[:60], file=f"{part}/{FILE_NAME}", names=names[:300]))
        )
    # Within a twentieth they are one size, and the first of them, the plain one, is meant.
    found = min(alike, key=lambda one: round(abs(math.log(one.denoiser_params / size)) / 0.05)) if size else alike[0]
    return dataclasses.replace(found, source=f"configuration of {file.parent.name or file.name}: {kind}, read as {found.name}")


def _size(values: Mapping[str, Any]) -> float:
    """Parameters of a transformer that draws, roughly: 12 times the width squared a block, twice
    that in blocks of two streams."""
    heads, each = values.get("num_attention_heads"), values.get("attention_head_dim")
    layers, single = values.get("num_layers"), values.get("num_single_layers") or 0
    if not all(isinstance(one, int) and one > 0 for one in (heads, each, layers)) or not isinstance(single, int):
        return 0.0
    assert isinstance(heads, int)
    assert isinstance(each, int)
    assert isinstance(layers, int)
    streams = 2.0 if "joint_attention_dim" in values else 1.14
    return 12.0 * (heads * each) ** 2 * (streams * layers + single)


# ---- Headers of GGUF files: the dimensions that llama.cpp reads, and the parameters of the
# tensors; weights are not read.

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_TEXT, _LIST = 8, 9
_MOST = 10_000_000  # entries of a list (vocabularies have hundreds of thousands), characters of a text


class _BrokenError(Exception):
    """Not a GGUF file, or cut short."""


def read_gguf(path: Path) -> TransformerArchitecture:
    """The architecture that a GGUF file's header states, with the parameters of its tensors."""
    try:
        with path.open("rb") as stream:
            told, params = _header(stream)
    except (OSError, ValueError) as error:
        raise FileInputError(Message("facts.unreadable_file", path=path, error=system_problem(error)), field="model") from None
    except (_BrokenError, struct.error, OverflowError, MemoryError):
        raise FileInputError(at_place(str(path), Message("facts.no_gguf")), field="model") from None
    kind = str(told.get("general.architecture", ""))
    config: dict[str, Any] = {"model_type": families()["gguf_types"].get(kind, kind)}
    for key, ours in families()["gguf_keys"].items():
        if isinstance(value := told.get(f"{kind}.{key}"), int | float | list) and value:
            config[ours] = max(value) if isinstance(value, list) else value
    config.setdefault("vocab_size", told.get("tokenizer.ggml.tokens"))
    record = architecture_from_config(config, name=str(path), label=str(path), source=f"header of {path.name}")
    if not params:
        return record
    idle = record.params_total - record.params_active
    return dataclasses.replace(record, params_total=params, params_active=max(params - idle, 1), params_stored=params)


def _header(stream: IO[bytes]) -> tuple[dict[str, Any], int]:
    """Key -> value of the metadata (of a list of texts its length), and the parameters of all
    tensors."""
    if stream.read(4) != b"GGUF":
        raise _BrokenError
    version, tensors, entries = _unpack(stream, "<IQQ")
    if version not in (2, 3) or tensors > _MOST or entries > _MOST:
        raise _BrokenError
    told: dict[str, Any] = {}
    for _ in range(entries):
        key = _text(stream)
        told[key] = _value(stream, _unpack(stream, "<I")[0])
    params = 0
    for _ in range(tensors):
        _text(stream)
        (sides,) = _unpack(stream, "<I")
        if sides > 8:
            raise _BrokenError
        params += math.prod(_unpack(stream, f"<{sides}Q"))
        _unpack(stream, "<IQ")
    return told, params


def _unpack(stream: IO[bytes], form: str) -> tuple[Any, ...]:
    return struct.unpack(form, stream.read(struct.calcsize(form)))


def _text(stream: IO[bytes]) -> str:
    (length,) = _unpack(stream, "<Q")
    if length > _MOST:
        raise _BrokenError
    data = stream.read(length)
    if len(data) < length:
        raise _BrokenError
    return data.decode("utf-8", "replace")


def _value(stream: IO[bytes], kind: int) -> Any:
    if kind in _SCALARS:
        return _unpack(stream, f"<{_SCALARS[kind]}")[0]
    if kind == _TEXT:
        return _text(stream)
    if kind != _LIST:
        raise _BrokenError
    inner, count = _unpack(stream, "<IQ")
    if count > _MOST:
        raise _BrokenError
    if inner == _TEXT:
        for _ in range(count):
            _text(stream)
        return count
    return [_value(stream, inner) for _ in range(count)]
