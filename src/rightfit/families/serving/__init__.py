"""Services and batches of language models."""
