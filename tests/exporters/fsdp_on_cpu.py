"""FSDP1 through Accelerate on processors: what Python imports at its start where it lies in the
folder of a run as sitecustomize.py. Accelerate shards on cards alone; these are the places where it
and PyTorch ask for one, and nothing else of them is touched."""

import contextlib
import json
import os
import types
from pathlib import Path

if os.environ.get("RANK") and json.loads(Path("train.json").read_text())["sharding"] != "none":
    import accelerate.state
    import torch
    from accelerate.utils import DistributedType, dataclasses
    from torch.distributed.fsdp import _flat_param, _init_utils

    first = accelerate.state.PartialState.__init__

    def several(self, *args, **kwargs):
        """Several processes, as of cards."""
        first(self, *args, **kwargs)
        if self.distributed_type == DistributedType.MULTI_CPU:
            self.distributed_type = DistributedType.MULTI_GPU

    accelerate.state.PartialState.__init__ = several
    dataclasses.is_npu_available = lambda: True  # the first kind of card that it asks for
    torch.npu = types.SimpleNamespace(current_device=lambda: torch.device("cpu"))
    _init_utils._get_device_from_device_id = lambda *_, **__: torch.device("cpu")  # "cpu:0" is another device to it
    _init_utils._check_module_states_for_sync_module_states = lambda _states: None
    _flat_param.FlatParamHandle.to_cpu = lambda _self: contextlib.nullcontext()  # it would free what lies there already
    torch.Tensor.pin_memory = lambda self: self
    torch.cpu.Stream.synchronize = lambda _self: None
