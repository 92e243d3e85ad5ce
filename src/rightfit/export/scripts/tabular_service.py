"""A model of tables behind HTTP: rows of requests that come together are scored together. Started by uvicorn; reads service.json beside it.

The model is the file that rightfit's tabular script writes (XGBoost, LightGBM, CatBoost), or an estimator that pickle wrote.
"""

import asyncio
import contextlib
import hmac
import json
import os
import pickle
from pathlib import Path

import numpy as np
from fastapi import Depends, FastAPI, Header, HTTPException
from pydantic import BaseModel, Field

HERE = Path(__file__).parent
PLAN = json.loads((HERE / "service.json").read_text())
KEY = os.environ["RIGHTFIT_API_KEY"]
MOST_ROWS = 100_000
MOST_WAITING = 16 * PLAN["max_batch"]


class Request(BaseModel):
    """Rows of numbers, in the order of the table's columns without its label."""

    rows: list[list[float]] = Field(min_length=1, max_length=MOST_ROWS)


def scorer():
    """(What gives scores of an array of rows, how many numbers a row has; 0 where the model does not say)."""
    path = HERE / PLAN["model"]
    device = "cuda" if PLAN["device"] == "gpu" else "cpu"
    if PLAN["library"] == "xgboost":
        import xgboost

        model = xgboost.Booster({"device": device, "nthread": PLAN["threads"]}, model_file=str(path))
        return model.inplace_predict, model.num_features()
    if PLAN["library"] == "lightgbm":
        import lightgbm

        model = lightgbm.Booster(model_file=str(path))
        return lambda rows: model.predict(rows, num_threads=PLAN["threads"]), model.num_feature()
    if PLAN["library"] == "catboost":
        import catboost

        model = catboost.CatBoost().load_model(str(path))
        return lambda rows: model.predict(rows, thread_count=PLAN["threads"]), len(model.feature_names_)
    with path.open("rb") as file:
        model = pickle.load(file)  # noqa: S301  the user's own model
    return model.predict, int(getattr(model, "n_features_in_", 0))


class Batcher:
    """Gathers rows for at most `wait_s`, at most `max_batch`, and scores them in one pass."""

    def __init__(self):
        self.score, self.width = scorer()
        self.waiting = asyncio.Queue(MOST_WAITING)

    async def work(self):
        loop = asyncio.get_running_loop()
        while True:
            batch = [await self.waiting.get()]
            until = loop.time() + PLAN["wait_s"]
            while sum(len(rows) for rows, _ in batch) < PLAN["max_batch"] and loop.time() < until:
                try:
                    batch.append(await asyncio.wait_for(self.waiting.get(), until - loop.time()))
                except TimeoutError:
                    break
            try:
                scores = np.asarray(await asyncio.to_thread(self.score, np.concatenate([rows for rows, _ in batch])))
            except Exception as error:
                for _, answer in batch:
                    answer.set_exception(HTTPException(422, str(error).splitlines()[0]))
                continue
            places = np.cumsum([len(rows) for rows, _ in batch])[:-1]
            for part, (_, answer) in zip(np.split(scores, places), batch, strict=True):
                answer.set_result({"scores": part.tolist()})


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


@app.post("/v1/score", dependencies=[Depends(check_key)])
async def score(request: Request):
    batcher = app.state.batcher
    width = len(request.rows[0])
    if batcher.width and width != batcher.width:
        raise HTTPException(422, f"a row has {batcher.width} numbers, not {width}")
    if any(len(row) != width for row in request.rows):
        raise HTTPException(422, "rows have as many numbers as the first one")
    answer = asyncio.get_running_loop().create_future()
    try:
        batcher.waiting.put_nowait((np.asarray(request.rows, np.float32), answer))
    except asyncio.QueueFull:
        raise HTTPException(503, "too many requests wait; try again later", headers={"Retry-After": "1"}) from None
    return await answer
