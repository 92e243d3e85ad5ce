"""Typed records of what is known. Every record carries its source; loading refuses one without."""

from __future__ import annotations

from rightfit.records import dataclass


@dataclass(frozen=True, slots=True)
class Accelerator:
    """One accelerator as software sees it (one GPU, TPU chip or Neuron chip). Rates are dense; 0
    means unsupported or unknown.

    `nvlink_bandwidth` is the total of both directions per device [bytes/s]: NVLink, Infinity
    Fabric, NeuronLink, TPU ICI, Gaudi or Huawei links; 0 means PCIe only. `memory_bandwidth`
    [bytes/s], `l2_bytes` and `memory_bytes` as usable by software.
    """

    name: str
    vendor: str
    architecture: str
    release_year: int
    memory_bytes: float
    memory_bandwidth: float
    fp32_flops: float
    tf32_flops: float
    fp16_flops: float
    bf16_flops: float
    fp8_flops: float
    int8_ops: float
    int4_ops: float
    fp4_flops: float
    fp64_flops: float
    nvlink_bandwidth: float
    pcie_generation: float
    tdp_w: float
    num_sms: int
    l2_bytes: float
    compute_capability: float
    min_cuda: str
    form: str
    equivalent_to: str
    source: str
    source_note: str = ""
    structured_sparsity: bool = False

    @property
    def supports_bf16(self) -> bool:
        """Whether bf16 matrix products run in hardware."""
        return self.bf16_flops > 0

    @property
    def supports_flash_attention(self) -> bool:
        """FlashAttention-2 needs an NVIDIA card of compute capability 8.0 or newer, or a
        recent AMD Instinct."""
        return self.compute_capability >= 8.0 or self.architecture.startswith("CDNA")


@dataclass(frozen=True, slots=True)
class TransformerArchitecture:
    """Dimensions of a transformer.

    `kind`: decoder, moe-decoder, encoder, embedding, encoder-decoder, vlm. `certainty`: exact
    (known model), config (read from a config file), given, typical (only a size was given).
    `num_layers` counts both stacks of an encoder-decoder. `head_dim` of MLA is qk_nope + qk_rope.
    `params_total` counts tied heads once; `params_stored` is what the weight files on the hub hold,
    where it was read. `verified` says what the count was compared with; `fields_without_source`
    names dimensions that nobody published.
    """

    name: str
    kind: str
    num_layers: int
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    max_position: int
    tied_embeddings: bool
    attention_kind: str
    mlp_kind: str
    norm: str
    params_total: int
    params_active: int
    params_embedding: int
    source: str
    aliases: tuple[str, ...] = ()
    family: str = ""
    sliding_window: int = 0
    num_experts: int = 0
    experts_per_token: int = 0
    num_shared_experts: int = 0
    moe_intermediate_size: int = 0
    num_moe_layers: int = 0
    q_lora_rank: int = 0
    kv_lora_rank: int = 0
    qk_nope_head_dim: int = 0
    qk_rope_head_dim: int = 0
    v_head_dim: int = 0
    learned_positions: bool = False
    qkv_bias: bool = False
    attention_out_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False
    num_encoder_layers: int = 0
    num_decoder_layers: int = 0
    num_full_attention_layers: int = 0
    num_sliding_layers: int = 0
    num_linear_layers: int = 0
    params_vision: int = 0
    params_audio: int = 0
    vision_layers: int = 0
    vision_hidden: int = 0
    vision_patch: int = 0
    vision_image_size: int = 0
    params_published: int = 0
    params_published_source: str = ""
    verified: str = ""
    licence: str = ""
    release_date: str = ""
    notes: str = ""
    certainty: str = "exact"
    qk_norm_full: bool = False
    first_dense_layers: int = 0
    params_active_published: int = 0
    params_published_basis: str = ""
    params_stored: int = 0
    kv_bytes_per_token_bf16: float = 0.0
    kv_bytes_per_token_sliding_bf16: float = 0.0
    fields_without_source: str = ""


@dataclass(frozen=True, slots=True)
class VisionModel:
    """A vision model: parameters, multiply-adds of one forward pass and
    activations at `image_size`."""

    name: str
    task: str
    params_total: int
    macs: float
    activations: float
    image_size: int
    source: str
    aliases: tuple[str, ...] = ()
    family: str = ""
    notes: str = ""
    image_size_note: str = ""
    other_resolutions: str = ""
    infer_samples_per_s_rtx3090: float = 0.0
    infer_samples_per_s_rtx4090: float = 0.0
    infer_samples_per_s_rtx5090: float = 0.0
    infer_samples_per_s_rtxpro6000maxq: float = 0.0
    infer_samples_per_s_cpu: float = 0.0
    train_samples_per_s_rtx3090: float = 0.0
    train_batch_rtx3090: int = 0


@dataclass(frozen=True, slots=True)
class DiffusionModel:
    """A diffusion pipeline by component. `forward_flops` is one denoiser call for one latent
    at `default_output`.

    `flops_by_output` lists other sizes where they were counted: "512x512:8.033e11;
    768x768:2.1481e12", videos as frames x height x width.
    """

    name: str
    modality: str
    denoiser_arch: str
    denoiser_params: int
    text_encoder_params: int
    vae_params: int
    total_params: int
    forward_flops: float
    default_output: str
    default_steps: int
    forwards_per_step: int
    source: str
    aliases: tuple[str, ...] = ()
    family: str = ""
    denoiser_tokens: int = 0
    notes: str = ""
    denoiser_class: str = ""
    text_encoders: str = ""
    image_encoder_params: int = 0
    other_params: int = 0
    latent_channels: int = 0
    latent_shape: str = ""
    vae_spatial_down: int = 0
    vae_temporal_down: int = 0
    flops_by_output: str = ""
    vae_decode_flops: float = 0.0
    denoiser_params_published: int = 0
    verified: str = ""
    licence: str = ""
    release_date: str = ""


@dataclass(frozen=True, slots=True)
class OtherModel:
    """A recommender, speech, graph, recurrent, tree ... model. `forward_flops`
    is per `flops_unit`."""

    name: str
    task: str
    kind: str
    params_total: int
    params_dense: int
    params_embedding: int
    embedding_bytes: float
    forward_flops: float
    flops_unit: str
    source: str
    aliases: tuple[str, ...] = ()
    family: str = ""
    notes: str = ""
    embedding_tables: str = ""
    embedding_rows: int = 0
    embedding_dim: str = ""
    flops_method: str = ""
    config: str = ""
    dataset: str = ""
    dataset_size: str = ""
    params_published: int = 0
    verified: str = ""
    release_date: str = ""


@dataclass(frozen=True, slots=True)
class TracedModel:
    """A model of the user's own, counted from its file or code for one input of `input_shape`.
    Counts are per sample.

    `kind` of layers from their mix (as estimate.forward_models.KINDS; empty: the file does not say
    how the tensors are used), `modality` from the input (vision, video, text, audio, time-series,
    tabular), `output` "map" where it is an image. `macs` multiply-adds of weighted operators in one
    forward pass, `score_macs` of attention, `backward_macs` of the backward pass (0: not traced);
    `activations` elements that weighted operators write, `score_elements` that attention's products
    write, `widest` output, `gathered` looked up in tables; `kept_bytes` what PyTorch keeps for the
    backward pass in fp32 (0: not traced), `fixed_bytes` of it whatever the batch.
    """

    name: str
    kind: str
    modality: str
    params_total: int
    macs: float
    source: str
    aliases: tuple[str, ...] = ()
    family: str = "traced"
    output: str = ""
    params_trainable: int = 0
    params_embedding: int = 0
    score_macs: float = 0.0
    backward_macs: float = 0.0
    activations: float = 0.0
    score_elements: float = 0.0
    widest: float = 0.0
    kept_bytes: float = 0.0
    fixed_bytes: float = 0.0
    layers: float = 1.0
    input_shape: str = ""
    image_size: float = 0.0
    tokens: float = 0.0
    gathered: float = 0.0
    stored_bytes: float = 0.0
    dtypes: str = ""
    operators: str = ""
    notes: str = ""
    certainty: str = "traced"


@dataclass(frozen=True, slots=True)
class Dataset:
    """A public dataset. `tokens` and `samples` are 0 where unknown."""

    name: str
    domain: str
    samples: int
    tokens: int
    size_bytes: float
    source: str
    aliases: tuple[str, ...] = ()
    note: str = ""


Model = TransformerArchitecture | VisionModel | DiffusionModel | OtherModel | TracedModel
