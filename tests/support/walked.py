"""Which plans' READMEs are done from top to bottom by the tests of tests/exporters, and how: what
docs/commands/export.md shows. The tests take their cases from here, or are held to it."""

from __future__ import annotations

EVERY_WAY = (
    *("qlora-8b", "lora-8b-aws", "full-8b-gcp", "full-70b", "bert-azure", "pretrain-1b-alicloud", "pretrain-8b-megatron"),
    *("sdxl-aws", "resnet-gcp", "whisper-train-aws", "graphsage", "xgboost-train-aws", "tokenize-aws", "bge-batch", "batch-8b-tencent"),
)
"""By each way of theirs, failing, killed and gone on to the result (test_readme_ways.py): adapters,
whole models, encoders, images, sound, networks, tables, models split among cards, batches,
preparation of data; one server and several, spot and not, on five clouds and one whose programs
have no way of their own."""
FIRST_WAY = (*(name for name in EVERY_WAY if name != "graphsage"), "chat-8b", "bert-service-azure")
"""By the way that the README names first (test_readme.py)."""
OWN_PROGRAM = (
    *("lora-8b-aws", "full-8b-gcp", "pretrain-1b-alicloud", "bert-azure", "whisper-train-aws", "segformer-train", "bge-batch"),
    *("whisper-batch-aws", "xgboost-train-aws", "table-train", "tokenize-aws", "dpo-lora", "embedding-pairs", "reranker"),
    *("text-to-text", "translation", "vision-full", "segmentation-frozen", "clip-lora", "wav2vec-train", "detr", "flux-lora-swapped"),
    *("graphsage", "dcn"),
)
"""The same with the exported program itself in the place of the stand-in for it, on a model of a
few thousand parameters (test_readme_runs.py)."""
NAMED_BY_HAND = ("cloud-init",)
"""Ways whose server is none that the README rents."""
