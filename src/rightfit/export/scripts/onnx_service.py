"""A model behind HTTP: requests that come together are run together. Started by uvicorn; reads service.json beside it."""

import asyncio
import contextlib
import hmac
import json
import os
from pathlib import Path

import numpy as np
import onnxruntime
from fastapi import Depends, FastAPI, Header, HTTPException
from pydantic import BaseModel, Field

HERE = Path(__file__).parent
PLAN = json.loads((HERE / "service.json").read_text())
KEY = os.environ["RIGHTFIT_API_KEY"]
MOST_WAITING = 16 * PLAN["max_batch"]


class Request(BaseModel):
    """One sample: a (nested) list of numbers for each input of the model, without the batch dimension."""

    inputs: dict[str, list] = Field(min_length=1, max_length=16)


class Batcher:
    """Gathers samples for at most `wait_s`, at most `max_batch`, and runs them in one pass."""

    def __init__(self):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = PLAN["threads"]
        offered = [name for name in PLAN["providers"] if name in onnxruntime.get_available_providers()]
        self.session = onnxruntime.InferenceSession(str(HERE / PLAN["model"]), options, providers=offered)
        self.kinds = {found.name: found.type for found in self.session.get_inputs()}
        self.shapes = {found.name: found.shape[1:] for found in self.session.get_inputs()}
        self.outputs = [found.name for found in self.session.get_outputs()]
        self.waiting = asyncio.Queue(MOST_WAITING)

    def arrays(self, batch):
        kinds = {"tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(float16)": np.float16}
        return {
            name: np.stack([sample[name] for sample, _ in batch]).astype(kinds.get(kind, np.float32)) for name, kind in self.kinds.items()
        }

    async def work(self):
        loop = asyncio.get_running_loop()
        while True:
            batch = [await self.waiting.get()]
            until = loop.time() + PLAN["wait_s"]
            while len(batch) < PLAN["max_batch"] and loop.time() < until:
                try:
                    batch.append(await asyncio.wait_for(self.waiting.get(), until - loop.time()))
                except TimeoutError:
                    break
            # Samples of different shapes cannot share a pass.
            groups = {}
            for sample, answer in batch:
                groups.setdefault(tuple((name, value.shape) for name, value in sorted(sample.items())), []).append((sample, answer))
            for group in groups.values():
                try:
                    results = await asyncio.to_thread(self.session.run, self.outputs, self.arrays(group))
                except Exception as error:
                    for _, answer in group:
                        answer.set_exception(HTTPException(422, str(error).splitlines()[0]))
                    continue
                for position, (_, answer) in enumerate(group):
                    answer.set_result({name: values[position].tolist() for name, values in zip(self.outputs, results, strict=True)})


@contextlib.asynccontextmanager
async def lifespan(app):
    app.state.batcher = Batcher()
    worker = asyncio.create_task(app.state.batcher.work())
    yield
    worker.cancel()


def check_key(authorization: str = Header("")):
    if not hmac.compare_digest(authorization.encode(), f"Bearer {KEY}".encode()):
        raise HTTPException(401, "send the key as Authorization: Bearer KEY")


app = FastAPI(title="rightfit service", lifespan=lifespan)


@app.get("/health")
async def health():
    return {"plan": PLAN["plan"]}


@app.get("/v1/inputs", dependencies=[Depends(check_key)])
async def inputs():
    """Shape of each input of one sample; a size that may be any is its name or null."""
    return app.state.batcher.shapes


@app.post("/v1/infer", dependencies=[Depends(check_key)])
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
    answer = asyncio.get_running_loop().create_future()
    try:
        batcher.waiting.put_nowait((sample, answer))
    except asyncio.QueueFull:
        raise HTTPException(503, "too many requests wait; try again later", headers={"Retry-After": "1"}) from None
    return await answer
