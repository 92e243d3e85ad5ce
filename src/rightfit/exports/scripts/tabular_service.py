"""A model of tables behind HTTP: rows of requests that come together are scored together. Started by uvicorn; reads service.json beside it.

The model is the file that rightfit's tabular script writes (XGBoost, LightGBM, CatBoost), or an estimator that pickle wrote.
"""

import pickle

import numpy as np
import service_core as core
from fastapi import Depends, HTTPException
from pydantic import BaseModel, Field

PLAN = core.PLAN
MOST_ROWS = 100_000


class Request(BaseModel):
    """Rows of numbers, in the order of the table's columns without its label."""

    rows: list[list[float]] = Field(min_length=1, max_length=MOST_ROWS)


def scorer():
    """(What gives scores of an array of rows, how many numbers a row has; 0 where the model does not say)."""
    path = core.HERE / PLAN["model"]
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


class Scores(core.Batcher):
    def __init__(self):
        super().__init__()
        self.score, self.width = scorer()

    def size(self, rows):
        return len(rows)

    def answers(self, asked):
        scores = np.asarray(self.score(np.concatenate(asked)))
        places = np.cumsum([len(rows) for rows in asked])[:-1]
        return [{"scores": part.tolist()} for part in np.split(scores, places)]


app = core.service(Scores)


@app.post("/v1/score", dependencies=[Depends(core.check_key)])
async def score(request: Request):
    batcher = app.state.batcher
    width = len(request.rows[0])
    if batcher.width and width != batcher.width:
        raise HTTPException(422, f"a row has {batcher.width} numbers, not {width}")
    if any(len(row) != width for row in request.rows):
        raise HTTPException(422, "rows have as many numbers as the first one")
    return await batcher.answer(np.asarray(request.rows, np.float32))
