"""Work of encoders, encoder-decoders and speech models from their dimensions."""

from __future__ import annotations

from rightfit.estimate.forward_records import ForwardWish, ForwardWork, Stage
from rightfit.facts.constants import constants
from rightfit.facts.records import TransformerArchitecture

_FIGURES = constants("forward_work")
_LAYERS_PER_BLOCK = _FIGURES["layers_per_block"]  # weighted products and normalisations of one block
_AUDIO_WINDOW_S = 30.0  # Whisper encodes windows of 30 s into 1,500 positions
_AUDIO_POSITIONS, _SPEECH_TOKENS_PER_S, _DEFAULT_TOKENS = (
    _FIGURES[name] for name in ("audio_positions", "speech_tokens_per_s", "default_tokens")
)


def linear_macs(arch: TransformerArchitecture, *, cross: bool = False) -> float:
    """Multiply-adds of one block per token: projections of attention and the feed-forward matrices."""
    head = arch.head_dim or arch.hidden_size // max(arch.num_heads, 1)
    attention = 2 * arch.hidden_size * head * (arch.num_heads + (arch.num_kv_heads or arch.num_heads))
    matrices = 3 if arch.mlp_kind in ("swiglu", "geglu") else 2
    return float(attention * (2 if cross else 1) + matrices * arch.hidden_size * arch.intermediate_size)


def block_activations(arch: TransformerArchitecture) -> float:
    """Elements that the weighted layers of one block write per token."""
    return float(5 * arch.hidden_size + arch.intermediate_size * (2 if arch.mlp_kind in ("swiglu", "geglu") else 1))


def encoder_stage(arch: TransformerArchitecture, tokens: float, blocks: float, *, language_head: bool = False) -> Stage:
    """One pass over `tokens` positions through `blocks` encoder blocks."""
    relative = _FIGURES["deberta_scores"] if "deberta" in arch.name.lower() else 1.0
    per_token = linear_macs(arch) + (arch.hidden_size**2 * 2 if relative > 1 else 0)
    macs = tokens * blocks * per_token
    if language_head:
        macs += tokens * arch.hidden_size * arch.vocab_size
    scores = relative * 2.0 * tokens**2 * arch.num_heads * (arch.head_dim or arch.hidden_size // max(arch.num_heads, 1)) * blocks
    activations = blocks * tokens * (block_activations(arch) + (relative - 1.0) * arch.num_heads * tokens)
    weights = max(float(arch.params_total - arch.params_embedding), 1e6)
    layers = blocks * _LAYERS_PER_BLOCK * (_FIGURES["deberta_layers"] if relative > 1 else 1.0)
    # Disentangled attention gathers, shifts and re-buckets positions in many small kernels, which only a compiler joins.
    return Stage("transformer", macs, activations, weights, layers, scores, loose=_FIGURES["deberta_loose"] if relative > 1 else 1.0)


def transformer_work(wish: ForwardWish, arch: TransformerArchitecture) -> ForwardWork:
    """Stages of a transformer record that is not a decoder."""
    if arch.kind == "encoder-decoder":
        return _sequence_to_sequence(wish, arch)
    if arch.vision_layers and arch.vision_hidden:
        return _two_towers(wish, arch)
    tokens = wish.tokens or _DEFAULT_TOKENS
    stage = encoder_stage(arch, tokens, float(arch.num_layers), language_head=wish.language_head)
    assumptions = () if wish.tokens else (f"{_DEFAULT_TOKENS:.0f} tokens an input taken",)
    logits = _FIGURES["head_logits"] * tokens * arch.vocab_size if wish.language_head else 0.0
    return ForwardWork((stage,), float(arch.params_total), "text", assumptions, logits)


def _two_towers(wish: ForwardWish, arch: TransformerArchitecture) -> ForwardWork:
    """An image tower beside the text tower (CLIP): images only pass through the first."""
    side = wish.height or arch.vision_image_size or _FIGURES["usual_side"]
    tokens = (side / (arch.vision_patch or 16)) ** 2 + 1
    hidden, blocks = float(arch.vision_hidden), float(arch.vision_layers)
    macs = blocks * tokens * 12 * hidden**2
    scores = blocks * 2 * tokens**2 * hidden
    weights = float(arch.params_vision or blocks * 12 * hidden**2)
    image = Stage("transformer", macs, blocks * tokens * 9 * hidden, weights, blocks * _LAYERS_PER_BLOCK, scores)
    text = encoder_stage(arch, wish.tokens or _FIGURES["clip_tokens"], float(arch.num_layers))
    return ForwardWork((image, text), float(arch.params_total), "vision")


def _sequence_to_sequence(wish: ForwardWish, arch: TransformerArchitecture) -> ForwardWork:
    """Encoder over the input, then one decoder pass per output token."""
    encoder = float(arch.num_encoder_layers or arch.num_layers / 2)
    decoder = float(arch.num_decoder_layers or arch.num_layers / 2)
    speech = "whisper" in arch.name.lower()
    windows, tokens, produced = 1.0, wish.tokens or _DEFAULT_TOKENS, wish.output_tokens
    if speech:
        seconds = wish.audio_s or _AUDIO_WINDOW_S
        windows, tokens = max(seconds / _AUDIO_WINDOW_S, 1.0), _AUDIO_POSITIONS
        produced = produced or seconds * _SPEECH_TOKENS_PER_S
    encode = encoder_stage(arch, tokens, encoder)
    cross = float(linear_macs(arch, cross=True))
    share = encoder * linear_macs(arch) / max(encoder * linear_macs(arch) + decoder * cross, 1.0)
    body = max(float(arch.params_total - arch.params_embedding), 1e6)
    first = Stage(encode.kind, encode.macs, encode.activations, body * share, encode.layers, encode.score_macs, repeats=windows)
    macs = decoder * cross + arch.hidden_size * arch.vocab_size
    weights = body * (1 - share) + arch.hidden_size * arch.vocab_size
    # Each step also reads the keys and values of the encoder's positions: counted as weights of the step.
    state = 2.0 * decoder * tokens * arch.hidden_size
    weights += state
    step = Stage(
        "decode",
        macs,
        decoder * block_activations(arch),
        weights,
        decoder * _FIGURES["decoder_block_layers"],
        repeats=produced or 0.0,
        items=wish.beams,
    )
    stages = (first, step) if produced else (first,)
    return ForwardWork(stages, float(arch.params_total), "audio" if speech else "text", state_elements=state)
