"""Peak memory of one device while a model that is not a language model trains: states, activations, frozen parts, tables, overheads.

What autograd keeps between forward and backward pass is counted in elements per sample by the caller (a convolution keeps its input, a
batch normalisation its input, an activation its output). With recomputation only the inputs of blocks stay, plus one block while it is
computed again.

Source: accounting; docs/decisions/vision-training.md.
"""

from __future__ import annotations

import numpy as np

from rightfit.physics.columns import Array, Columns, MemoryCounter, column
from rightfit.records import dataclass
from rightfit.units import FP32_BYTES


@dataclass(frozen=True, slots=True)
class MemoryWork(Columns):
    """What a model holds. Elements are per sample.

    `params` of the trained network; `trained` of them (or of adapters beside them) that learn; `beside` parameters of frozen networks that
    stay on the device (text encoders, image decoder); `tables` parameters of embedding tables per device; `kept` elements kept for the
    backward pass, `block_inputs` those that stay with full recomputation, `block` those of one block; `widest` elements of the largest
    layer output; `fixed_bytes` anything else (features of a graph, buffers).
    """

    params: Array = column(0, "parameters")
    trained: Array = column(0, "parameters")
    beside: Array = column(0, "parameters")
    tables: Array = column(0, "parameters")
    kept: Array = column(0, "elements")
    block_inputs: Array = column(0, "elements")
    block: Array = column(0, "elements")
    widest: Array = column(0, "elements")
    fixed_bytes: Array = column(0, "bytes")


@dataclass(frozen=True, slots=True)
class TrainMemoryRates(Columns):
    """Bytes by what they hold, and overheads.

    `weight_bytes` per parameter as stored; `state_bytes` per trained parameter: gradient and optimizer states (and a master copy);
    `beside_bytes` per parameter of frozen networks; `table_bytes` per table parameter with its states; `activation_bytes` per element;
    `live_layers` widest layers that live beside what is kept, in the backward pass; `workspace_bytes` of libraries; `slack` share that an
    allocator holds unused; `context_bytes` of driver and runtime; `opened_bytes` per parameter of quantised weights that the backward pass
    keeps dequantised, where blocks are not recomputed; `recompute` as in StepLayout; `counter` a MemoryCounter code; `ema` 1 with a moving
    average of the weights.
    """

    weight_bytes: Array = column(0, "bytes/parameter")
    state_bytes: Array = column(0, "bytes/parameter")
    beside_bytes: Array = column(2, "bytes/parameter")
    table_bytes: Array = column(0, "bytes/parameter")
    activation_bytes: Array = column(0, "bytes/element")
    live_layers: Array = column(2, "layers")
    workspace_bytes: Array = column(0, "bytes")
    slack: Array = column(0, "1")
    context_bytes: Array = column(0, "bytes")
    recompute: Array = column(0, "1")
    counter: Array = column(MemoryCounter.ALLOCATED, "code")
    ema: Array = column(0, "flag")
    offload: Array = column(0, "1")
    opened_bytes: Array = column(0, "bytes/parameter")


def activation_elements(work: MemoryWork, recompute: Array) -> Array:
    """Elements kept per sample at the turn from forward to backward pass: all, or with full recomputation block inputs and one block.

    `recompute` [1] -> [elements].
    """
    least = np.minimum(work.block_inputs + work.block, work.kept)
    return np.asarray(work.kept + recompute * (least - work.kept), dtype=np.float64)


def memory_terms(work: MemoryWork, rates: TrainMemoryRates, *, batch: Array) -> dict[str, Array]:
    """Peak memory of one device by what holds it, as the asked counter sees it; the terms add up.

    `batch` [samples] -> [bytes] by part.
    `batch` (N,) samples per device and pass. Allocated counts tensors only; reserved adds what the allocator holds; the driver's view adds
    the context.
    """
    on_card = 1.0 - rates.offload
    opened = work.params * rates.opened_bytes * (1.0 - rates.recompute) * on_card
    weights = work.params * rates.weight_bytes * on_card + opened + work.trained * FP32_BYTES * rates.ema
    states = work.trained * rates.state_bytes
    activations = batch * activation_elements(work, rates.recompute) * rates.activation_bytes
    transient = batch * work.widest * rates.live_layers * rates.activation_bytes + rates.workspace_bytes
    terms = {
        "weights": weights,
        "states": states,
        "frozen_networks": work.beside * rates.beside_bytes,
        "tables": work.tables * rates.table_bytes + work.fixed_bytes,
        "activations": activations,
        "transient": transient,
    }
    tensors = sum(terms.values(), np.zeros(1))
    held = np.where(rates.counter >= MemoryCounter.RESERVED, rates.slack * tensors, 0.0)
    driver = np.where(rates.counter >= MemoryCounter.DRIVER, rates.context_bytes, 0.0)
    terms |= {"allocator": held, "context": driver}
    return {name: np.asarray(value, dtype=np.float64) for name, value in terms.items()}
