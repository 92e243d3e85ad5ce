"""Train or fine-tune a YOLO as a rightfit plan says, with Ultralytics' own trainer. Usage: python train.py train.json

Rows have an "image" and "objects" with "bbox" (left, top, width, height in pixels) and "category"; they are written once as Ultralytics reads
them. The trainer keeps the last epoch; a new start goes on from it. Rows that are held out judge each epoch, and at the end the result
(evaluation.json). A folder with a data.yaml of Ultralytics' own form is taken as it is.
"""

import io
import json
from pathlib import Path

import run_core as core
from PIL import Image

plan = core.settings()
output = Path(plan["output"])
RUN = output / "run"


def opened(value, folder):
    """An image of a row: read already, bytes, or a file beside the data."""
    if isinstance(value, Image.Image):
        return value
    found = value if isinstance(value, dict) else {"path": value}
    return Image.open(io.BytesIO(found["bytes"]) if found.get("bytes") else folder / found["path"])


def lines_of(row, image):
    """The boxes of an image: kind, middle and sides as shares of the image's."""
    found = row["objects"]
    pairs = (
        zip(found["category"], found["bbox"], strict=True) if isinstance(found, dict) else ((one["category"], one["bbox"]) for one in found)
    )
    for kind, (left, top, width, height) in pairs:
        middle = ((left + width / 2) / image.width, (top + height / 2) / image.height)
        yield int(kind), f"{int(kind)} {middle[0]:.6f} {middle[1]:.6f} {width / image.width:.6f} {height / image.height:.6f}"


def put(rows, folder, part):
    """Images and boxes of rows as Ultralytics reads them; the kinds that there are."""
    (folder / "images" / part).mkdir(parents=True, exist_ok=True)
    (folder / "labels" / part).mkdir(parents=True, exist_ok=True)
    place = Path(core.local(plan["data"]))
    beside, kinds = place if place.is_dir() else place.parent, set()
    for number, row in enumerate(rows):
        image = opened(row["image"], beside).convert("RGB")
        image.save(folder / "images" / part / f"{number:09d}.jpg", quality=95)
        found = list(lines_of(row, image))
        kinds |= {kind for kind, _ in found}
        (folder / "labels" / part / f"{number:09d}.txt").write_text("\n".join(line for _, line in found))
    return kinds


def description():
    """The file that tells Ultralytics where the data are."""
    own = Path(core.local(plan["data"])) / "data.yaml"
    if own.is_file():
        return own
    folder = output / "data"
    written = folder / "data.yaml"
    if not written.exists():
        learnt, held = core.split(core.rows(plan), plan)
        kinds = put(learnt, folder, "train") | (put(held, folder, "val") if held is not None else set())
        names = {number: f"class {number}" for number in range(plan["classes"] or 1 + max(kinds, default=0))}
        told = {
            "path": str(folder.resolve()),
            "train": "images/train",
            "val": f"images/{'val' if held is not None else 'train'}",
            "names": names,
        }
        written.with_suffix(".part").write_text(json.dumps(told))  # YAML has JSON within it
        written.with_suffix(".part").replace(written)
    return written


def main():
    from ultralytics import YOLO

    data, last = description(), RUN / "weights" / "last.pt"
    if core.is_whole(output / "model"):
        print(json.dumps({"done": True}), flush=True)
        return
    name = plan["model"].removeprefix("ultralytics/")
    begun = last.exists()
    model = YOLO(str(last)) if begun else YOLO(name if Path(name).suffix else f"{name}.{'yaml' if plan['from_scratch'] else 'pt'}")
    cards = plan["cards"]
    batch = plan["micro_batch"] * max(1, len(cards))
    settings = {
        "data": str(data),
        "epochs": plan["epochs"],
        "imgsz": plan["size"],
        "batch": batch,
        "nbs": batch * plan["grad_accum"],
        "device": cards or "cpu",
        "workers": plan["workers"],
        "optimizer": plan["optimizer"],
        "amp": plan["precision"] in ("fp16", "bf16"),
        "pretrained": not plan["from_scratch"],
        "project": str(output.resolve()),
        "name": "run",
        "exist_ok": True,
        "plots": False,
    }
    if plan["method"] == "freeze":  # all layers but the last, which says what is where
        settings["freeze"] = len(model.model.model) - 1
    model.train(resume=begun, **settings)
    best = YOLO(str(RUN / "weights" / "best.pt"))
    figures = best.val(
        data=str(data),
        imgsz=plan["size"],
        device=(cards or ["cpu"])[0],
        plots=False,
        project=str(output.resolve()),
        name="val",
        exist_ok=True,
    )
    core.judged(output, figures.results_dict)
    (output / "model").mkdir(exist_ok=True)
    (output / "model" / "model.pt").write_bytes((RUN / "weights" / "best.pt").read_bytes())
    core.mark_whole(output / "model")


main()
