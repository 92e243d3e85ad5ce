"""Parameters of safetensors files from their headers, through the safetensors package;
weights are never read.

With a config.json beside them the configuration says the rest (a language model, or a model of
timm or torchvision by its name); without one only parameters are known, and the record says
what is missing.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rightfit.errors import FileInputError, MissingComponentError, RightfitError
from rightfit.facts.own.reference import Tally, record_of
from rightfit.facts.records import Model, TracedModel, TransformerArchitecture
from rightfit.messages import Message, foreign, system_problem

MOST_SHARDS, LARGEST_INDEX_BYTES = 2000, 100_000_000
_HALVES = 2  # packed formats hold two 4-bit numbers a byte
_ADAPTER = re.compile(r"lora_(A|B|down|up|embedding)|\.(lokr|loha|hada)_|\.alpha$")
_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks?|layer|encoder_layers)\.(\d+)\.")
_TABLE = re.compile(r"(embed_tokens|word_embeddings|wte|tok_embeddings|token_embedding|embed_in)\.weight$")
_BITS = {"F64": 64, "F32": 32, "F16": 16, "BF16": 16, "I64": 64, "I32": 32, "I16": 16, "I8": 8, "U8": 8, "U16": 16, "U32": 32, "U64": 64, "BOOL": 8, "F8_E4M3": 8, "F8_E5M2": 8}  # fmt: skip
_NOT_WEIGHTS = ("I64", "U64", "BOOL", "I16", "U16", "F64")


def read_tensors(path: Path, *, name: str) -> Model:
    """The record of a safetensors file, an index of shards, or a folder of them."""
    files = shards(path)
    tensors: dict[str, tuple[str, tuple[int, ...]]] = {}
    for file in files:
        for key, value in header(file).items():
            if key in tensors:
                raise FileInputError(Message("facts.tensor_twice", path=file, tensor=key[:60]), field="model")
            tensors[key] = value
    if not tensors:
        raise FileInputError(Message("facts.no_tensors", path=path), field="model")
    if any(_ADAPTER.search(key) for key in tensors):
        raise FileInputError(Message("facts.adapter", path=path), field="model")
    tally = counts(tensors)
    folder = path if path.is_dir() else path.parent
    source = f"header of {path.name or path.resolve().name}"
    return _described(folder / "config.json", tally, name, source) or _bare(tensors, tally, name, source)


def shards(path: Path) -> list[Path]:
    """The files that make up the model."""
    try:
        if path.is_dir():
            found = sorted(path.glob("*.safetensors"))
        elif path.name.endswith(".index.json"):
            found = _indexed(path)
        else:
            found = [path]
        missing = next((one for one in found if not one.is_file()), None)
    except (OSError, ValueError) as error:
        raise FileInputError(Message("facts.unreadable_file", path=path, error=system_problem(error)), field="model") from None
    if missing is not None:
        raise FileInputError(Message("facts.no_such_file", path=missing), field="model")
    if len(found) > MOST_SHARDS:
        raise FileInputError(Message("facts.too_many_files", path=path, count=len(found), most=MOST_SHARDS), field="model")
    if len({re.sub(r"-\d{5}-of-\d{5}$", "", one.stem) for one in found}) > 1:
        raise FileInputError(Message("facts.several_models", path=path, files=", ".join(one.name for one in found[:3])), field="model")
    return found


def _indexed(path: Path) -> list[Path]:
    """Shards of an index file; none of them may lie outside its folder."""
    if path.stat().st_size > LARGEST_INDEX_BYTES:
        raise FileInputError(Message("facts.index_too_large", path=path, megabytes=LARGEST_INDEX_BYTES / 1000000.0), field="model")
    try:
        values = json.loads(path.read_text("utf-8"))
        names = sorted(set(values["weight_map"].values()))
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError):
        raise FileInputError(Message("facts.no_index", path=path), field="model") from None
    folder = path.resolve().parent
    for name in names:
        if not isinstance(name, str) or not name.endswith(".safetensors") or Path(name).name != name:
            raise FileInputError(Message("facts.not_in_folder", path=path, file=str(name)[:60]), field="model")
    return [folder / name for name in names]


def header(file: Path) -> Mapping[str, tuple[str, tuple[int, ...]]]:
    """Dtype and shape of every tensor in a file, as the safetensors package
    reads and checks them."""
    try:
        import safetensors
    except ImportError:
        raise MissingComponentError(Message("facts.needs_safetensors", path=file)) from None
    try:
        with safetensors.safe_open(file, framework="numpy") as opened:
            slices = {key: opened.get_slice(key) for key in opened.keys()}  # noqa: SIM118 - the object has no other way
            return {key: (one.get_dtype(), tuple(one.get_shape())) for key, one in slices.items()}
    except (safetensors.SafetensorError, OSError, ValueError, OverflowError) as error:
        reason = " ".join(str(error).split())[:120]
        raise FileInputError(Message("facts.no_safetensors", path=file, error=foreign(reason)), field="model") from None


def counts(tensors: Mapping[str, tuple[str, tuple[int, ...]]]) -> Tally:
    """Parameters by dtype. Weights of 4 bits that are packed into integers count as
    what they stand for."""
    tally = Tally()
    for key, (dtype, shape) in tensors.items():
        count = math.prod(shape)
        if dtype in _NOT_WEIGHTS and not key.endswith(".weight"):
            continue
        tally.stored_bytes += count * _BITS.get(dtype, 8) / 8.0
        if packed := _packed(key, dtype):
            count *= packed
        elif key.endswith(
            ("scales", "g_idx", "qzeros", ".absmax", "quant_map", "nested_absmax", "weight_scale", "weight_scale_inv", "input_scale")
        ):
            continue
        tally.params += count
        tally.dtypes[dtype] = tally.dtypes.get(dtype, 0) + count
        tally.params_embedding += count if _TABLE.search(key) else 0
    tally.params_trainable = tally.params
    return tally


def _packed(key: str, dtype: str) -> int:
    """Numbers in one stored element: GPTQ and AWQ pack eight 4-bit weights into an int32,
    bitsandbytes two into a byte."""
    if key.endswith("qweight") and dtype in ("I32", "U32"):
        return 8
    return _HALVES if dtype == "U8" and key.endswith((".weight", "_blocks")) else 0


def _described(config: Path, tally: Tally, name: str, source: str) -> Model | None:
    """The model that a config.json beside the file describes; None without one. Other than the
    file's parameters are refused."""
    if not config.is_file():
        return None
    from rightfit.facts.config_json import parse_config
    from rightfit.facts.config_models import read_config

    values = parse_config(config.read_bytes()[:5_000_001], label=str(config))
    if isinstance(architecture := values.get("architecture"), str) and "model_type" not in values:
        return _named(architecture, tally, name, source)
    found = read_config(config)
    if not isinstance(found, TransformerArchitecture | TracedModel):
        return found
    if not tally.params * 0.97 <= found.params_total <= tally.params * 1.03 and not _is_tied(found, tally):
        raise FileInputError(
            Message(
                "facts.config_of_another",
                path=name,
                count=tally.params / 1000000000.0,
                config=config,
                described=found.params_total / 1000000000.0,
            ),
            field="model",
        )
    if isinstance(found, TracedModel):
        return dataclasses.replace(found, source=f"{source} and config.json", stored_bytes=tally.stored_bytes)
    return dataclasses.replace(found, source=f"{source} and config.json", params_stored=tally.params)


def _is_tied(model: TransformerArchitecture | TracedModel, tally: Tally) -> bool:
    """Whether the difference is an output layer that is stored twice, or left out
    because it is tied."""
    if isinstance(model, TracedModel):
        return False
    head = model.vocab_size * model.hidden_size
    return any(abs(tally.params - model.params_total + sign * head) < 0.03 * tally.params for sign in (1, -1))


def _named(architecture: str, tally: Tally, name: str, source: str) -> Model | None:
    """A bundled vision model that the configuration names, if its parameters are those of the file
    within a tenth (heads differ)."""
    from rightfit.facts import bundled

    for text in (f"timm/{architecture}", f"torchvision/{architecture}", architecture):
        entry = bundled.exact_names().get(text.casefold())
        if entry is not None:
            found = bundled.load(entry)
            total = getattr(found, "params_total", 0)
            if abs(total - tally.params) <= 0.1 * max(total, 1):
                return found
    return None


def _bare(tensors: Mapping[str, Any], tally: Tally, name: str, source: str) -> TracedModel:
    """Parameters alone, and what their names tell."""
    layers = {int(found[1]) for key in tensors if (found := _LAYER.search(key))}
    guess = _family(list(tensors))
    record = record_of(tally, name=name, source=source)
    shown = f", {len(layers)} layers" if layers else ""
    notes = f"{guess}{shown}; how its tensors are used is not in the file: put its config.json beside it"
    return dataclasses.replace(record, notes=notes)


def _family(keys: Sequence[str]) -> str:
    """What the names of tensors look like."""
    text = "\n".join(keys)
    for pattern, family in (
        (r"block_sparse_moe|mlp\.experts\.", "looks like a mixture of experts"),
        (r"self_attn\.q_proj", "looks like a Llama-like decoder" if "embed_tokens" in text else "looks like a transformer"),
        (r"attn\.c_attn", "looks like GPT-2"),
        (r"encoder\.layer\.\d+\.attention\.self", "looks like BERT"),
        (r"blocks\.\d+\.attn\.qkv", "looks like a vision transformer"),
        (r"down_blocks\.|transformer_blocks\.", "looks like a diffusion model"),
        (r"layer\d\.\d+\.conv\d|bn\d", "looks like a convolutional network"),
    ):
        if re.search(pattern, text):
            return family
    return "of no family that its tensor names tell"


def missing_text(record: Model) -> Message | str:
    """What a record of parameters alone lacks for a plan; empty when it lacks nothing."""
    if not isinstance(record, TracedModel) or record.kind:
        return ""
    try:
        return Message("facts.tensors_alone", model=record.name, params=record.params_total / 1e6, notes=record.notes)
    except (TypeError, RightfitError):
        return Message("facts.tensors_unknown", model=record.name)
