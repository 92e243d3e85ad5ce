"""Train a model of a table, or score a table with one, as a rightfit plan says. Usage: python run.py run.json

The table: Parquet or CSV files of numbers; the column "label" is what is learnt. Boosted trees are kept between rounds and go on from there;
other models are fitted in one piece, and a new start fits them again. A table is scored file by file, and a new start scores what is missing.
"""

import importlib
import inspect
import json
import pickle
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pds
import pyarrow.parquet as pq
import run_core as core

plan = core.settings()
output = Path(plan["output"])
stop = core.Stop()
FINAL = output / "model"
KEPT = output / "rounds"
NAMES = {"xgboost": "model.ubj", "lightgbm": "model.txt", "catboost": "model.cbm"}
MOST_CLASSES = 1000


def files():
    """Files of the table; one kind alone."""
    place = Path(core.local(plan["data"]))
    found = [place] if place.is_file() else sorted(file for file in place.rglob("*") if file.suffix in (".parquet", ".csv"))
    if not found:
        raise SystemExit(f"{plan['data']} has no Parquet or CSV files")
    return [file for file in found if file.suffix == found[0].suffix]


def read(chosen):
    """(numbers, labels or None) of some files; columns of words are refused."""
    table = pds.dataset([str(file) for file in chosen], format=chosen[0].suffix[1:]).to_table()
    names = [name for name in table.column_names if name != plan["label"]]
    words = [
        name
        for name in names
        if not (pa.types.is_integer(kind := table.schema.field(name).type) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))
    ]
    if words:
        raise SystemExit(f"the columns {', '.join(words[:5])} hold no numbers: encode them first")
    numbers = np.empty((table.num_rows, len(names)), plan["precision"])
    for place, name in enumerate(names):
        numbers[:, place] = table[name].to_numpy()
    return numbers, table[plan["label"]].to_numpy(zero_copy_only=False) if plan["label"] in table.column_names else None


def tells_classes(labels):
    """Whether labels are classes: whole numbers or words, and few of them."""
    return labels.dtype.kind in "iubUO" and len(np.unique(labels)) <= MOST_CLASSES


def numbered(labels):
    """Labels as numbers from 0, and what they stand for (None for figures)."""
    if not tells_classes(labels):
        return labels.astype(np.float64), None
    known, found = np.unique(labels, return_inverse=True)
    return found, known.tolist()


class Kept:
    """The newest state of a boosted model, on the disk whole or not at all."""

    def __init__(self, name):
        self.path, self.saved = KEPT / name, time.monotonic()
        KEPT.mkdir(parents=True, exist_ok=True)

    def after(self, save, rounds):
        """Whether to end here; keeps the model first where it is time."""
        if stop or time.monotonic() - self.saved >= plan["save_every_s"]:
            draft = self.path.with_name("draft-" + self.path.name)
            save(str(draft))
            draft.replace(self.path)
            self.saved = time.monotonic()
        print(json.dumps({"round": rounds}), flush=True)
        return bool(stop)


def xgboost_model(numbers, labels, classes):
    import xgboost

    kept, total = Kept(NAMES["xgboost"]), plan["trees"] or 100
    before = xgboost.Booster(model_file=str(kept.path)) if kept.path.exists() else None
    done = before.num_boosted_rounds() if before else 0
    goal = {"objective": "reg:squarederror"}
    if classes:
        goal = {"objective": "binary:logistic"} if len(classes) <= 2 else {"objective": "multi:softprob", "num_class": len(classes)}
    settings = {"tree_method": "hist", "device": "cuda" if plan["device"] == "gpu" else "cpu", "nthread": plan["threads"], **goal}
    settings |= {"max_depth": plan["depth"]} if plan["depth"] else {}

    class Keep(xgboost.callback.TrainingCallback):
        def after_iteration(self, model, epoch, evals_log):
            return kept.after(model.save_model, model.num_boosted_rounds())

    data = xgboost.QuantileDMatrix(numbers, labels, nthread=plan["threads"])
    print(json.dumps({"start": done, "total": total}), flush=True)
    found = xgboost.train(settings, data, total - done, xgb_model=before, callbacks=[Keep()])
    return found.save_model if found.num_boosted_rounds() >= total else None


def lightgbm_model(numbers, labels, classes):
    import lightgbm

    kept, total = Kept(NAMES["lightgbm"]), plan["trees"] or 100
    before = lightgbm.Booster(model_file=str(kept.path)) if kept.path.exists() else None
    done = before.current_iteration() if before else 0
    goal = {"objective": "regression"}
    if classes:
        goal = {"objective": "binary"} if len(classes) <= 2 else {"objective": "multiclass", "num_class": len(classes)}
    settings = {"device_type": "gpu" if plan["device"] == "gpu" else "cpu", "num_threads": plan["threads"], "verbosity": -1, **goal}
    settings |= {"deterministic": True, "force_row_wise": True, **({"max_depth": plan["depth"]} if plan["depth"] else {})}

    def keep(state):
        if kept.after(state.model.save_model, state.model.current_iteration()):
            raise lightgbm.callback.EarlyStopException(state.iteration, [])

    print(json.dumps({"start": done, "total": total}), flush=True)
    found = lightgbm.train(settings, lightgbm.Dataset(numbers, labels), total - done, init_model=before, callbacks=[keep])
    return found.save_model if found.current_iteration() >= total else None


def catboost_model(numbers, labels, classes):
    import catboost

    class Keep:
        def after_iteration(self, info):
            print(json.dumps({"round": info.iteration}), flush=True)
            return not stop

    kind = catboost.CatBoostClassifier if classes else catboost.CatBoostRegressor
    settings = {"thread_count": plan["threads"], "task_type": "GPU" if plan["device"] == "gpu" else "CPU", "train_dir": str(KEPT)}
    settings |= {name: plan[key] for name, key in (("iterations", "trees"), ("depth", "depth")) if plan[key]}
    KEPT.mkdir(parents=True, exist_ok=True)
    model = kind(
        save_snapshot=True, snapshot_file="snapshot", snapshot_interval=max(1, round(plan["save_every_s"])), verbose=False, **settings
    )
    model.fit(numbers, labels, **({"callbacks": [Keep()]} if plan["device"] == "cpu" else {}))
    return None if stop else model.save_model


def one_piece(numbers, labels, classes):
    """An estimator of scikit-learn or cuML with the plan's threads, trees and depth where it knows them."""
    module, _, name = plan["estimator" if classes or labels is None or not plan["regressor"] else "regressor"].rpartition(".")
    kind = getattr(importlib.import_module(module), name)
    known = inspect.signature(kind).parameters
    wished = {"n_estimators": plan["trees"], "max_depth": plan["depth"], "n_jobs": plan["threads"], "random_state": 0}
    model = kind(**{key: value for key, value in wished.items() if key in known and value is not None})
    model.fit(numbers) if labels is None else model.fit(numbers, labels)

    def save(path):
        with Path(path).open("wb") as file:
            pickle.dump(model, file)

    return save


def train():
    if core.is_whole(FINAL):
        print(json.dumps({"done": True}), flush=True)
        return
    began = time.monotonic()
    numbers, labels = read(files())
    if labels is None and plan["learns"]:
        raise SystemExit(f"the table has no column {plan['label']}, which says what is to be learnt")
    labels, classes = numbered(labels) if labels is not None and plan["learns"] else (None, None)
    own = {"xgboost": xgboost_model, "lightgbm": lightgbm_model, "catboost": catboost_model}
    save = own.get(plan["library"], one_piece)(numbers, labels, classes)
    if save is None:
        sys.exit(core.STOPPED)
    FINAL.mkdir(parents=True, exist_ok=True)
    save(str(FINAL / NAMES.get(plan["library"], "model.pickle")))
    about = {
        "plan": plan["plan"],
        "rows": len(numbers),
        "columns": numbers.shape[1],
        "classes": classes,
        "s": round(time.monotonic() - began, 3),
    }
    (FINAL / "about.json").write_text(json.dumps(about))
    core.mark_whole(FINAL)
    print(json.dumps({"rows": about["rows"], "s": about["s"]}), flush=True)


def scorer():
    """What gives scores of rows: the model that the setting "model" names."""
    path = core.local(plan["model"])
    if plan["library"] == "xgboost":
        import xgboost

        model = xgboost.Booster({"device": "cuda" if plan["device"] == "gpu" else "cpu", "nthread": plan["threads"]}, model_file=path)
        return model.inplace_predict
    if plan["library"] == "lightgbm":
        import lightgbm

        model = lightgbm.Booster(model_file=path)
        return lambda numbers: model.predict(numbers, num_threads=plan["threads"])
    if plan["library"] == "catboost":
        import catboost

        model = catboost.CatBoost().load_model(path)
        return lambda numbers: model.predict(numbers, thread_count=plan["threads"])
    with Path(path).open("rb") as file:
        return pickle.load(file).predict  # noqa: S301  the user's own model


def score():
    if not Path(core.local(plan["model"])).is_file():
        raise SystemExit(f"there is no model {plan['model']}: put the file there, or its address into run.json")
    folder, found = output / "results", None
    folder.mkdir(parents=True, exist_ok=True)
    chosen = files()
    for number, file in enumerate(chosen):
        part = folder / f"part-{number:06d}.parquet"
        if part.exists():
            continue
        if stop:
            sys.exit(core.STOPPED)
        found = found or scorer()
        scores = found(read([file])[0])
        columns = {"score": scores} if scores.ndim == 1 else {f"score_{place}": scores[:, place] for place in range(scores.shape[1])}
        pq.write_table(pa.table(columns), part.with_suffix(".part"))
        part.with_suffix(".part").replace(part)
        print(json.dumps({"part": number, "rows": len(scores)}), flush=True)
    core.mark_whole(folder)


train() if plan["job"] == "train" else score()
