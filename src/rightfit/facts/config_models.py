"""From a configuration to the record of whatever model it describes: a language model, an encoder,
or a network whose arithmetic was counted for its class of transformers (vision, detection,
speech)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rightfit.errors import FileInputError
from rightfit.facts.config_classes import ClassCount, Values, count
from rightfit.facts.config_json import FILE_NAME, architecture_from_config, parse_config, read_bytes
from rightfit.facts.config_reader import families
from rightfit.facts.own.reference import Tally, record_of
from rightfit.facts.parameter_count import attention_parameters, norm_parameters
from rightfit.facts.records import Model, TracedModel
from rightfit.messages import Message, at_place

#: What classes do that read and write text, or hear and write it: records of their dimensions.
_OF_LANGUAGE = frozenset({"causal", "vlm", "seq2seq", "encoder", "multimodal", "speech"})
_SIDES = ("image_size", "vision_config.image_size", "backbone_config.image_size", "img_size", "input_size")
_PATCHES = ("patch_size", "vision_config.patch_size", "backbone_config.patch_size")
_DEPTHS = ("num_hidden_layers", "encoder_layers", "backbone_config.num_hidden_layers", "vision_config.num_hidden_layers")
_OUTPUT_MAPS = frozenset({"segmentation", "depth", "masks"})


def model_from_config(config: Mapping[str, Any], *, name: str, label: str, source: str) -> Model:
    """The record of a configuration. Raises FileInputError where its dimensions give no model, or
    where it is none of transformers."""
    if (kind := config.get("_class_name")) is not None:
        raise FileInputError(at_place(label, Message("facts.config_diffusers", word=str(kind)[:60])))
    model_type = config.get("model_type")
    if (both := _joined(config)) and (model_type in families()["joined"]["types"] or not isinstance(model_type, str)):
        return _of_parts(both, name=name, label=label, source=source)
    counted = count(config, model_type) if isinstance(model_type, str) else None
    if counted is None or counted.known.task in _OF_LANGUAGE:
        return architecture_from_config(config, name=name, label=label, source=source)
    return _counted_network(config, counted, name=name, source=source)


def _counted_network(config: Mapping[str, Any], counted: ClassCount, *, name: str, source: str) -> TracedModel:
    """A network by its class's arithmetic at the default size, scaled to the dimensions of the
    file: products with the parameters and the positions, attention scores with the square of the
    positions."""
    known, work = counted.known, counted.known.work
    told = f"{source}, counted as {known.model_class} of transformers"
    if not work:
        return TracedModel(
            name, "", "", counted.total, 0.0, told, family=known.model_type, params_trainable=counted.total, certainty="config",
            notes=f"{known.model_class} ({known.task}): its arithmetic is not counted",
        )  # fmt: skip
    values, grown = Values(config, known), counted.total / max(float(work["body"]), 1.0)
    side, area = _side(values, work)
    positions = area * _patches(values)
    deep = _deep(values)
    wide = math.sqrt(max(grown / deep, 1e-9))
    tally = Tally.of({**work, **{part: dict(work[part]) for part in ("macs", "elements", "layers")}})
    for part in ("macs", "elements", "layers"):
        table: dict[str, float] = getattr(tally, part)
        for kind in ("conv", "grouped", "depthwise", "conv3d", "linear", "recurrent", "score"):
            table.setdefault(kind, 0)
    scales = {"macs": grown * positions, "elements": deep * wide * positions}
    for kind in tally.macs:
        tally.macs[kind] *= deep * wide * positions**2 if kind == "score" else scales["macs"]
        tally.elements[kind] *= scales["elements"]
        tally.layers[kind] = round(tally.layers[kind] * deep)
    tally.blocks, tally.widest = tally.blocks * deep, tally.widest * wide * positions
    tally.tokens, tally.attended = tally.tokens * positions, tally.attended * positions
    tally.params = tally.params_trainable = counted.total
    shape = [*work["input"][:-2], side, side] if len(work["input"]) >= 3 else list(work["input"])
    tally.inputs = [(str(work["main"]), shape, "float32")]
    record = record_of(tally, name=name, source=told)
    output = "map" if known.task in _OUTPUT_MAPS else ""
    return dataclasses.replace(
        record, family=known.model_type, output=output, certainty="config", params_embedding=round(counted.parts["e"])
    )


def _side(values: Values, work: Mapping[str, Any]) -> tuple[int, float]:
    """Side of a picture of the file, and its area over that of the counted one."""
    usual = int(work["side"])
    if len(work["input"]) < 3:
        return usual, 1.0
    for key in _SIDES:
        found = values.written(key)
        found = max(found) if isinstance(found, list) and found and all(isinstance(one, int) for one in found) else found
        if isinstance(found, int) and not isinstance(found, bool) and 0 < found <= 100_000:
            return found, (found / usual) ** 2
    return usual, 1.0


def _patches(values: Values) -> float:
    """Patches of the file over those of the class's default, for the same picture."""
    for key in _PATCHES:
        default, found = values.known.defaults.get(key), values.written(key)
        if isinstance(default, int) and isinstance(found, int) and found > 0:
            return (default / found) ** 2
    return 1.0


def _deep(values: Values) -> float:
    """Layers of the file over those of the class's default."""
    for key in _DEPTHS:
        default = values.known.defaults.get(key)
        if isinstance(default, int) and default > 0:
            return max(values.number(key) / default, 1.0 / default)
    return 1.0


# ---- Models of two parts, each with a configuration of its own (an image encoder and a text
# decoder).


def _joined(config: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]] | None:
    """Encoder and decoder of a file that names both; None for any other."""
    parts = (config.get("encoder"), config.get("decoder"))
    if all(isinstance(one, Mapping) and isinstance(one.get("model_type"), str) for one in parts):
        return parts  # type: ignore[return-value]
    return None


def _of_parts(parts: tuple[Mapping[str, Any], Mapping[str, Any]], *, name: str, label: str, source: str) -> Model:
    """An encoder-decoder of two files: the decoder writes, and attends to what the encoder made."""
    encoder, decoder = parts
    seen = count(encoder, str(encoder["model_type"]))
    if seen is None:
        raise FileInputError(at_place(label, Message("facts.config_part", word=str(encoder["model_type"])[:40], key="encoder")))
    written = architecture_from_config(decoder, name=name, label=label, source=source)
    values = Values(encoder, seen.known)
    layers = round(values.number("num_hidden_layers"))
    fields: dict[str, Any] = {"vision_layers": layers, "vision_hidden": round(values.number("hidden_size"))}
    fields |= {"vision_patch": round(values.number("patch_size")), "vision_image_size": round(values.number("image_size"))}
    is_seeing = seen.known.task not in _OF_LANGUAGE and fields["vision_patch"] > 0
    crossing = 0 if decoder["model_type"] in families()["joined"]["own_cross"] or written.kind == "encoder-decoder" else written.num_layers
    # Decoders that are otherwise used alone are given attention to the encoder: four products and a
    # norm a layer.
    total = written.params_total + seen.total + crossing * (attention_parameters(written) + norm_parameters(written))
    if is_seeing:
        return dataclasses.replace(
            written, kind="vlm", params_total=total, params_active=total, params_vision=seen.total, num_encoder_layers=0,
            num_decoder_layers=0, **fields,
        )  # fmt: skip
    own = (
        round(Values(decoder, seen.known).number("num_hidden_layers")) if written.kind != "encoder-decoder" else written.num_decoder_layers
    )
    decoding = own or written.num_layers
    return dataclasses.replace(
        written, kind="encoder-decoder", params_total=total, params_active=total, num_encoder_layers=layers,
        num_decoder_layers=decoding, num_layers=layers + decoding, num_full_attention_layers=layers + decoding,
    )  # fmt: skip


def read_config(path: Path | str) -> Model:
    """The model of a config.json, given the file or the model folder that holds it. Its name is the
    path as it was given: what a folder is called, or the file says of where it came from, tells
    nothing about the model."""
    file = Path(path)
    if file.is_dir():
        if not (file / FILE_NAME).exists():
            raise FileInputError(Message("facts.folder_without_config", folder=file, file=FILE_NAME))
        file = file / FILE_NAME
    config = parse_config(read_bytes(file), label=str(file))
    return model_from_config(config, name=str(path), label=str(file), source=f"{file.name} given by the user")
