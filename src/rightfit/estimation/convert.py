"""From records of facts to the columns that physics reads."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rightfit import facts
from rightfit.facts.devices import architecture_code
from rightfit.facts.records import Accelerator, TransformerArchitecture
from rightfit.facts.tables import meaning, says, shape
from rightfit.physics.columns import Array, AttentionKind, Columns, DeviceColumns, IntraKind, Kind, LinkColumns, Mlp, ModelColumns, Norm

# ---- From names to numbers: what connects the GPUs of a server, and which coefficient family an
# accelerator belongs to.
#
# Bandwidths written here are those of the data sheets; what collectives achieve of them is a
# coefficient of `physics.collectives`.


class InterKind(IntEnum):
    """How servers see each other."""

    ETHERNET = 0
    EFA = 1
    INFINIBAND = 2
    ROCE = 3
    TCPX = 4
    ERDMA = 5


#: Devices of a usual server.
USUAL_SERVER = 8.0

INTRA_WORDS = {
    "none": IntraKind.NONE,
    "pcie": IntraKind.PCIE,
    "nvlink": IntraKind.NVLINK,
    "nvswitch": IntraKind.SWITCH,
    "xgmi": IntraKind.SWITCH,
    "ici": IntraKind.SWITCH,
    "neuronlink": IntraKind.SWITCH,
    "roce": IntraKind.SWITCH,
}
RDMA_WORDS = {
    "none": InterKind.ETHERNET,
    "efa": InterKind.EFA,
    "infiniband": InterKind.INFINIBAND,
    "roce": InterKind.ROCE,
    "gpudirect-tcpx": InterKind.TCPX,
    "gpudirect-tcpxo": InterKind.TCPX,
    "erdma": InterKind.ERDMA,
}
_INTER_LATENCY_KEYS = ("ethernet", "efa", "infiniband", "roce", "tcpx", "erdma")


@functools.cache
def link_facts() -> dict[str, float]:
    """The table facts/data/links.csv as numbers."""
    return {row["key"]: float(row["value"]) for row in facts.table("links")}


def pcie_bandwidth(accelerator: Accelerator) -> float:
    """Host link of one accelerator [bytes/s, one direction], x16 of its PCIe generation
    (4 where unknown)."""
    generation = int(min(max(accelerator.pcie_generation or 4, 3), 5))
    return link_facts()[f"pcie{generation}_x16"]


def has_peer_copies(accelerator: Accelerator) -> bool:
    """GeForce cards cannot copy from card to card over PCIe; their traffic is
    staged in host memory."""
    return not says("setup", "geforce", accelerator.name)


def _intra(accelerator: Accelerator, num: int, word: str) -> tuple[float, int]:
    """Bandwidth per GPU [bytes/s, one direction] of a ring through `num` GPUs, and its kind."""
    kind = INTRA_WORDS.get(word, IntraKind.PCIE) if num > 1 else IntraKind.NONE
    nvlink = accelerator.nvlink_bandwidth / 2
    bridged = accelerator.form == "pcie" and num > 2
    if kind in (IntraKind.NVLINK, IntraKind.SWITCH) and nvlink > 0 and not bridged:
        return nvlink, kind
    pcie = pcie_bandwidth(accelerator)
    if word == "host" or not has_peer_copies(accelerator):
        pcie *= link_facts()["geforce_staged_fraction"]
    # A TPU slice has its own mesh whose rate the table may lack: never fall to PCIe there.
    return (pcie, IntraKind.PCIE) if kind != IntraKind.NONE else (pcie, IntraKind.NONE)


@functools.cache
def linked_devices(name: str) -> float:
    """Devices that fast links join, whatever server they stand in: 72 of a GB200 or GB300 rack, a
    slice of TPUs, else those of a usual server."""
    return float(meaning("serving", "node_size", name) or USUAL_SERVER)


def _latency(kind: int) -> float:
    return link_facts()["latency_pcie" if kind <= IntraKind.PCIE else "latency_nvlink"]


def link_columns(
    accelerator_names: Sequence[str],
    *,
    num_accelerators: ArrayLike,
    gpu_interconnect: Sequence[str],
    rdma: Sequence[str],
    network_bytes_per_s: ArrayLike,
) -> LinkColumns:
    """Links of servers, one row each, from the catalog's fields.

    `gpu_interconnect` and `rdma` are the words of the catalog; `network_bytes_per_s` is per
    server, 0 or NaN where unknown (10 Gb/s is then taken). Accelerators that the facts do not
    know get PCIe 4.
    """
    number = np.asarray(num_accelerators, dtype=np.float64)
    network = np.nan_to_num(np.asarray(network_bytes_per_s, dtype=np.float64))
    network = np.where(network > 0, network, link_facts()["unknown_network"])
    # Servers whose devices are linked to those of their neighbours reach them at the
    # rate of those links.
    network = np.maximum(network, [_outside_links(name, int(count)) for name, count in zip(accelerator_names, number, strict=True)])
    rows = [_server_link(name, int(count), word) for name, count, word in zip(accelerator_names, number, gpu_interconnect, strict=True)]
    inter = [RDMA_WORDS.get(word, InterKind.ETHERNET) for word in rdma]
    table = np.asarray(rows, dtype=np.float64).reshape(-1, 4)
    return LinkColumns.of(
        intra_bandwidth=table[:, 0],
        intra_kind=table[:, 1],
        intra_latency_s=table[:, 2],
        host_bandwidth=table[:, 3],
        inter_bandwidth=network,
        inter_kind=inter,
        inter_latency_s=[link_facts()[f"latency_{_INTER_LATENCY_KEYS[kind]}"] for kind in inter],
    )


@functools.cache
def _outside_links(name: str, count: int) -> float:
    """Bandwidth of a server's own links to other servers of its rack or slice [bytes/s, one
    direction]; 0 where they end at the server."""
    accelerator, joined = facts.accelerators().get(name), meaning("serving", "node_size", name)
    return accelerator.nvlink_bandwidth / 2 * count if accelerator and joined and 0 < count < float(joined) else 0.0


@functools.cache
def _server_link(name: str, count: int, word: str) -> tuple[float, float, float, float]:
    accelerator = facts.accelerators().get(name)
    if accelerator is None:
        pcie = link_facts()["pcie4_x16"]
        return pcie, float(IntraKind.PCIE), _latency(IntraKind.PCIE), pcie
    bandwidth, kind = _intra(accelerator, count, word)
    return bandwidth, float(kind), _latency(kind), pcie_bandwidth(accelerator)


def default_interconnect(accelerator: Accelerator) -> str:
    """The usual interconnect of a server of these: a switch for SXM/OAM modules, PCIe for cards."""
    if accelerator.form == "pcie":
        return "pcie"
    return "nvlink" if accelerator.architecture in ("Volta", "Pascal") else "nvswitch"


_INTER_DEFAULTS = {"Volta": "volta", "Ampere": "ampere", "Hopper": "hopper", "Blackwell": "blackwell", "Blackwell Ultra": "blackwell"}
_RATE = r"(\d+(?:\.\d+)?)\s*(?:x\s*(\d+(?:\.\d+)?)\s*)?({rate_unit})"
_NOTE_KINDS = (
    ("efa", InterKind.EFA),
    ("infiniband", InterKind.INFINIBAND),
    ("roce", InterKind.ROCE),
    ("tcpx", InterKind.TCPX),
    ("erdma", InterKind.ERDMA),
    ("ethernet", InterKind.ETHERNET),
)


def default_inter(accelerator: Accelerator, notes: str) -> tuple[float, int]:
    """Network of one server [bytes/s] and its kind, where only the GPU and free notes are known."""
    lowered = notes.lower()
    kind = next((kind for word, kind in _NOTE_KINDS if word in lowered), InterKind.INFINIBAND)
    found = shape("setup", _RATE, ignore_case=True).search(lowered)
    if found:
        return float(found[1]) * float(found[2] or 1) * 1e9 / 8, kind
    if kind == InterKind.ETHERNET:
        return link_facts()["default_inter_other"], kind  # the fabrics below are of RDMA
    family = _INTER_DEFAULTS.get(accelerator.architecture, "other") if accelerator.form != "pcie" else "other"
    if family == "volta" and says("setup", "dgx", lowered):
        family = "dgx_volta"
    return link_facts()[f"default_inter_{family}"], kind


def default_links(
    gpu_names: Sequence[str], *, num_gpus: ArrayLike, gpus_per_node: ArrayLike, notes: Sequence[str] | None = None
) -> LinkColumns:
    """Links where only the GPU and the number of GPUs are known: the usual server of that GPU (DGX
    class for modules, PCIe for cards).

    `notes` may name an interconnect (nvlink, nvswitch, pcie), a network (EFA, InfiniBand, RoCE,
    TCPX, Ethernet) or a rate ("10 Gbps").
    """
    total, per_node = np.broadcast_arrays(np.asarray(num_gpus, dtype=np.float64), np.asarray(gpus_per_node, dtype=np.float64))
    inside = np.minimum(np.broadcast_to(total, len(gpu_names)), np.broadcast_to(per_node, len(gpu_names)))
    texts = list(notes) if notes is not None else [""] * len(gpu_names)
    known = facts.accelerators()
    accelerators = [known[name] for name in gpu_names]
    words = [_interconnect_word(item, text) for item, text in zip(accelerators, texts, strict=True)]
    inter = [default_inter(item, text) for item, text in zip(accelerators, texts, strict=True)]
    servers = [_server_link(item.name, int(count), word) for item, count, word in zip(accelerators, inside, words, strict=True)]
    return _columns_of(np.asarray(servers, dtype=np.float64).reshape(-1, 4), inter)


def _interconnect_word(accelerator: Accelerator, notes: str) -> str:
    lowered = notes.lower()
    if says("setup", "no_peer_copies", lowered):
        return "host"
    for word in ("nvswitch", "nvlink"):
        if word in lowered and accelerator.nvlink_bandwidth > 0:
            return word
    return "pcie" if says("setup", "over_pcie", lowered) else default_interconnect(accelerator)


def _columns_of(servers: Array, inter: Sequence[tuple[float, int]]) -> LinkColumns:
    return LinkColumns.of(
        intra_bandwidth=servers[:, 0],
        intra_kind=servers[:, 1],
        intra_latency_s=servers[:, 2],
        host_bandwidth=servers[:, 3],
        inter_bandwidth=[rate for rate, _ in inter],
        inter_kind=[kind for _, kind in inter],
        inter_latency_s=[link_facts()[f"latency_{_INTER_LATENCY_KEYS[kind]}"] for _, kind in inter],
    )


# Codes of DeviceColumns.vendor and .form: positions in these tuples; append only.
VENDORS = ("undisclosed", "NVIDIA", "AMD", "Intel", "Google", "AWS", "Huawei", "Qualcomm")
FORMS = ("", "pcie", "sxm", "oam")

_KINDS = {
    "decoder": Kind.DECODER,
    "encoder": Kind.ENCODER,
    "embedding": Kind.ENCODER,
    "encoder-decoder": Kind.ENCODER_DECODER,
    "moe-decoder": Kind.MOE_DECODER,
    "vlm": Kind.VISION_LANGUAGE,
}
_MLPS = {"swiglu": Mlp.SWIGLU, "geglu": Mlp.GEGLU, "gelu": Mlp.GELU, "relu": Mlp.RELU, "relu2": Mlp.RELU_SQUARED}
_ATTENTIONS = {
    "mha": AttentionKind.MHA,
    "gqa": AttentionKind.GQA,
    "mqa": AttentionKind.MQA,
    "mla": AttentionKind.MLA,
    "sliding": AttentionKind.SLIDING,
    "ssm": AttentionKind.SSM,
    "hybrid-ssm": AttentionKind.HYBRID_SSM,
}
_NORMS = {"rmsnorm": Norm.RMSNORM, "layernorm": Norm.LAYERNORM}


def _same(record: type[Any], columns: type[Columns], *, apart: tuple[str, ...]) -> tuple[str, ...]:
    """Numbers that a record of facts and the columns of physics have by the same name, but for
    those that are converted."""
    held = {field.name for field in dataclasses.fields(record)}
    return tuple(field.name for field in dataclasses.fields(columns) if field.name in held and field.name not in apart)


_OF_MODELS = _same(TransformerArchitecture, ModelColumns, apart=("kind", "attention_kind", "norm", "num_layers", "params_vision"))
_OF_DEVICES = _same(Accelerator, DeviceColumns, apart=("architecture", "vendor", "form"))


def model_columns(archs: Sequence[TransformerArchitecture]) -> ModelColumns:
    """One row per architecture. Encoder-decoder models get both stacks in `num_layers`."""
    values: dict[str, list[float]] = {name: [float(getattr(arch, name)) for arch in archs] for name in _OF_MODELS}
    values["kind"] = [float(_KINDS.get(arch.kind, Kind.DECODER)) for arch in archs]
    values["mlp"] = [float(_MLPS.get(arch.mlp_kind, Mlp.SWIGLU)) for arch in archs]
    values["attention_kind"] = [float(_ATTENTIONS.get(arch.attention_kind, AttentionKind.MHA)) for arch in archs]
    values["norm"] = [float(_NORMS.get(arch.norm, Norm.RMSNORM)) for arch in archs]
    values["num_layers"] = [float(_total_layers(arch)) for arch in archs]
    counted = [_attention_counts(arch.name) for arch in archs]
    values |= {name: [one.get(name, default) for one in counted] for name, default in _ATTENTION_COUNTS.items()}
    values["num_index_layers"] = [
        one.get("num_index_layers", float(arch.num_layers * ("DSA" in arch.notes))) for one, arch in zip(counted, archs, strict=True)
    ]
    values["has_lm_head"] = [float(arch.kind != "embedding") for arch in archs]
    values["params_vision"] = [float(arch.params_vision + arch.params_audio) for arch in archs]
    values["image_tokens"] = [_image_tokens(arch) for arch in archs]
    return ModelColumns.of(**values)


#: Columns of facts/data/attention_kinds.csv that physics has by the same name, and what stands
#: where nothing was counted.
_ATTENTION_COUNTS = dict.fromkeys(
    (
        "sparse_layers",
        "sparse_most",
        "pooled_layers",
        "index_heads",
        "index_width",
        "cache_bytes",
        "window_bytes",
        "index_bytes",
        "state_bytes",
    ),
    0.0,
) | {"cache_window": 0.0, "sparse_stride": 1.0, "pooled_stride": 1.0, "key_value_share": 1.0}
_COUNTED_AS = {"index_layers": "num_index_layers", "window": "cache_window"}


@functools.cache
def _attention_counts(name: str) -> dict[str, float]:
    """What was counted of a model's attention and cache; nothing where it was not."""
    row = next((row for row in facts.table("attention_kinds") if row["model"] == name), None)
    cells = {column: text for column, text in row.items() if column not in ("model", "source") and text} if row else {}
    return {_COUNTED_AS.get(column, column): float(text) for column, text in cells.items()}


def device_columns(accelerators: Iterable[Accelerator]) -> DeviceColumns:
    """One row per accelerator."""
    rows = list(accelerators)
    values: dict[str, list[float]] = {name: [float(getattr(row, name)) for row in rows] for name in _OF_DEVICES}
    values["host_bandwidth"] = [pcie_bandwidth(row) for row in rows]
    values["architecture"] = [float(architecture_code(row.vendor, row.architecture, row.compute_capability)) for row in rows]
    values["vendor"] = [_code(VENDORS, row.vendor) for row in rows]
    values["form"] = [_code(FORMS, row.form) for row in rows]
    values["price_class"] = [float(is_consumer(row.name)) for row in rows]
    values["inline_ecc"] = [float(has_inline_ecc(row.name)) for row in rows]
    return DeviceColumns.of(**values)


def _total_layers(arch: TransformerArchitecture) -> int:
    both = arch.num_encoder_layers + arch.num_decoder_layers
    return both if arch.kind == "encoder-decoder" and both else arch.num_layers


def _image_tokens(arch: TransformerArchitecture) -> float:
    """Vision-tower tokens of one image at its native resolution."""
    if not arch.vision_patch or not arch.vision_image_size:
        return 0.0
    return float((arch.vision_image_size // arch.vision_patch) ** 2)


def _code(names: tuple[str, ...], name: str) -> float:
    return float(names.index(name)) if name in names else 0.0


def has_inline_ecc(name: str) -> bool:
    """Data-center cards with GDDR6, whose driver corrects errors by default and keeps a sixteenth
    of their memory for it; HBM and GDDR7 correct beside it."""
    return shape("setup", "^{inline_ecc}$", ignore_case=True).match(name) is not None


def is_consumer(name: str) -> bool:
    """GeForce and Titan cards: tensor cores at half rate when they accumulate in fp32, no ECC, no
    NVLink in recent generations."""
    return shape("setup", "{consumer}", ignore_case=True).match(name) is not None
