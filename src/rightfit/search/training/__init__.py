"""The table of set-ups of training on accelerators, which the families of language models
and of samples share."""
