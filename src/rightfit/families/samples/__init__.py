"""Training on samples: vision, detection, diffusion, speech, recommenders, graphs."""
