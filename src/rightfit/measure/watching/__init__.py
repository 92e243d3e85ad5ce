"""Follow a run while it goes: `sources` look at it, `expected` is what its plan says, `judging`
compares, `exposition` writes it for Prometheus."""
