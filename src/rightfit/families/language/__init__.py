"""Training and fine-tuning of transformers."""
