"""Networks that are trained on samples, by their names: those whose arithmetic no record states,
denoisers, graphs, heads of detectors, and what a name spells out (backbone, stride, normalisation,
frames of a clip)."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

from rightfit.facts.records import DiffusionModel
from rightfit.facts.tables import filled, first_match, meaning, says, senses, shape, table
from rightfit.records import dataclass

WORDS = "training"  # table of words


@dataclass(frozen=True, slots=True)
class ListedTraining:
    """A line of train_models.csv: work of one training sample at `image_size` and `frames`;
    `is_of_10_s`: of so much sound. `kept_factor` 0: that of the kind."""

    kind: str
    modality: str
    macs: float
    score_macs: float
    activations: float
    params: float
    tables: float
    gathered: float
    layers: float
    image_size: float
    frames: float
    units: float
    epoch_samples: float
    epochs: float
    kept_factor: float
    is_of_10_s: bool


@dataclass(frozen=True, slots=True)
class TrainedGraph:
    """A line of train_graphs.csv: work of one seed node, its features in RAM and, trained whole,
    what the graph takes of the card."""

    epoch_seeds: float
    macs: float
    gathered: float
    host_s: float
    layers: float
    params: float
    features_bytes: float
    full_graph_bytes: float


@dataclass(frozen=True, slots=True)
class TrainedDenoiser:
    """A line of train_denoisers.csv: the record that it has (empty: none) and its layout (`blocks`
    0: the record's); shares and widths 0 where they are usual."""

    record: str
    params: float
    blocks: float
    hidden: float
    pixels_per_token: float
    text_tokens: float
    frames_per_token: float
    passes: float
    token_share: float
    kept_widths: float
    block_layers: float


@dataclass(frozen=True, slots=True)
class VisionHead:
    """A line of train_heads.csv: what the head of a detector or segmenter keeps and computes for
    each pixel and image; `wide` 1 where regions are pooled or normalisation is frozen, both in
    fp32 under autocast, 0 where plain convolutions train with their own."""

    kept_per_pixel: float
    kept_per_image: float
    classes_maps: float
    attention_maps: float
    macs_per_pixel: float
    macs_per_image: float
    params: float
    host_s: float
    wide: float


@dataclass(frozen=True, slots=True)
class Backbone:
    """The backbone that a name spells out: its family, and what is told of its size (letters, or
    depth, groups and width of a residual network)."""

    family: str
    size: str = ""
    depth: int = 0
    groups: int = 1
    width: int = 64
    is_small: bool = False
    is_windowed: bool = False
    has_old_stem: bool = False


@dataclass(frozen=True, slots=True)
class VisionRecipe:
    """What the name of a detector or segmenter says beside its parts."""

    stride: int
    is_c4: bool
    trains_all: bool
    has_batch_norm: bool
    has_group_norm: bool
    has_group_norm_head: bool
    pools_wide: bool


@dataclass(frozen=True, slots=True)
class UsualRun:
    """Samples of a step, passes over the data and samples of one pass that are usual."""

    batch: float
    epochs: float
    samples: float


@dataclass(frozen=True, slots=True)
class UsualTraining:
    """A line of training_usual.csv: what models of one kind learn from (its domain, what one sample
    is called, its bytes and seconds) and their usual runs."""

    domain: str
    unit: str
    sample_bytes: float
    seconds: float
    train: UsualRun
    finetune: UsualRun

    def run(self, task: str) -> UsualRun:
        """The usual run of a task."""
        return self.train if task == "train" else self.finetune


# lines of tables ----------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4096)
def listed_training(name: str) -> ListedTraining | None:
    """The line of train_models.csv that a name means, where it states the arithmetic."""
    row = first_match("train_models", name, whole=True)
    if row is None or not row["gmacs"]:
        return None
    scaled = {
        "macs": ("gmacs", 1e9),
        "score_macs": ("score_gmacs", 1e9),
        "activations": ("mactivations", 1e6),
        "params": ("mparams", 1e6),
        "tables": ("mtables", 1e6),
    }
    return filled(ListedTraining, row, scaled, units=float(row["units"] or 0.0) or 1.0, is_of_10_s="10 s" in row["source"])


@functools.lru_cache(maxsize=4096)
def trained_graph(name: str) -> TrainedGraph | None:
    """The graph network that a name means."""
    row = first_match("train_graphs", name, whole=True)
    if row is None:
        return None
    counts = {
        "macs": ("gmacs_seed", 1e9),
        "gathered": ("gathered_seed", 1.0),
        "host_s": ("us_per_seed_host", 1e-6),
        "params": ("mparams", 1e6),
    }
    sizes = {"features_bytes": ("features_gib", 2.0**30), "full_graph_bytes": ("full_graph_gib", 2.0**30)}
    return filled(TrainedGraph, row, counts | sizes)


@functools.lru_cache(maxsize=4096)
def trained_denoiser(name: str) -> TrainedDenoiser | None:
    """The denoiser that a name means."""
    row = first_match("train_denoisers", name, whole=True)
    if row is None:
        return None
    return filled(TrainedDenoiser, row, {"params": ("mparams", 1e6)})


@functools.lru_cache(maxsize=4096)
def vision_head(name: str) -> VisionHead | None:
    """The head of a detector or segmenter that a name in small letters tells of."""
    row = first_match("train_heads", name)
    if row is None:
        return None
    kept = {"kept_per_image": ("kept_per_image_m", 1e6), "params": ("mparams", 1e6)}
    return filled(VisionHead, row, kept | {"macs_per_pixel": ("kmacs_per_pixel", 1e3), "macs_per_image": ("gmacs_per_image", 1e9)})


@functools.lru_cache(maxsize=1024)
def usual_training(modality: str, name: str, *, is_video: bool) -> UsualTraining:
    """The usual recipe for a model."""
    row = first_match("training_usual", f"{modality}:{'video ' if is_video else ''}{name.lower()}", whole=True)
    assert row is not None  # the last pattern matches everything
    train, finetune = (UsualRun(*(float(row[f"{one}_{task}"]) for one in ("batch", "epochs", "samples"))) for task in ("train", "finetune"))
    return UsualTraining(row["domain"], row["unit"], float(row["sample_bytes"]), float(row["seconds"]), train, finetune)


def is_listed(name: str) -> bool:
    """Whether any of the tables of arithmetic knows a name."""
    return any(first_match(one, name, whole=True) for one in ("train_models", "train_graphs", "train_denoisers"))


@functools.cache
def _data_sets() -> Mapping[tuple[str, str], float]:
    return {(row["quantity"], row["name"]): float(row["value"]) for row in table("train_data_sets")}


def data_set_samples(name: str) -> float:
    """Samples of one epoch of a data set of train_data_sets.csv; 0 without a name."""
    return _data_sets()["samples", name] if name else 0.0


def data_set_seconds(name: str) -> float:
    """Mean seconds of an utterance of a data set of train_data_sets.csv; 0 without a name."""
    return _data_sets()["seconds", name] if name else 0.0


# names --------------------------------------------------------------------------------------------

_CLIP = re.compile(r"(?<![\dx])(\d{1,2})x(\d{1,2})x(\d{1,2})(?![\dx])")
_SIDES = re.compile(r"(\d+)(?:\D+(\d+))?$")
_TABLES = re.compile(r"(\d+(?:\.\d+)?)\s?GB (?:total|tables)")
_GROUPED = re.compile(r"(?<![a-z0-9])(?:x|resnext)[-_ ]?(50|101|152)(?:[-_ ](\d+)x(\d+)d)?")
_SPLIT = re.compile(r"(?<![a-z0-9])(?:s|resnest)[-_]?(50|101|200)(?![0-9x])")
_RES2 = re.compile(r"(?:r2|res2net)[-_ ]?(50|101)")
_MOBILE = (
    ("mobilenet-v2", re.compile(r"m(?:obilenet)?[-_]?v2")),
    ("mobilenet-v3-small", re.compile(r"m(?:obilenet)?[-_]?v3s")),
    ("mobilenet-v3-large", re.compile(r"m(?:obilenet)?[-_]?v3")),
)


def without_note(name: str) -> str:
    """A name without a note behind it of what the model was trained on or how long."""
    return shape(WORDS, r"\s+\({recipe_note}\)$", ignore_case=True).sub("", name.strip())


def tables_bytes(name: str) -> float:
    """Bytes of embedding tables that a name states ("... 90 GB total", "dlrm 200 GB tables"); 0
    where it states none."""
    found = _TABLES.search(name)
    return float(found[1]) * 1e9 if found else 0.0


def clip_frames(name: str) -> float:
    """Frames of a sample as video libraries write them into a name (frames x interval x clips); 0
    where they are not there."""
    found = _CLIP.search(name)
    return float(found[1]) * float(found[3]) if found else 0.0


def style_generation(name: str) -> str:
    """Generation of a StyleGAN, the second where none is told; empty for other networks."""
    found = re.match(r"stylegan[-_ ]?([23])?", name.lower())
    return (found[1] or "2") if found else ""


@functools.lru_cache(maxsize=4096)
def looser_names(name: str) -> tuple[str, ...]:
    """Names of records that may be meant by a name without the words of a
    recipe, likeliest first."""
    bare = shape(WORDS, r"(?:^|[-_ ]){recipe}(?=[-_ (]|$)", ignore_case=True).sub(" ", re.sub(r"\(.*\)", "", name)).strip(" -_")
    bare = re.sub(r"\s+", " ", bare)
    vit = _vit_name(bare)
    tries = (
        bare,
        "timm/" + bare.replace("resnet-", "resnet"),
        bare.replace(" ", "-"),
        re.sub(r"vit-([bl])(\d\d)(plus-\d+)?.*", r"vit-\1-\2", bare),
        vit,
        vit.replace("_224", "_clip_224"),
        "timm/vit_base_patch14_dinov2" if "dinov2" in name.lower() else "",
        f"timm/{bare}",
        f"timm/{bare.replace('-', '_')}",
        f"torchvision/{bare.replace('-', '_')}",
        f"ultralytics/{bare}",
    )
    return tuple(text for text in tries if text)


def _vit_name(text: str) -> str:
    found = shape(WORDS, r"vit-?({vit_size})(?:[-/]?(\d\d))?").search(text.lower())
    if not found:
        return ""
    size = senses(WORDS, "vit_size")[found[1]]
    patch = found[2] or ("14" if size == "huge" else "16")
    return f"timm/vit_{size}_patch{patch}_224"


def without_recipe(name: str) -> str:
    """A name of timm without the words before and after it that tell how the model was trained."""
    recipe = shape(WORDS, r"^{recipe_start}_|_{recipe_end}(?=_|$)")
    return recipe.sub("", recipe.sub("", name.lower()))


def letters_of(name: str) -> str:
    """The small letters that a name begins with."""
    found = re.match(r"[a-z]*", name)
    return found[0] if found else ""


def patch_of(name: str) -> float:
    """Pixels of a side of a patch that a name of timm tells; 16 where it tells none."""
    found = re.search(r"(?:patch|p)(\d{1,2})(?=_|$)", name)
    return float(found[1]) if found else 16.0


def output_sizes(record: DiffusionModel) -> tuple[float, ...]:
    """The numbers of a record's usual output: sides of a picture, frames before them for video."""
    return tuple(float(part) for part in re.findall(r"\d+", record.default_output))


def output_frames(record: object) -> float:
    """Frames of a video model's usual output; 1 for others."""
    sizes = output_sizes(record) if isinstance(record, DiffusionModel) and record.modality == "video" else ()
    return sizes[0] if len(sizes) >= 3 else 1.0


def is_padded(name: str) -> bool:
    """Whether a network fills every recording up to one length."""
    return "whisper" in name.lower()


def sides_in(text: str) -> tuple[float, float]:
    """Height and width of "512" or "512x768"; zeros where nothing is said."""
    found = _SIDES.match(text)
    return (float(found[1]), float(found[2] or found[1])) if found else (0.0, 0.0)


def has_digits(name: str) -> bool:
    """Whether a name holds a number."""
    return any(sign.isdigit() for sign in name)


@functools.lru_cache(maxsize=4096)
def vision_recipe(name: str) -> VisionRecipe:
    """What the name of a detector or segmenter in small letters says beside its parts."""
    return VisionRecipe(
        stride=8 if says(WORDS, "stride_8", name) else 16 if says(WORDS, "stride_16", name) else 32,
        is_c4=re.search(r"[-_ ]c4", name) is not None,
        trains_all="scratch" in name or "gn-all" in name or "gn_ws" in name,
        has_batch_norm=("syncbn" in name and "head" not in name) or "scratch" in name,
        has_group_norm=says(WORDS, "group_norm", name),
        has_group_norm_head=says(WORDS, "group_norm_head", name),
        pools_wide="dc5" in name,
    )


@functools.lru_cache(maxsize=4096)
def backbone_named(name: str) -> Backbone | None:
    """The backbone that a name in small letters spells out; None when it names none."""
    if found := _GROUPED.search(name):
        groups, width = (int(found[2]), int(found[3])) if found[2] else (32, 4)
        return Backbone("grouped", depth=int(found[1]), groups=groups, width=width)
    if found := _RES2.search(name):
        return Backbone("res2", depth=int(found[1]))
    if found := _SPLIT.search(name):
        return Backbone("split", depth=int(found[1]))
    if found := shape(WORDS, r"(?<![a-z]){residual_name}[-_ ]?(18|34|50|101|152)(?![0-9])").search(name):
        old_stem = re.search(rf"(?<![a-z])r{found[1]}b(?![a-z])", name) is not None  # mmsegmentation's "r18b": torchvision's layout
        return Backbone("residual", depth=int(found[1]), has_old_stem=old_stem)
    return _other_backbone(name)


def _other_backbone(name: str) -> Backbone | None:
    if found := re.search(r"mvit(?:v2)?[-_]?([tsblh])", name):
        return Backbone("mvit", found[1])
    if found := re.search(r"swin(?:v2|transformer)?[-_ ]?(t|s|b|l)", name):
        return Backbone("swin", found[1])
    if found := shape(WORDS, r"convnext(?:v2)?[-_]({convnext_size})").search(name):
        return Backbone("convnext", found[1])
    if found := re.search(r"mit[-_]?b([0-5])", name):
        return Backbone("mit", found[1])
    if found := shape(WORDS, r"{vit_like}[-_]?({vit_letter})").search(name):
        return Backbone("vit", found[1], is_windowed="vitdet" in name)
    if found := shape(WORDS, r"regnet([xy])[-_]?(\d+(?:\.\d+)?)({billion_flops})").search(name):
        return Backbone("regnet", _nearest_regnet(found[1], float(found[2]) * (1.0 if found[3] == "gf" else 1e-3)))
    if found := shape(WORDS, r"{high_resolution_name}(18|32|40|48)(s?)").search(name):
        return Backbone("hrnet", width=int(found[1]), is_small=bool(found[2]))
    if family := next((family for family, pattern in _MOBILE if pattern.search(name)), ""):
        return Backbone(family)
    return Backbone("counted", counted) if (counted := meaning(WORDS, "plain_backbone", name)) else None


def _nearest_regnet(letter: str, gigaflops: float) -> str:
    """The RegNet of timm of the nearest size."""
    names = {0.4: "004", 0.8: "008", 1.6: "016", 3.2: "032", 4.0: "040", 6.4: "064", 8.0: "080", 12.0: "120", 16.0: "160", 32.0: "320"}
    return f"timm/regnet{letter}_{names[min(names, key=lambda size: abs(size - gigaflops))]}"
