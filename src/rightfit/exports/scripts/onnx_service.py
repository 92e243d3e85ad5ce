"""A model behind HTTP: requests that come together are run together. Started by uvicorn; reads service.json beside it."""

import numpy as np
import onnxruntime
import service_core as core
from fastapi import Depends, HTTPException
from pydantic import BaseModel, Field

PLAN = core.PLAN
KINDS = {"tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(float16)": np.float16}


class Request(BaseModel):
    """One sample: a (nested) list of numbers for each input of the model, without the batch dimension."""

    inputs: dict[str, list] = Field(min_length=1, max_length=16)


class Model(core.Batcher):
    def __init__(self):
        super().__init__()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = PLAN["threads"]
        card = core.own_card()
        offered = [
            (name, {"device_id": card}) if card is not None and name.startswith(("CUDA", "Tensorrt")) else name
            for name in PLAN["providers"]
            if name in onnxruntime.get_available_providers()
        ]
        self.session = onnxruntime.InferenceSession(str(core.HERE / PLAN["model"]), options, providers=offered)
        self.kinds = {found.name: found.type for found in self.session.get_inputs()}
        self.shapes = {found.name: found.shape[1:] for found in self.session.get_inputs()}
        self.outputs = [found.name for found in self.session.get_outputs()]

    def groups(self, batch):
        """Samples of different shapes cannot share a pass."""
        found = {}
        for sample, answer in batch:
            found.setdefault(tuple((name, value.shape) for name, value in sorted(sample.items())), []).append((sample, answer))
        return found.values()

    def answers(self, asked):
        arrays = {
            name: np.stack([sample[name] for sample in asked]).astype(KINDS.get(kind, np.float32)) for name, kind in self.kinds.items()
        }
        results = self.session.run(self.outputs, arrays)
        return [{name: values[place].tolist() for name, values in zip(self.outputs, results, strict=True)} for place in range(len(asked))]


app = core.service(Model)


@app.get("/v1/inputs", dependencies=[Depends(core.check_key)])
async def inputs():
    """Shape of each input of one sample; a size that may be any is its name or null."""
    return app.state.batcher.shapes


@app.post("/v1/infer", dependencies=[Depends(core.check_key)])
async def infer(request: Request):
    batcher = app.state.batcher
    if set(request.inputs) != set(batcher.kinds):
        raise HTTPException(422, f"inputs must be {sorted(batcher.kinds)}")
    try:
        sample = {name: np.asarray(value) for name, value in request.inputs.items()}
        if any(array.dtype.kind not in "biuf" for array in sample.values()):
            raise ValueError("numbers only")
    except ValueError as error:
        raise HTTPException(422, f"inputs are not arrays of numbers: {error}") from None
    return await batcher.answer(sample)
