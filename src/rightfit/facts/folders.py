"""Folders and files of models as people keep them: a configuration, an adapter with its base, a
diffusion pipeline, a GGUF file. What stands in them decides, never what they are called."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rightfit.errors import FileInputError, RightfitError
from rightfit.facts import bundled
from rightfit.facts.config_json import FILE_NAME, parse_config, read_bytes
from rightfit.facts.config_models import read_config
from rightfit.facts.config_reader import families
from rightfit.facts.records import DiffusionModel, Model
from rightfit.messages import Message, at_place, cause

_ADAPTER, _PIPELINE = "adapter_config.json", "model_index.json"


def read_folder(path: Path, named: Callable[[str], Model]) -> Model:
    """The model of a folder, or of one of the files that describe one; `named` finds the base of an
    adapter."""
    if path.suffix.casefold() == ".gguf":
        from rightfit.facts.gguf_file import read_gguf

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
