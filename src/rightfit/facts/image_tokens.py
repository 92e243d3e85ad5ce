"""How many tokens of a language model an image is: the rules of each family of vision-language
models (facts/data/image_tokens.csv).

A rule says how an image is resized and cut into patches, how many patches become one token, and
what stands around them.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from rightfit.facts.records import TransformerArchitecture
from rightfit.facts.tables import table
from rightfit.records import dataclass

_LARGEST_RATIO = 200.0


class ImageSize(NamedTuple):
    """Tokens of one image in the language model, and patches that its vision tower works on."""

    tokens: float
    patches: float


@dataclass(frozen=True, slots=True)
class ImageRule:
    """How a family of models cuts images. `merge`: patches a side that become one token. `edge`:
    longest side, or the fixed side, in pixels.
    `share`: part of the layers that hold the tokens. `frames_together`: frames of a video that
    become one image. `is_known`: False where a model stands in no row and its tower's patches are
    taken as they are."""

    rule: str
    patch: int = 14
    merge: int = 1
    least_pixels: float = 0.0
    most_pixels: float = math.inf
    edge: int = 0
    tile: int = 0
    most_tiles: int = 1
    tile_tokens: float = 0.0
    extra_tokens: float = 0.0
    share: float = 1.0
    frames_together: int = 1
    audio_tokens_per_s: float = 0.0
    source: str = ""
    is_known: bool = True

    @property
    def takes_images(self) -> bool:
        """Whether images become tokens."""
        return not self.rule.startswith("none")

    def size_of(self, height: float, width: float) -> ImageSize:
        """Tokens and patches of an image of `height` x `width` pixels; the larger side is at most
        200 times the smaller, as in the processors."""
        long, short = max(height, width), max(min(height, width), max(height, width) / _LARGEST_RATIO)
        height, width = (long, short) if height >= width else (short, long)
        found = _RULES[self.rule](self, height, width)
        return ImageSize((found.tokens + self.extra_tokens) * self.share, found.patches)


def image_rule(arch: TransformerArchitecture) -> ImageRule | None:
    """The rule of a model; None of one that reads text only."""
    row = _row_of(f"{arch.family} {arch.name}".lower())
    has_tower = bool(arch.vision_layers or arch.params_vision)
    if row is not None and (arch.kind == "vlm" or has_tower):
        return row
    if not has_tower and arch.kind != "vlm":
        return None
    patch = arch.vision_patch or 14
    if arch.vision_image_size:
        tokens = float((arch.vision_image_size // patch) ** 2)
        return ImageRule("fixed", patch=patch, edge=arch.vision_image_size, tile_tokens=tokens, source="vision_config", is_known=False)
    return ImageRule("grid", patch=patch, source="vision_config", is_known=False)


def has_two_towers(arch: TransformerArchitecture) -> bool:
    """Whether a model only compares images with texts (CLIP, SigLIP): it produces no text."""
    rule = image_rule(arch) if arch.kind == "vlm" else None
    return rule is not None and rule.rule == "none"


@functools.cache
def _row_of(name: str) -> ImageRule | None:
    row = next((row for row in table("image_tokens") if re.search(row["pattern"], name)), None)
    return _rule(row) if row else None


def _rule(row: Mapping[str, str]) -> ImageRule:
    given = {field.name: row[field.name] for field in dataclasses.fields(ImageRule) if row.get(field.name)}
    whole = {"patch", "merge", "edge", "tile", "most_tiles", "frames_together"}
    texts = {"rule", "source"}
    values = {name: int(text) if name in whole else text if name in texts else float(text) for name, text in given.items()}
    return ImageRule(**values)  # type: ignore[arg-type]


def _fixed(rule: ImageRule, _height: float, _width: float) -> ImageSize:
    """Every image is resized to one size."""
    patches = (rule.edge / rule.patch) ** 2 if rule.edge else rule.tile_tokens
    return ImageSize(rule.tile_tokens, patches)


def _grid(rule: ImageRule, height: float, width: float) -> ImageSize:
    """Sides rounded to squares of patch x merge pixels, within least and most pixels
    (Qwen2-VL's smart_resize)."""
    square = rule.patch * rule.merge
    rows, cols = (max(1, round(side / square)) for side in (height, width))
    if rows * cols * square**2 > rule.most_pixels:
        shrink = math.sqrt(height * width / rule.most_pixels)
        rows, cols = (max(1, math.floor(side / shrink / square)) for side in (height, width))
    elif rows * cols * square**2 < rule.least_pixels:
        grow = math.sqrt(rule.least_pixels / (height * width))
        rows, cols = (math.ceil(side * grow / square) for side in (height, width))
    return ImageSize(float(rows * cols), float(rows * cols * rule.merge**2))


def _fill(rule: ImageRule, height: float, width: float) -> ImageSize:
    """Resized so that its squares fill a number of tokens."""
    square, factor = rule.patch * rule.merge, math.sqrt(rule.most_pixels / (height * width))
    rows, cols = (max(1, math.floor(side * factor / square)) for side in (height, width))
    return ImageSize(float(rows * cols), float(rows * cols * rule.merge**2))


def _rows(rule: ImageRule, height: float, width: float) -> ImageSize:
    """Squares row by row, each row with a break; the longest side is bounded."""
    square, shrink = rule.patch * rule.merge, max(max(height, width) / rule.edge, 1.0)
    rows, cols = (max(1, math.ceil(side / shrink / square)) for side in (height, width))
    return ImageSize(float(rows * (cols + 1)), float(rows * cols * rule.merge**2))


def _tiles(rule: ImageRule, height: float, width: float) -> ImageSize:
    """As many tiles as the closest aspect ratio has, and the whole image beside them where there
    are several (InternVL's dynamic_preprocess); towers read by cross-attention (`share` below 1)
    see the tiles alone."""
    ratio, area = width / height, width * height
    best, nearest = (1, 1), math.inf
    shapes = ((cols, rows) for cols in range(1, rule.most_tiles + 1) for rows in range(1, rule.most_tiles // cols + 1))
    for cols, rows in sorted(shapes, key=lambda shape: shape[0] * shape[1]):
        gap = abs(ratio - cols / rows)
        if gap < nearest or (gap == nearest and area > 0.5 * rule.tile**2 * cols * rows):
            best, nearest = (cols, rows), gap
    count = best[0] * best[1]
    count += 1 if count > 1 and rule.share == 1.0 else 0
    return ImageSize(count * rule.tile_tokens, count * (rule.tile / rule.patch) ** 2)


def _split(rule: ImageRule, height: float, width: float) -> ImageSize:
    """Cut into windows after the longest side was bounded, and the whole image beside them."""
    shrink = max(max(height, width) / rule.edge, 1.0)
    rows, cols = (math.ceil(side / shrink / rule.tile) for side in (height, width))
    count = 1 + (rows * cols if rows * cols > 1 else 0)
    return ImageSize(count * rule.tile_tokens, count * (rule.tile / rule.patch) ** 2)


_PINPOINTS = ((336, 672), (672, 336), (672, 672), (1008, 336), (336, 1008))


def _anyres(rule: ImageRule, height: float, width: float) -> ImageSize:
    """LLaVA-1.6: the pinpoint that keeps most of the image, its padding taken away, a newline a
    row, and the whole image."""

    def kept(pinpoint: tuple[int, int]) -> tuple[float, float]:
        scale = min(pinpoint[0] / height, pinpoint[1] / width)
        seen = min(int(height * scale) * int(width * scale), height * width)
        return seen, seen - pinpoint[0] * pinpoint[1]

    tall, wide = max(_PINPOINTS, key=kept)
    side = rule.tile // rule.patch
    rows, cols = float(tall // rule.tile * side), float(wide // rule.tile * side)
    if width / height > cols / rows:
        rows -= 2 * ((rows - math.floor(height * cols / width)) // 2)
    else:
        cols -= 2 * ((cols - math.floor(width * rows / height)) // 2)
    tiles = tall // rule.tile * (wide // rule.tile) + 1
    return ImageSize(rows * cols + rows + rule.tile_tokens, float(tiles * side**2))


_RULES: Mapping[str, Callable[[ImageRule, float, float], ImageSize]] = {
    "fixed": _fixed,
    "grid": _grid,
    "fill": _fill,
    "rows": _rows,
    "tiles": _tiles,
    "split": _split,
    "anyres": _anyres,
}
