"""Models of the user's own: an ONNX file, a safetensors file, or a function that builds a PyTorch
module; counted without a GPU.

`reference` reads what was typed, `process` runs `worker` with limits, `onnx_file` and
`torch_module` count in there, `safetensors_file` reads headers, `tally` turns counts into a record,
`cache` keeps them by content.
"""
