"""Services and batches of models of one pass: encoders, vision, diffusion,
speech, classical models."""
