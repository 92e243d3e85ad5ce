"""Comparing names as people write them: tokens, keys without noise words, and the nearest known names."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence

# A number keeps its decimals and one size letter ("1.5b", "3.1"); words and numbers part where they touch ("llama3" = "llama", "3").
# So do number formats ("fp8", "4bit").
_TOKEN = re.compile(
    r"(?<![a-z])(?:(?:mx|nv)?fp\d+|bf16|int\d+|nf4)|\d+bit|\d+(?:\.\d+)+[a-z]?(?![a-z])|\d+[bmkt](?![a-z])|\d+|[a-z]+|[^\x00-\x7f]+"
)
_DECIMAL_UNDERSCORE = re.compile(r"(?<=\d)_(?=\d)")
# How a checkpoint is stored, in words of several parts: files of llama.cpp, widths of weights and activations.
_STORED = re.compile(
    r"(?<![a-z0-9])(?:(?:ud[-_])?i?q[1-8]_(?:[01]|nl|k|xxs|xs|s|m|l)(?:_(?:xs|s|m|l|xl))?|(?:quantized[._-])?w[48]a(?:8|16)(?:fp8)?|fp8[-_]dynamic)(?![a-z0-9])"
)
# Words that leave the architecture as it is: training stages, number formats, wrappers.
_NOISE = frozenset(
    ["instruct", "chat", "it", "hf", "pt", "sft", "dpo", "rlhf", "meta", "model", "preview", "the", "v"]  # stages and wrappers
)
_NOISE |= frozenset(
    ["bf16", "fp16", "fp8", "fp4", "mxfp4", "nvfp4", "nf4", "fp32", "int4", "int8", "4bit", "8bit", "bnb", "bit", "awq", "gptq", "gguf"]
)  # number formats
ANSWERING = frozenset({"instruct", "chat", "it"})
"""Words for the stage in which a model answers people."""
# A word for a size where there is no number ("bert base"), noise where there is one ("llama 8b base").
_NOISE_BESIDE_A_SIZE = frozenset({"base", "uncased"})
_SIZE = re.compile(r"\d+(?:\.\d+)?[bm]")
LONGEST_NAME = 200


def tokens(text: str) -> tuple[str, ...]:
    """Lower-case words and numbers of a name: 'Meta-Llama-3-8B' and 'meta llama3 8b' give the same."""
    return tuple(_TOKEN.findall(_DECIMAL_UNDERSCORE.sub(".", _STORED.sub(" ", text[:LONGEST_NAME].casefold()))))


def base_name(text: str) -> str:
    """A hub id without its organisation."""
    return text.rsplit("/", 1)[-1]


def without_noise(words: Sequence[str]) -> tuple[str, ...]:
    """Words that tell architectures apart: 'instruct', 'chat', 'hf', 'bf16' and the like do not."""
    noise = _NOISE | _NOISE_BESIDE_A_SIZE if any(_SIZE.fullmatch(word) for word in words) else _NOISE
    kept = tuple(word for word in words if word not in noise)
    return kept or tuple(words)


def nearest(text: str, names: Iterable[str], *, count: int = 3, cutoff: float = 0.5) -> tuple[str, ...]:
    """The `count` names most like `text`, best first; none below the similarity `cutoff` (0 to 1)."""
    from difflib import SequenceMatcher

    wanted = _squash(text)
    if not wanted:
        return ()
    pairs = _pairs(text)
    scored = sorted(((_overlap(pairs, _pairs(name)), name) for name in dict.fromkeys(names)), key=lambda item: (-item[0], item[1]))
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(wanted)
    ranked = []
    for overlap, name in scored[: 8 * count]:
        matcher.set_seq1(_squash(name))
        ranked.append((0.5 * overlap + 0.5 * matcher.ratio(), name))
    ranked.sort(key=lambda item: (-item[0], len(item[1]), item[1]))
    return tuple(name for score, name in ranked[:count] if score >= cutoff)


def _squash(text: str) -> str:
    return "".join(character for character in text[:LONGEST_NAME].casefold() if character.isalnum())


@functools.lru_cache(maxsize=16384)
def _pairs(name: str) -> frozenset[str]:
    """Pairs of neighbouring letters; kept, because the same few thousand names are compared again and again."""
    text = _squash(name)
    return frozenset(text[index : index + 2] for index in range(len(text) - 1)) or frozenset({text})


def _overlap(left: frozenset[str], right: frozenset[str]) -> float:
    return 2 * len(left & right) / (len(left) + len(right))
