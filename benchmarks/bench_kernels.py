"""Times of single kernels by the physics of serving against measured ones: products, attention,
experts, all-reduces.

    python benchmarks/bench_kernels.py            the table on the screen
    python benchmarks/bench_kernels.py --write    and in docs/accuracy/kernels.md, which is made for
                                                  the site and not kept

Measured rows: validation/kernels (bursts on idle, cool cards). A kernel's own time is compared with
the term that stands for it; the time between kernels is a term of its own (`layer_s`,
`moe_layer_s`) and is added to no single one, so that short kernels come out short here and right in
a whole step.
"""

from __future__ import annotations

import argparse
import csv
import gzip
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rightfit.estimation.serving import serving_rates
from rightfit.physics import decode, prefill
from rightfit.physics.columns import ModelColumns
from rightfit.physics.serving_columns import ServeRates
from rightfit.proof.cases.serving import ServingCases, serving_cases

ROOT = Path(__file__).resolve().parent.parent
Array = NDArray[np.float64]
Row = Mapping[str, str]

MEASURED = ROOT / "validation" / "kernels" / "measured.csv.gz"
PAGE = ROOT / "docs" / "accuracy" / "kernels.md"
#: Any decoder: kernels are given their shapes, not the model's.
MODEL = "meta-llama/Llama-3.1-8B"
FORMATS = {"bfloat16": "bf16", "fp8": "fp8", "fp8_block": "fp8", "nvfp4": "nvfp4"}
FAMILIES = {"A100": "A100", "H100": "Hopper", "H200": "Hopper", "B200": "Blackwell", "B300": "Blackwell Ultra", "GB200": "Blackwell", "GB300": "Blackwell Ultra",
            "L40S": "Ada", "RTX-PRO-6000": "Blackwell, GDDR", "Arc": "Arc"}  # fmt: skip


class Kernels(NamedTuple):
    """Measured kernels of one operation: their cases (device, engine, format), rates, and the
    numbers of their columns."""

    rows: Sequence[Row]
    cases: ServingCases
    rates: ServeRates

    def column(self, name: str) -> Array:
        """A column as numbers."""
        return np.array([float(row[name] or 0) for row in self.rows])

    def model(self, **fields: Array | float) -> ModelColumns:
        """One layer with these shapes."""
        return ModelColumns.of(**{"num_layers": 1.0, "head_dim": 128.0} | fields)


def read_rows() -> list[Row]:
    """The measured rows."""
    with gzip.open(MEASURED, "rt", encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def kernels_of(rows: Sequence[Row]) -> Kernels:
    """Their devices, engines and formats as the predictor of whole runs reads them."""
    cases = serving_cases(
        [
            {
                "metric": "tpot_ms",
                "model": MODEL,
                "device": row["device"],
                "engine": row["engine"],
                "engine_version": row["engine_version"],
                "weights_dtype": FORMATS[row["dtype"]],
                "n_devices": row["gpus"] or "1",
                "tp": row["gpus"] or "1",
                "batch_or_concurrency": "8",
            }
            for row in rows
        ]
    )
    assert not cases.refused, next(iter(cases.refused.values()))
    return Kernels(rows, cases, serving_rates(cases.serve, cases.links))


def product_s(kernels: Kernels) -> Array:
    """A product alone."""
    size = kernels.column("width") * kernels.column("depth")
    return decode.product_s(
        parameters_read=size,
        parameters_used=size,
        weight_bytes=kernels.cases.serve.linear_bytes,
        rows=kernels.column("rows"),
        num_products=np.ones(1),
        serve=kernels.cases.serve,
        device=kernels.cases.device,
        rates=kernels.rates,
    )


def decode_attention_s(kernels: Kernels) -> Array:
    """Reading the cache of one layer."""
    model = kernels.model(num_heads=kernels.column("query_heads"), num_kv_heads=kernels.column("kv_heads"))
    serve = kernels.cases.serve.replace(tensor=np.ones(1), kv_bytes=np.full(1, 2.0))
    parts = (model, serve, kernels.cases.device, kernels.rates)
    return decode.attention_s(*parts, rows=kernels.column("sequences"), context=kernels.column("tokens"))


def prefill_attention_s(kernels: Kernels) -> Array:
    """Causal attention of one layer."""
    model = kernels.model(num_heads=kernels.column("query_heads"), num_kv_heads=kernels.column("kv_heads"))
    parts = (model, kernels.cases.serve, kernels.cases.device, kernels.rates)
    return prefill.attention_s(*parts, prompt=kernels.column("tokens"), sequences=kernels.column("sequences"), cached=0.0)


def experts_s(kernels: Kernels) -> Array:
    """A layer of experts with the small kernels around its products."""
    experts, chosen, tokens = kernels.column("experts"), kernels.column("experts_per_token"), kernels.column("rows")
    model = kernels.model(num_experts=experts, experts_per_token=chosen)
    held = 3.0 * experts * kernels.column("width") * kernels.column("depth")
    share = decode.touched_experts(model, tokens, kernels.rates.expert_skew)
    products = decode.product_s(
        parameters_read=held * share,
        parameters_used=held * chosen / experts,
        weight_bytes=kernels.cases.serve.expert_bytes,
        rows=tokens,
        num_products=np.full(1, 2.0),
        serve=kernels.cases.serve,
        device=kernels.cases.device,
        rates=kernels.rates,
        groups=decode.expert_groups(model, share),
        grouped=kernels.rates.grouped_gemm,
    )
    return products + kernels.rates.moe_layer_s


def all_reduce_s(kernels: Kernels) -> Array:
    """One all-reduce inside a server."""
    serve = kernels.cases.serve.replace(tensor=kernels.column("gpus"), attention_data=np.ones(1), gpus_per_node=np.full(1, 8.0))
    return decode.reduce_s(kernels.column("message_bytes"), serve, kernels.cases.links, kernels.rates)


class Operation(NamedTuple):
    """A kind of kernel: its words, the column that ranges are of with their edges and
    names, and the formula."""

    words: str
    size: str
    edges: tuple[float, ...]
    names: tuple[str, ...]
    predict: Callable[[Kernels], Array]


_KIB = 1024.0
OPERATIONS = {
    "product": Operation("product, by rows", "rows", (16, 256, 2048), ("to 16", "17-256", "257-2k", "over 2k"), product_s),
    "decode": Operation("attention of one token, by context", "tokens", (2048, 16384), ("to 2k", "2k-16k", "over 16k"), decode_attention_s),
    "prefill": Operation("attention of a prompt, by length", "tokens", (512, 4096), ("to 512", "513-4k", "over 4k"), prefill_attention_s),
    "experts": Operation("layer of experts, by tokens", "rows", (64, 2048), ("to 64", "65-2k", "over 2k"), experts_s),
    "all-reduce": Operation(
        "all-reduce, by message", "message_bytes", (128 * _KIB, 4096 * _KIB), ("to 128 KiB", "128 KiB - 4 MiB", "over 4 MiB"), all_reduce_s
    ),
}


def family_of(device: str) -> str:
    """Generation of a device."""
    return next(name for start, name in FAMILIES.items() if device.startswith(start))


class Line(NamedTuple):
    """Kernels alike: predicted over measured in the middle, 90th percentile of |predicted /
    measured - 1|, how many."""

    operation: str
    family: str
    dtype: str
    size: str
    ratio: float
    p90: float
    number: int


def lines() -> Iterator[Line]:
    """Every operation, generation, format and range that was measured ten times or more."""
    rows = read_rows()
    for name, operation in OPERATIONS.items():
        kernels = kernels_of([row for row in rows if row["operation"] == name])
        ratio = np.broadcast_to(operation.predict(kernels), len(kernels.rows)) / (kernels.column("time_us") * 1e-6)
        family = np.array([family_of(row["device"]) for row in kernels.rows])
        dtype = np.array([row["dtype"] for row in kernels.rows])
        place = np.digitize(kernels.column(operation.size), operation.edges, right=True)
        for key in sorted(set(zip(family, dtype, place, strict=True))):
            here = ratio[(family == key[0]) & (dtype == key[1]) & (place == key[2])]
            if len(here) >= _FEWEST:
                p90 = float(np.quantile(np.abs(here - 1.0), 0.9))
                yield Line(operation.words, str(key[0]), str(key[1]), operation.names[key[2]], float(np.median(here)), p90, len(here))


_FEWEST = 10
_OFF = 0.2

_HEAD = """# Single kernels

Written by `python benchmarks/bench_kernels.py --write`; do not edit.

The physics of serving against {rows:,} measured times of single kernels (`validation/kernels`: NVIDIA aiconfigurator 0.12.0, Apache-2.0, sampled). Measured times are bursts on idle, cool cards with clocks at their maximum; the rates of the physics are fitted to
whole runs, which power and heat slow and where kernels wait for one another. A predicted time is that of the kernel alone: the time between kernels is a term of its own. Errors of single terms cancel in a layer
([what was tried](../decisions/kernels-and-loads.md)), so this page shows where the terms are wrong, not how wrong an answer is.

The middle is off by more than 20 % in {off} of {lines} ranges.

| operation | cards | format | range | predicted / measured, middle | P90 of the error | kernels |
| --- | --- | --- | --- | --- | --- | --- |
"""


def page() -> str:
    """The page."""
    found = list(lines())
    off = sum(abs(line.ratio - 1.0) > _OFF for line in found)
    head = _HEAD.format(rows=sum(line.number for line in found), off=off, lines=len(found))
    body = (
        f"| {line.operation} | {line.family} | {line.dtype} | {line.size} | {line.ratio:.2f} | {line.p90:.0%} | {line.number} |"
        for line in found
    )
    return head + "\n".join(body) + "\n"


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    text = page()
    if parser.parse_args().write:
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        PAGE.write_text(text, encoding="utf-8")
    else:
        print(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
