"""The traced engine: run one training step of the real PyTorch module on fake tensors
and read the bytes.

No GPU and almost no memory are needed: PyTorch's FakeTensorMode propagates shapes only, and its
MemTracker follows every storage through forward, backward and optimizer step. What comes out are
live tensor bytes; the CUDA context, cuBLAS workspaces, the allocator's rounding and fragmentation
come on top (see `physics/memory_peak.py`). On a CPU build of PyTorch, autocast and dropout follow
the CPU's rules, and the fake device must be the CPU.

Needs the extra `trace` (PyTorch, transformers). Source of the method:
torch.distributed._tools.mem_tracker of PyTorch 2.13.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from rightfit import facts
from rightfit.errors import ContradictionError, FileInputError, InputError, MissingComponentError
from rightfit.estimation.convert import device_columns
from rightfit.facts.own.reference import FUNCTION
from rightfit.facts.records import TransformerArchitecture
from rightfit.messages import Message, cause
from rightfit.physics import memory_peak as overheads
from rightfit.physics.columns import DeviceColumns, SetupColumns
from rightfit.records import dataclass

INSTALL_HINT = Message("estimate.no_torch")


@dataclass(frozen=True, slots=True)
class TracedMemory:
    """Bytes of live tensors per GPU. `saved_activations_bytes` is what the forward pass leaves for
    the backward pass, logits and loss included."""

    parameters_bytes: float
    gradients_bytes: float
    optimizer_bytes: float
    saved_activations_bytes: float
    peak_bytes: float
    peak_terms: dict[str, float]
    num_parameters: int


def trace_config(
    config: Path | dict[str, Any],
    *,
    micro_batch: int,
    seq_len: int,
    dtype: str = "bf16",
    recompute: bool = False,
    attention: str = "sdpa",
    shard_degree: int = 1,
    dropout: bool = True,
) -> TracedMemory:
    """Trace a Hugging Face config (a dict, a config.json or a folder with one): full
    training with AdamW.

    `shard_degree` > 1 shards every block with FSDP2 over as many pretended ranks. Without `dropout`
    all dropouts of the config are 0: on a CPU build, attention with dropout runs without fusion and
    keeps scores that the kernels of a GPU do not.
    """
    require_trace_extra()
    values = config if isinstance(config, dict) else read_config(config)
    if not dropout:
        values = {**values, **dict.fromkeys(DROPOUTS, 0.0)}
    return _trace(
        lambda: _build_from_config(values, attention=attention, recompute=recompute),
        micro_batch=micro_batch,
        seq_len=seq_len,
        dtype=dtype,
        shard_degree=shard_degree,
    )


def trace_function(target: str, *, micro_batch: int, seq_len: int, dtype: str = "bf16", shard_degree: int = 1) -> TracedMemory:
    """Trace a user's `module:function`, which returns a torch module whose call
    `module(input_ids=..., labels=...)` gives an object with `.loss`, or a loss."""
    require_trace_extra()
    return _trace(load_function(target), micro_batch=micro_batch, seq_len=seq_len, dtype=dtype, shard_degree=shard_degree)


def require_trace_extra() -> None:
    """Raise MissingComponentError unless torch and transformers can be imported."""
    from importlib.util import find_spec

    if find_spec("torch") is None or find_spec("transformers") is None:
        raise MissingComponentError(INSTALL_HINT)


def load_function(target: str) -> Callable[[], Any]:
    """`module:function` from the current folder or the path, or a clear InputError."""
    module_name, _, function_name = target.partition(":")
    if not module_name or not function_name:
        raise InputError(Message("estimate.not_a_function", word=repr(target)))
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 - what `python -m` does
    try:
        function = getattr(importlib.import_module(module_name), function_name)
    except (ImportError, AttributeError) as error:
        raise InputError(Message("estimate.cannot_load", word=repr(target), error=cause(error))) from error
    finally:
        sys.path.pop(0)
    if not callable(function):
        raise InputError(Message("estimate.not_callable", word=repr(target)))
    return function  # type: ignore[no-any-return]


def read_config(path: Path) -> dict[str, Any]:
    """A config.json, or the one in a folder."""
    file = path / "config.json" if path.is_dir() else path
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FileInputError(Message("problems.cannot_read", name=file, error=cause(error))) from error
    if not isinstance(values, dict) or "model_type" not in values:
        raise FileInputError(Message("estimate.no_model_type", file=file))
    return values


def module_config(architecture: TransformerArchitecture) -> dict[str, Any]:
    """The Hugging Face config of a bundled architecture, for the families whose module is
    known to match it."""
    shared = {
        "vocab_size": architecture.vocab_size,
        "hidden_size": architecture.hidden_size,
        "num_hidden_layers": architecture.num_layers,
        "num_attention_heads": architecture.num_heads,
        "num_key_value_heads": architecture.num_kv_heads,
        "intermediate_size": architecture.intermediate_size,
        "head_dim": architecture.head_dim,
        "max_position_embeddings": architecture.max_position or 2048,
        "tie_word_embeddings": architecture.tied_embeddings,
    }
    model_type = MODEL_TYPES.get(architecture.family)
    if model_type is None:
        raise ContradictionError(Message("estimate.cannot_build", model=architecture.name, family=repr(architecture.family)))
    if model_type == "gpt2":
        return {
            "model_type": "gpt2",
            "vocab_size": architecture.vocab_size,
            "n_embd": architecture.hidden_size,
            "n_layer": architecture.num_layers,
            "n_head": architecture.num_heads,
            "n_positions": architecture.max_position,
            "n_inner": architecture.intermediate_size,
        }
    if architecture.num_experts:
        shared |= {"num_local_experts": architecture.num_experts, "num_experts_per_tok": architecture.experts_per_token}
    return {"model_type": model_type, **shared}


#: The words for dropout in the configs of transformers.
DROPOUTS = (
    "attention_dropout", "hidden_dropout", "attention_probs_dropout_prob", "hidden_dropout_prob", "dropout", "dropout_rate",
    "attn_pdrop", "embd_pdrop", "resid_pdrop", "activation_dropout", "summary_first_dropout",
)  # fmt: skip
MODEL_TYPES = {
    "llama": "llama", "llama2": "llama", "llama3": "llama", "llama3.1": "llama", "llama3.2": "llama", "mistral": "mistral", "mixtral": "mixtral", "qwen2": "qwen2",
    "qwen2.5": "qwen2", "qwen3": "qwen3", "gpt2": "gpt2", "bert": "bert", "gemma": "gemma", "gemma2": "gemma2", "phi3": "phi3", "tinyllama": "llama",
}  # fmt: skip


def _build_from_config(values: dict[str, Any], *, attention: str, recompute: bool) -> Any:
    """The real module of a config: a causal LM, else a masked LM, else an encoder-decoder."""
    import transformers

    transformers.logging.set_verbosity_error()  # its remarks on a config are not about the question asked
    known = dict(values)
    config = transformers.AutoConfig.for_model(known.pop("model_type"), **known)
    config.use_cache = False
    mappings = (transformers.AutoModelForCausalLM, transformers.AutoModelForSeq2SeqLM, transformers.AutoModelForMaskedLM)
    wanted = transformers.AutoModelForMaskedLM if config.model_type in {"bert", "roberta", "electra", "distilbert", "deberta"} else None
    for auto in (wanted,) if wanted else mappings:
        if type(config) in auto._model_mapping:
            model = _from_config(auto, config, attention)
            if recompute:
                model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
            return model
    raise InputError(Message("estimate.no_class_of_model", kind=repr(config.model_type)))


def _from_config(auto: Any, config: Any, attention: str) -> Any:
    """The module with the wanted attention, or with eager attention where its
    family has no other."""
    try:
        return auto.from_config(config, attn_implementation=attention)
    except ValueError as error:
        if "does not support an attention implementation" not in str(error):
            raise
        return auto.from_config(config, attn_implementation="eager")


@contextmanager
def _pretended_mesh(count: int) -> Iterator[Any]:
    """A device mesh of `count` ranks that talk to nobody; None for one rank."""
    if count == 1:
        yield None
        return
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=count)
    try:
        yield init_device_mesh("cpu", (count,))
    finally:
        dist.destroy_process_group()


@contextmanager
def _one_sequence_a_row() -> Iterator[None]:
    """Under fake tensors transformers cannot look whether a row holds several packed sequences, so
    it makes a mask, and with a mask SDPA repeats keys and values for all heads. A real run looks,
    finds none, and makes no mask: here it is told."""
    try:
        from transformers import masking_utils
    except ImportError:  # releases before 4.53 never look
        yield
        return
    before = masking_utils.find_packed_sequence_indices
    masking_utils.find_packed_sequence_indices = lambda *_, **__: None
    try:
        yield
    finally:
        masking_utils.find_packed_sequence_indices = before


def _shard(model: Any, mesh: Any) -> None:
    """FSDP2 around every repeated block and the whole."""
    import torch
    from torch.distributed.fsdp import fully_shard

    for module in model.modules():
        if isinstance(module, torch.nn.ModuleList):
            for block in module:
                fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)


def _trace(build: Callable[[], Any], *, micro_batch: int, seq_len: int, dtype: str, shard_degree: int) -> TracedMemory:
    """Two steps under fake tensors; the second one is read, because AdamW makes its
    state in the first."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
    from torch.distributed._tools.mem_tracker import MemTracker

    with (
        warnings.catch_warnings(),
        _one_sequence_a_row(),
        _pretended_mesh(shard_degree) as mesh,
        FakeTensorMode(allow_non_fake_inputs=True),
    ):
        warnings.simplefilter("ignore")
        model = _build(build, dtype)
        num_parameters = sum(parameter.numel() for parameter in model.parameters())
        if mesh is not None:
            _shard(model, mesh)
        model.train()
        optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
        vocab_size = int(getattr(getattr(model, "config", None), "vocab_size", 32000))
        ids = torch.randint(0, vocab_size, (micro_batch, seq_len))
        tracker: Any = FSDPMemTracker(model, optimizer) if mesh is not None else MemTracker()
        tracker.track_external(*(() if mesh is not None else (model, optimizer)), ids)
        with tracker:
            after_forward = None
            for step in range(2):
                output = model(input_ids=ids, labels=ids)
                loss = getattr(output, "loss", output)
                del output
                if step == 1:
                    after_forward = tracker.get_tracker_snapshot("current")
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                del loss
                if step == 0:
                    tracker.reset_mod_stats()
            peak = tracker.get_tracker_snapshot("peak")
    return _summary(_terms(after_forward), _terms(peak), num_parameters)


def _build(build: Callable[[], Any], dtype: str) -> Any:
    """Call `build` with the default dtype set, so that every parameter is made in it."""
    import torch

    names = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
    if dtype not in names:
        raise InputError(Message("estimate.no_dtype", known=", ".join(names), dtype=repr(dtype)))
    before = torch.get_default_dtype()
    torch.set_default_dtype(names[dtype])
    try:
        return build()
    finally:
        torch.set_default_dtype(before)


def _terms(snapshot: Any) -> dict[str, float]:
    """Device -> kind -> bytes becomes kind -> bytes."""
    totals: dict[str, float] = {}
    for kinds in snapshot.values():
        for kind, count in kinds.items():
            name = getattr(kind, "value", None) or str(kind)
            totals[str(name).lower()] = totals.get(str(name).lower(), 0.0) + float(count)
    return totals


def _summary(forward: dict[str, float], peak: dict[str, float], num_parameters: int) -> TracedMemory:
    """Sum the tracker's kinds into ours (FSDP has its own words for sharded and
    gathered parameters)."""

    def pick(terms: dict[str, float], *words: str) -> float:
        return sum(count for name, count in terms.items() if any(word in name for word in words))

    return TracedMemory(
        parameters_bytes=pick(forward, "param"),
        gradients_bytes=pick(peak, "grad"),
        optimizer_bytes=pick(forward, "opt"),
        saved_activations_bytes=pick(forward, "act"),
        peak_bytes=peak.get("total", 0.0),
        peak_terms=peak,
        num_parameters=num_parameters,
    )


# ---- An estimate of GPU memory by the traced engine: live tensors as PyTorch makes them, plus
# what is not a tensor.


@dataclass(frozen=True, slots=True)
class TracedEstimate:
    """Bytes per GPU at the peak of a full training step with AdamW. `terms` add up to `peak_bytes`;
    `capacity_bytes` is None without a card."""

    model: str
    num_parameters: int
    micro_batch: int
    seq_len: int
    dtype: str
    recompute: bool
    shard_degree: int
    saved_activations_bytes: float
    terms: dict[str, float]
    peak_bytes: float
    accelerator: str = ""
    capacity_bytes: float | None = None

    @property
    def fits(self) -> bool | None:
        """Whether the card holds it; None without a card."""
        return None if self.capacity_bytes is None else self.peak_bytes <= self.capacity_bytes

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {"engine": "traced", **dataclasses.asdict(self), "fits": self.fits}


def traced_estimate(
    model: str,
    *,
    micro_batch: int = 1,
    seq_len: int = 2048,
    dtype: str = "bf16",
    recompute: bool = False,
    shard_degree: int = 1,
    accelerator: str = "",
) -> TracedEstimate:
    """Trace `model` (config.json, folder, bundled name, or module:function) for one GPU, or for one
    rank of `shard_degree` under FSDP2.

    Adds to the live tensors the scratch of the optimizer's step (AdamW updates all parameters at
    once), the cuBLAS workspace, the allocator's slack and the CUDA context with the calibrated
    coefficients of the analytic engine.
    """
    for name, value in (("micro-batch", micro_batch), ("seq-len", seq_len), ("cards", shard_degree)):
        if value < 1:
            raise InputError(Message("estimate.below_one", option=name, value=value))
    shared = {"micro_batch": micro_batch, "seq_len": seq_len, "dtype": dtype, "shard_degree": shard_degree}
    if FUNCTION.fullmatch(model):
        if recompute:
            raise ContradictionError(Message("estimate.recompute_of_function", model=model))
        result = trace_function(model, **shared)  # type: ignore[arg-type]
    else:
        result = trace_config(traced_config(model), recompute=recompute, **shared)  # type: ignore[arg-type]
    setup = SetupColumns.of(micro_batch=micro_batch, seq_len=seq_len, data=shard_degree, shard_degree=shard_degree)
    device = device_columns([facts.accelerator(accelerator)]) if accelerator else DeviceColumns()
    terms = with_overheads(result, setup, device, scratch=result.optimizer_bytes / 2.0)
    return TracedEstimate(
        model=model,
        num_parameters=result.num_parameters,
        recompute=recompute,
        saved_activations_bytes=result.saved_activations_bytes,
        terms=terms,
        peak_bytes=sum(terms.values()),
        accelerator=accelerator,
        capacity_bytes=float(overheads.usable_bytes(device, coefficients=facts.coefficients("memory"))[0]) if accelerator else None,
        **shared,  # type: ignore[arg-type]
    )


def traced_config(model: str) -> dict[str, Any]:
    """The Hugging Face config of a path, or of a bundled transformer."""
    path = Path(model).expanduser()
    if path.exists():
        return read_config(path)
    record = facts.model(model, network=False)
    if not isinstance(record, TransformerArchitecture):
        raise ContradictionError(Message("estimate.not_traceable", model=record.name))
    return module_config(record)


def with_overheads(result: TracedMemory, setup: SetupColumns, device: DeviceColumns, *, scratch: float) -> dict[str, float]:
    """The tracker's kinds in our words, and the workspace, slack and context that no
    tracker sees [bytes].

    `scratch` [bytes] of the optimizer's step, which the tracker does not follow: it lives when the
    activations are gone, so the larger of the two makes the peak.
    """
    coefficients = facts.coefficients("memory")
    states = result.parameters_bytes + result.optimizer_bytes
    gradients = result.gradients_bytes
    moving = max(result.peak_bytes - states - gradients, 0.0)
    at_step = scratch > moving
    moving, scratch = (0.0, scratch) if at_step else (moving, 0.0)
    stored = min(result.saved_activations_bytes, moving)
    moment = {"steady": states + gradients + scratch, "stored": stored, "spikes": moving - stored, "buffers": 0.0}
    nothing = np.zeros(1)
    slack = overheads.slack_bytes({name: np.array([value]) for name, value in moment.items()}, nothing, setup, coefficients=coefficients)
    own = overheads.own_driver_bytes(device, coefficients=coefficients)
    context = overheads.context_bytes(
        setup, context=own, per_peer=coefficients["nccl_peer_bytes"], most_peers=coefficients["nccl_most_peers"]
    )
    return {
        "weights": result.parameters_bytes,
        "optimizer": result.optimizer_bytes,
        "gradients": gradients,
        "activations": moving,
        "scratch": scratch,
        "workspace": coefficients["workspace_bytes"],
        "slack": float(slack[0]),
        "context": float(context[0]),
    }
