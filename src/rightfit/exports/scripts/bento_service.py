"""A model behind BentoML, which gathers requests that come together into batches. Started by `bentoml serve`; reads service.json beside
it."""

import hmac
import json
import os
from pathlib import Path

import bentoml
import numpy as np
import onnxruntime
from pydantic import BaseModel, Field

HERE = Path(__file__).parent
PLAN = json.loads((HERE / "service.json").read_text())
OPEN_PATHS = ("/livez", "/readyz", "/healthz", "/metrics")


class Sample(BaseModel):
    """One sample: a (nested) list of numbers for each input of the model, without the batch dimension."""

    inputs: dict[str, list] = Field(min_length=1, max_length=16)


class KeyCheck:
    """Asks every request but those for health for the key."""

    def __init__(self, app):
        self.app = app
        self.key = f"Bearer {os.environ['RIGHTFIT_API_KEY']}".encode()

    async def __call__(self, scope, receive, send):
        given = dict(scope.get("headers", ())).get(b"authorization", b"")
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS or hmac.compare_digest(given, self.key):
            await self.app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 401, "headers": [(b"content-type", b"text/plain")]})
        await send({"type": "http.response.body", "body": b"send the key as Authorization: Bearer KEY"})


@bentoml.service(name="model", workers=PLAN["workers"], traffic={"timeout": PLAN["timeout_s"]})
class Model:
    def __init__(self):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = PLAN["threads"]
        card = bentoml.server_context.worker_index - 1
        offered = [name for name in PLAN["providers"] if name in onnxruntime.get_available_providers()]
        cards = [{"device_id": card} if name.startswith(("CUDA", "Tensorrt")) else {} for name in offered]
        self.session = onnxruntime.InferenceSession(str(HERE / PLAN["model"]), options, providers=offered, provider_options=cards)
        self.kinds = {found.name: found.type for found in self.session.get_inputs()}
        self.outputs = [found.name for found in self.session.get_outputs()]

    @bentoml.api(batchable=True, max_batch_size=PLAN["max_batch"], max_latency_ms=round(PLAN["timeout_s"] * 1000))
    def infer(self, samples: list[Sample]) -> list[dict[str, list]]:
        kinds = {"tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(float16)": np.float16}
        # Samples of different shapes cannot share a pass.
        groups: dict[tuple, list[int]] = {}
        for number, sample in enumerate(samples):
            if set(sample.inputs) != set(self.kinds):
                raise bentoml.exceptions.InvalidArgument(f"inputs must be {sorted(self.kinds)}")
            groups.setdefault(tuple(np.shape(sample.inputs[name]) for name in self.kinds), []).append(number)
        answers: list[dict[str, list]] = [{} for _ in samples]
        for group in groups.values():
            batch = {
                name: np.stack([np.asarray(samples[number].inputs[name]) for number in group]).astype(kinds.get(kind, np.float32))
                for name, kind in self.kinds.items()
            }
            results = self.session.run(self.outputs, batch)
            for position, number in enumerate(group):
                answers[number] = {name: values[position].tolist() for name, values in zip(self.outputs, results, strict=True)}
        return answers


Model.add_asgi_middleware(KeyCheck)
