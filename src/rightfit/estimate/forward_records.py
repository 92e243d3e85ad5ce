"""What one forward pass of a model is made of, and what is asked of it."""

from __future__ import annotations

from rightfit.records import dataclass


@dataclass(frozen=True, slots=True)
class Stage:
    """One part of a model that runs `repeats` times per input. Counts are per input and pass (see physics/forward.py).

    `items` inputs that one request puts into a pass (2 with classifier-free guidance); `loose` how many times the usual number of small
    kernels a layer has where the engine fuses nothing; `pointwise` how many times the element-wise crossings usual for the kind an
    activation has there; `host` how many times the usual work of its kind the host does after each input (suppressing boxes).
    """

    kind: str
    macs: float
    activations: float
    weights: float
    layers: float
    score_macs: float = 0.0
    repeats: float = 1.0
    items: float = 1.0
    loose: float = 1.0
    pointwise: float = 1.0
    host: float = 1.0


@dataclass(frozen=True, slots=True)
class ForwardWork:
    """Stages of one input, the first of them the main one, and what was assumed.

    `output_bytes` per input are copied to the host when large; `state_elements` per input stay in memory from one stage to the next;
    `pixels` of an image that the host hands over. `is_guessed`: only parameters are known, and the arithmetic is that of the family.
    """

    stages: tuple[Stage, ...]
    params: float
    modality: str
    assumptions: tuple[str, ...] = ()
    output_bytes: float = 0.0
    state_elements: float = 0.0
    pixels: float = 0.0
    is_guessed: bool = False


@dataclass(frozen=True, slots=True)
class ForwardWish:
    """What a row says about the input: `image` (height, width, frames; 0 = not said), tokens, steps, stated GMACs and activations."""

    model: str
    params: float = 0.0
    height: float = 0.0
    width: float = 0.0
    frames: float = 0.0
    tokens: float = 0.0
    output_tokens: float = 0.0
    memory_tokens: float = 0.0
    steps: float = 0.0
    audio_s: float = 0.0
    beams: float = 1.0
    macs: float = 0.0
    activations: float = 0.0
    language_head: bool = False
    denoise_only: bool = False
