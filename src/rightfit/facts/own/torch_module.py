"""A user's PyTorch module, counted by running it once forward and backward on fake tensors: shapes
are real, memory is not.

Runs in a process of its own (see `process`). Arithmetic comes from PyTorch's own formulas
(torch.utils.flop_counter), what is kept for the backward pass from
torch.autograd.graph.saved_tensors_hooks. Two batches are run and subtracted, so that counts
are per sample.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rightfit.facts.own.reference import SHAPE_HINT, RefusedError, Shape, Tally, one_line, read_shape
from rightfit.messages import Message, cause

_BATCHES = (2, 4)
_LARGEST_FILE_BYTES = 10_000_000
_RETURN_HINT = Message("facts.return_hint")


def count_function(target: str, shape: str) -> dict[str, Any]:
    """Counts of `module:function` for inputs of `shape`, its Hugging Face configuration where it
    has one, and digests of the user's files."""
    import torch

    warnings.simplefilter("ignore")
    torch.backends.mkldnn.enabled = False  # its fused recurrent layers hide their products
    before = set(sys.modules)
    build = load(target)
    module, example = built(build)
    config = configuration(module)
    tally = parameters(module)
    inputs = candidates(read_shape(shape), example, has_config=config is not None)
    if is_language_model(config, tally.params):  # its dimensions say all, and tracing a large one takes minutes
        return {"tally": tally.as_dict(), "config": config, "files": own_files(before)}
    tally = traced(module, inputs) if inputs else tally
    if not inputs:
        raise RefusedError(Message("facts.own_what_input", line=SHAPE_HINT, elsewhere=_RETURN_HINT))
    return {"tally": tally.as_dict(), "config": config, "files": own_files(before)}


def load(target: str) -> Callable[[], Any]:
    """The function, from the current folder or the path."""
    module_name, _, name = target.partition(":")
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 - what `python -m` does
    try:
        function = getattr(importlib.import_module(module_name), name)
    except ModuleNotFoundError as error:
        missing = error.name or module_name
        if module_name.startswith(missing):
            raise RefusedError(Message("facts.own_no_module", word=missing, folder=Path.cwd())) from None
        raise RefusedError(Message("facts.own_no_inner_module", word=missing, module=module_name)) from None
    except AttributeError as error:
        raise RefusedError(Message("facts.own_not_loaded", problem=cause(error))) from None
    except (Exception, SystemExit) as error:
        raise RefusedError(Message("facts.own_importing", word=module_name, kind=type(error).__name__, problem=cause(error))) from None
    if not callable(function):
        raise RefusedError(Message("facts.own_not_callable", name=name))
    return function  # type: ignore[no-any-return]


def built(build: Callable[[], Any]) -> tuple[Any, Any]:
    """The module, and example inputs if the function gives some. Built on fake tensors, for real
    where the code looks at values."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    problem: BaseException | None = None
    for mode in (FakeTensorMode(allow_non_fake_inputs=True), contextlib.nullcontext()):
        try:
            with mode:
                made = build()
        except (Exception, SystemExit) as error:
            problem = error
            continue
        module, example = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
        if not isinstance(module, torch.nn.Module):
            raise RefusedError(Message("facts.own_returned", word=type(module).__name__))
        return (module if isinstance(mode, FakeTensorMode) else pretended(module)), example
    raise RefusedError(Message("facts.own_building", kind=type(problem).__name__, problem=one_line(str(problem))))


def pretended(module: Any) -> Any:
    """The module with its tensors replaced by fake ones, shared ones still shared."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    mode, known = FakeTensorMode(allow_non_fake_inputs=True), dict[int, Any]()
    for part in module.modules():
        for name, tensor in part._parameters.items():
            if tensor is not None:
                known.setdefault(id(tensor), torch.nn.Parameter(mode.from_tensor(tensor.data), requires_grad=tensor.requires_grad))
                part._parameters[name] = known[id(tensor)]
        for name, tensor in part._buffers.items():
            if tensor is not None:
                part._buffers[name] = known.setdefault(id(tensor), mode.from_tensor(tensor))
    return module


def configuration(module: Any) -> dict[str, Any] | None:
    """The Hugging Face configuration of a language model."""
    import json

    config: Any = getattr(module, "config", None)
    if not hasattr(config, "to_dict") or not getattr(config, "model_type", ""):
        return None
    try:
        found: dict[str, Any] = json.loads(json.dumps(config.to_dict(), default=str))
    except (TypeError, ValueError):
        return None
    return found


def is_language_model(config: dict[str, Any] | None, params: int) -> bool:
    """Whether the configuration describes a transformer of as many parameters."""
    from rightfit.facts.own.reference import architecture_of

    return architecture_of(config, params, name="", source="module") is not None


Inputs = Callable[[int], tuple[tuple[Any, ...], dict[str, Any]]]


def candidates(shape: Shape, example: Any, *, has_config: bool) -> list[Inputs]:
    """Ways to make a batch, the likeliest first."""
    if example is not None:
        return [lambda batch: examples(example, batch)]
    if not shape.sides:
        return []
    import torch

    def floats(batch: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (torch.zeros(batch, *shape.sides),), {}

    def tokens(batch: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        ids = torch.zeros(batch, *shape.sides, dtype=torch.long)
        return ((), {"input_ids": ids}) if has_config else ((ids,), {})

    if shape.is_tokens:
        return [tokens]
    return [floats, tokens] if len(shape.sides) < 3 else [floats]


def examples(example: Any, batch: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The user's example inputs with their first dimension set to `batch`."""
    import torch

    def resized(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.dim():
            return torch.zeros((batch, *value.shape[1:]), dtype=value.dtype)
        return value

    if isinstance(example, dict):
        return (), {name: resized(value) for name, value in example.items()}
    values = example if isinstance(example, (tuple, list)) else (example,)
    return tuple(resized(value) for value in values), {}


def parameters(module: Any) -> Tally:
    """Parameters alone."""
    import torch

    tally = Tally()
    for parameter in module.parameters():
        tally.params += parameter.numel()
        tally.params_trainable += parameter.numel() if parameter.requires_grad else 0
        name = str(parameter.dtype).removeprefix("torch.")
        tally.dtypes[name] = tally.dtypes.get(name, 0) + parameter.numel()
        tally.stored_bytes += float(parameter.numel() * parameter.element_size())
    tables = {
        id(one.weight): one.weight.numel() for one in module.modules() if isinstance(one, (torch.nn.Embedding, torch.nn.EmbeddingBag))
    }
    tally.params_embedding = sum(tables.values())
    if not tally.params:
        raise RefusedError(Message("facts.own_no_parameters"))
    return tally


def traced(module: Any, ways: list[Inputs]) -> Tally:
    """Counts per sample, by the first way to make inputs that the module takes."""
    problems = []
    for way in ways:
        try:
            small, large = (one_step(module, way, batch) for batch in _BATCHES)
            return per_sample(small, large)
        except RefusedError:
            raise
        except (Exception, SystemExit) as error:
            problems.append(f"{type(error).__name__}: {one_line(str(error))[:180]}")
    raise RefusedError(Message("facts.own_step", problem=problems[-1], line=SHAPE_HINT, elsewhere=_RETURN_HINT))


def per_sample(small: Tally, large: Tally) -> Tally:
    """What grows with the batch, by the difference of two batches."""
    step = _BATCHES[1] - _BATCHES[0]
    grown = {name: (getattr(large, name) - getattr(small, name)) / step for name in ("kept_bytes", "backward_macs", "widest", "gathered")}
    return dataclasses.replace(
        small,
        macs={kind: (large.macs[kind] - small.macs[kind]) / step for kind in small.macs},
        elements={kind: (large.elements[kind] - small.elements[kind]) / step for kind in small.elements},
        fixed_bytes=max(small.kept_bytes - _BATCHES[0] * grown["kept_bytes"], 0.0),
        tokens=small.tokens / _BATCHES[0],
        **grown,
    )


def one_step(module: Any, way: Inputs, batch: int) -> Tally:
    """Forward and backward of one batch on fake tensors."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils._pytree import tree_leaves

    module.train()
    tally = parameters(module)
    own = {tensor.untyped_storage()._cdata: None for tensor in (*module.parameters(), *module.buffers())}
    kept: dict[int, Any] = {}

    def pack(tensor: Any) -> Any:
        key = tensor.untyped_storage()._cdata
        if key not in own:
            kept.setdefault(key, tensor)
        return tensor

    with _fake_mode_of(module) or FakeTensorMode(allow_non_fake_inputs=True):
        args, kwargs = way(batch)
        tally.inputs = [(name, list(value.shape[1:]), str(value.dtype).removeprefix("torch.")) for name, value in _named(args, kwargs)]
        counter = counting_mode(tally, own)
        with _marked_recurrent(module, counter), torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor), counter:
            output = module(*args, **kwargs)
            leaves = [leaf for leaf in tree_leaves(output) if isinstance(leaf, torch.Tensor)]
            tally.outputs = [("", list(leaf.shape[1:]), str(leaf.dtype).removeprefix("torch.")) for leaf in leaves]
            learning = [leaf.float().sum() for leaf in leaves if leaf.requires_grad]
            tally.kept_bytes = float(sum(tensor.untyped_storage().nbytes() for tensor in kept.values()))
            counter.backward = True
            if learning:
                torch.stack(learning).sum().backward()
    module.zero_grad(set_to_none=True)
    return tally


def _fake_mode_of(module: Any) -> Any:
    """The mode that the module's own tensors were made under, if they are fake."""
    for tensor in module.parameters():
        if (mode := getattr(tensor, "fake_mode", None)) is not None:
            return mode
    return None


def _named(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    import torch

    for position, value in enumerate(args):
        if isinstance(value, torch.Tensor):
            yield str(position), value
    for name, value in kwargs.items():
        if isinstance(value, torch.Tensor):
            yield name, value


@contextlib.contextmanager
def _marked_recurrent(module: Any, counter: Any) -> Iterator[None]:
    """Tell the counter when it is inside a recurrent layer, and how many steps that takes."""
    import torch

    def enter(layer: Any, args: tuple[Any, ...]) -> None:
        counter.recurrent = True
        values = args[0] if args else None
        if isinstance(values, torch.Tensor) and values.dim() == 3:
            counter.tally.steps += float(values.shape[1 if layer.batch_first else 0] * layer.num_layers)

    def leave(layer: Any, args: tuple[Any, ...], output: Any) -> None:
        counter.recurrent = False

    hooks = []
    for layer in module.modules():
        if isinstance(layer, torch.nn.RNNBase):
            hooks += [layer.register_forward_pre_hook(enter), layer.register_forward_hook(leave)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def counting_mode(tally: Tally, own: dict[int, None]) -> Any:
    """A dispatch mode that adds every product it sees to `tally`. `own`: storages of the
    module's parameters."""
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import flop_registry

    class Counting(TorchDispatchMode):  # type: ignore[misc]
        """Sees every operator after autograd."""

        def __init__(self) -> None:
            super().__init__()
            self.tally, self.backward, self.recurrent = tally, False, False

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = func(*args, **(kwargs or {}))
            packet = func._overloadpacket
            name = packet.__name__
            if name == "convolution_backward":  # PyTorch's own formula is wrong for groups
                tally.backward_macs += convolution_backward_macs(args)
            elif "scaled_dot_product" in name and "backward" not in name:
                self.count(name, attention_macs(args), args, out)
            elif packet in flop_registry:
                macs = flop_registry[packet](*args, **(kwargs or {}), out_val=out) / 2.0
                if self.backward:
                    tally.backward_macs += macs
                else:
                    self.count(name, macs, args, out)
            elif not self.backward and name in ("embedding", "_embedding_bag"):
                tally.gathered += float(math.prod((out[0] if isinstance(out, tuple) else out).shape))
            elif not self.backward and "upsample" in name:
                tally.upsamplings += 1
            return out

        def count(self, name: str, macs: float, args: Any, out: Any) -> None:
            kind, written = classify(name, args, out, own)
            kind = "recurrent" if self.recurrent and kind == "linear" else kind
            tally.operators[name] = tally.operators.get(name, 0) + 1
            tally.add(kind, macs, written)
            if kind == "linear":
                tally.tokens = max(tally.tokens, written / max(out.shape[-1], 1))
            elif kind == "score":
                tally.attended = max(tally.attended, attended(name, args, out))
                tally.blocks += 1.0 if "scaled_dot_product" in name else 0.5
            elif kind == "depthwise":
                tally.kernel = max(tally.kernel, int(args[1].shape[-1]))
            if name == "convolution" and len(args) > 6 and args[6]:
                tally.upsamplings += 1

    return Counting()


def attended(name: str, args: Any, out: Any) -> float:
    """Keys that a query sees."""
    return float(args[1].shape[-2]) if "scaled_dot_product" in name else float(out.shape[-1])


def attention_macs(args: Any) -> float:
    """Both products of attention: queries x keys x (width of keys + width of values), for
    every sample and head."""
    query, key, value = args[:3]
    return float(math.prod(query.shape[:-1]) * key.shape[-2] * (query.shape[-1] + value.shape[-1]))


def convolution_backward_macs(args: Any) -> float:
    """As much as the forward pass for each gradient that is wanted (of the
    input, of the weight)."""
    gradient, values, weight = args[:3]
    base = values if args[7] else gradient
    return float(math.prod(base.shape) * math.prod(weight.shape[1:]) * sum(bool(one) for one in args[10][:2]))


def classify(name: str, args: Any, out: Any, own: dict[int, None]) -> tuple[str, float]:
    """Class of a product, and the elements it writes."""
    result = out[0] if isinstance(out, (tuple, list)) else out
    written = float(math.prod(result.shape))
    if "convolution" in name:
        weight, groups = args[1], int(args[8])
        transposed = bool(args[6])
        outputs = weight.shape[1] * groups if transposed else weight.shape[0]
        if groups > 1:
            inputs = weight.shape[0] if transposed else weight.shape[1] * groups
            return ("depthwise" if groups in (inputs, outputs) else "grouped"), written
        return ("conv3d" if weight.dim() == 5 else "conv"), written
    if "scaled_dot_product" in name:
        return "score", written + float(math.prod(args[0].shape[:-1]) * args[1].shape[-2])
    operands = args[1:3] if name in ("addmm", "baddbmm") else args[:2]
    if name in ("bmm", "baddbmm") and not any(tensor.untyped_storage()._cdata in own for tensor in operands):
        return "score", written
    return "linear", written


def own_files(before: set[str]) -> dict[str, str]:
    """Digests of the source files that were imported for this model and are the user's: not of
    Python, nor of installed packages."""
    folders = {str(Path(path).resolve()) for path in (sys.prefix, sys.base_prefix, Path(__file__).parents[2])}
    found = {}
    for name in set(sys.modules) - before:
        path = getattr(sys.modules[name], "__file__", None)
        file = Path(path).resolve() if path else None
        if file is None or any(str(file).startswith(folder + os.sep) for folder in folders) or "site-packages" in file.parts:
            continue
        if file.is_file() and file.stat().st_size < _LARGEST_FILE_BYTES:
            found[str(file)] = hashlib.sha256(file.read_bytes()).hexdigest()
    return found
