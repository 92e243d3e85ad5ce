"""The options of a workload as typed keyword arguments: what an editor completes in `plan(...)`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

Names = str | Sequence[str]
Number = str | float


class WorkloadOptions(TypedDict, total=False):
    """Options of a workload, as in `rightfit plan --help`: `seq_len=4096` is `--seq-len 4096`. None
    leaves an option open."""

    model: str | None  # Hugging Face ID, alias, size such as 7B, dimensions, or path to config.json, e.g. meta-llama/Meta-Llama-3-8B
    task: str | None  # what to do with the model, e.g. finetune
    method: str | None  # training method, e.g. qlora
    data: str | None  # amount of data, or a dataset name, e.g. 50Mtok
    epochs: Number | None  # number of epochs, e.g. 3
    seq_len: Number | None  # sequence length in tokens, e.g. 4096
    global_batch: Number | None  # sequences per optimizer step, all GPUs together, e.g. 64
    deadline: str | None  # time limit for the job, e.g. 24h
    budget: str | None  # total budget, or monthly for a service, e.g. 200usd
    confidence: Number | None  # probability of meeting the deadline and budget, e.g. 90
    rate: str | None  # request rate to serve, e.g. 10/s
    users: Number | None  # concurrent users, e.g. 200
    think: str | None  # think time between a response and the user's next request, e.g. 30s
    input_tokens: Number | None  # input tokens per request, or a distribution, e.g. 1024
    output_tokens: Number | None  # output tokens per request, or a distribution, e.g. 256
    trace: str | None  # request trace (CSV or JSON Lines): time, input tokens, output tokens, e.g. requests.csv
    profile: str | None  # daily load profile: office, consumer, flat, 24 numbers, or a file, e.g. office
    ttft: str | None  # limit on time to first token, e.g. 300ms
    tpot: str | None  # limit on time per output token, e.g. 30ms
    latency: str | None  # limit on end-to-end request latency, e.g. 100ms
    api_price: Number | None  # API price to compare with, per million input/output tokens, e.g. 0.15/0.60
    prefix_share: Number | None  # share of each prompt that is a common prefix, e.g. 0.6
    cached_tokens: Number | None  # length of the common prompt prefix in tokens, e.g. 600
    adapters: Number | None  # number of LoRA adapters served concurrently, e.g. 20
    adapter_rank: Number | None  # rank of the served adapters, e.g. 16
    speculative: str | None  # speculative decoding: draft model, draft head (eagle3, eagle, mtp), or ngram, e.g. qwen2.5-0.5b
    draft_tokens: Number | None  # draft tokens per step, e.g. 3
    acceptance: Number | None  # acceptance rate of draft tokens, e.g. 0.7
    kv_cache: str | None  # KV cache data type, e.g. fp8
    gpu_memory_utilization: Number | None  # share of GPU memory that the serving engine takes, e.g. 0.95
    kv_offload: str | None  # KV cache offload target: host or ssd, e.g. host
    cache_hits: Number | None  # prefix cache hit rate, e.g. 0.5
    slice: str | None  # run each replica on a GPU slice: MIG profile or fraction, e.g. 3g.40gb
    beside: Names | None  # models co-located on the same servers, each with its rate, e.g. bert-base-uncased@50/s
    fleet: str | None  # one server type, or the cheapest mix, e.g. mixed
    percentile: Number | None  # percentile of the latency limits, e.g. 95
    cloud: Names | None  # only these clouds, e.g. aws,gcp
    region: Names | None  # only these regions, e.g. us-east-1
    country: Names | None  # only these countries, e.g. US,DE
    residency: Names | None  # keep data in this area: eu, eea, gdpr, cn-mainland, or countries, e.g. eu
    sellers: Names | None  # providers: major (default), hyperscaler, all, or names, e.g. all
    quota: Names | None  # your account quotas, e.g. 8 A100 in us-east-1
    purchase: Names | None  # pricing models, e.g. on-demand,spot
    gpu: Names | None  # only these accelerators; 8xH100 sets the count, 24GB the memory, e.g. H100,A100
    avoid: Names | None  # clouds, countries or accelerators to exclude, e.g. aws,A100
    num_gpus: Number | None  # total GPUs across all servers, e.g. 8
    max_nodes: Number | None  # maximum servers per job, e.g. 4
    office_hours: Number | None  # hours per month a server runs if stopped in between, e.g. 176
    precision: str | None  # compute precision, e.g. bf16
    quantization: str | None  # weight quantization, e.g. nf4
    objective: str | None  # what to optimize for, e.g. cost
    currency: str | None  # currency for prices, e.g. eur
    optimizer: str | None  # optimizer, e.g. adamw-8bit
    lora_rank: Number | None  # LoRA rank, e.g. 16
    lora_targets: Names | None  # LoRA target modules, e.g. q,k,v,o
    update: str | None  # weights to train in preference tuning or RL, e.g. lora
    rollout: str | None  # where the PPO or GRPO rollout engine runs, e.g. colocated
    completions: Number | None  # completions per prompt in PPO and GRPO, e.g. 8
    reward_model: str | None  # reward model for PPO and GRPO, e.g. Qwen/Qwen2.5-1.5B
    recompute: str | None  # activation recomputation, e.g. full
    attention: str | None  # attention kernel, e.g. flash
    micro_batch: Number | None  # micro-batch size per GPU, e.g. 4
    tensor_parallel: Number | None  # tensor-parallel size, e.g. 2
    pipeline_parallel: Number | None  # pipeline-parallel size, e.g. 2
    sharding: str | None  # sharding of optimizer state, gradients, weights, e.g. zero3
    offload: str | None  # what to offload to host memory, e.g. optimizer
    framework: str | None  # training framework, e.g. transformers
    storage: str | None  # training data storage: volume type, local, memory or stream, e.g. gp3
    data_location: str | None  # current location of the data: a region, or home, e.g. aws/us-east-1
    input_shape: str | None  # input shape of your own model, without the batch dimension, e.g. 3x224x224
    image_size: Number | None  # image size in pixels: one side, or height x width, e.g. 512
    frames: Number | None  # frames per clip or video, e.g. 16
    images: Number | None  # images per request to a vision-language model, e.g. 2
    denoise_steps: Number | None  # number of denoising steps, e.g. 30
    audio_length: str | None  # length of each recording, e.g. 10s
    latents: str | None  # diffusion latents: precomputed or computed in every step, e.g. cached
    decode: str | None  # data decoding in the loader, e.g. text
    workers: Number | None  # data loader workers per GPU, e.g. 8
    columns: Number | None  # number of columns where data is given in rows or bytes, e.g. 28
    library: str | None  # library for classical ML or data preparation, e.g. sklearn
    trees: Number | None  # number of trees or boosting rounds, e.g. 500
    depth: Number | None  # tree depth, e.g. 8
    settings: str | None  # other algorithm settings as text, e.g. 100 clusters, 50 iterations
    operation: str | None  # data preparation operation (task prepare), e.g. tokenize
