"""Train or fine-tune a model that finds things in images as a rightfit plan says: of Transformers (DETR, RT-DETR, YOLOS ...) or of torchvision
(Faster R-CNN, RetinaNet, FCOS, SSD). Usage: torchrun ... train.py train.json

Rows have an "image" (a file beside the data, or an image of a data set of the hub) and "objects": their "bbox" (left, top, width, height in
pixels, as COCO has them) and "category" (numbers from 0).
"""

import numpy as np
import run_core as core
import torch
import train_loop as loop
import train_pictures as pictures

plan = loop.plan
OF_TORCHVISION = ("box_predictor", "head")
HEADS = (
    "class_labels_classifier",
    "bbox_predictor",
    "class_embed",
    "bbox_embed",
    "enc_score_head",
    "enc_bbox_head",
    "denoising_class_embed",
)
"""The parts of detectors that say what is where: all that learns where the rest is frozen."""
LEAST_SIDE = 1.0  # pixels: thinner boxes are slips of whoever drew them


def boxes_of(row):
    """(Corners of the boxes in pixels, their categories) of a row; "objects" is one of lists, or a list of ones."""
    found = row["objects"]
    drawn, kinds = (
        (found["bbox"], found["category"]) if isinstance(found, dict) else ([one[name] for one in found] for name in ("bbox", "category"))
    )
    corners = np.asarray(drawn, np.float32).reshape(-1, 4).copy()
    corners[:, 2:] += corners[:, :2]
    return corners, np.asarray(kinds, np.int64)


class Scenes(pictures.Pictures):
    """Image, boxes and their kinds of each row in the plan's size."""

    def __getitem__(self, number):
        image = self.opened(number)
        width, height = pictures.size
        corners, kinds = boxes_of(self.rows[number])
        corners *= np.array([width / image.width, height / image.height] * 2, np.float32)
        corners = corners.clip(0, np.array([width, height] * 2, np.float32))
        kept = ((corners[:, 2:] - corners[:, :2]) >= LEAST_SIDE).all(1)
        corners, kinds = corners[kept], kinds[kept]
        pixels = pictures.pixels_of(image)
        if self.turned(number):
            turn = np.array([-1, 1, -1, 1], np.float32), np.array([width, 0, width, 0], np.float32)
            pixels, corners = pixels[:, ::-1], corners[:, [2, 1, 0, 3]] * turn[0] + turn[1]
        pixels = pixels if pictures.of_torchvision else (pixels - pictures.MEAN) / pictures.DEVIATION
        return pictures.tensor(pixels), torch.from_numpy(corners.copy()), torch.from_numpy(kinds)


class OfTorchvision(torch.nn.Module):
    """A detector of torchvision that gives its loss, as those of Transformers do."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, images, targets):
        return loop.Result(sum(self.model(images, targets).values()))


def load_of_torchvision(classes):
    """With the published weights of whatever has the same shape: the heads for other classes begin anew."""
    from torchvision import models

    name = pictures.name_there
    sizes = (
        {} if name.startswith("ssd") else {"min_size": min(plan["height"], plan["width"]), "max_size": max(plan["height"], plan["width"])}
    )
    model = models.get_model(name, weights=None, weights_backbone=None, num_classes=classes + 1, **sizes)
    if not plan["from_scratch"]:
        own, published = model.state_dict(), models.get_model_weights(name).DEFAULT.get_state_dict(progress=False)
        model.load_state_dict({key: part for key, part in published.items() if key in own and own[key].shape == part.shape}, strict=False)
    return OfTorchvision(model)


def load_model(classes):
    if pictures.of_torchvision:
        return load_of_torchvision(classes)
    from transformers import AutoConfig, AutoModelForObjectDetection

    revision = plan.get("revision", "main")
    if plan["from_scratch"]:
        return AutoModelForObjectDetection.from_config(AutoConfig.from_pretrained(plan["model"], revision=revision, num_labels=classes))
    return AutoModelForObjectDetection.from_pretrained(
        plan["model"], revision=revision, num_labels=classes, dtype=loop.kept_dtype(), ignore_mismatched_sizes=True
    )


def collate(samples):
    pixels, corners, kinds = zip(*samples, strict=True)
    if pictures.of_torchvision:  # 0 is the ground
        return {"images": list(pixels), "targets": [{"boxes": box, "labels": kind + 1} for box, kind in zip(corners, kinds, strict=True)]}
    size = torch.tensor([plan["width"], plan["height"]] * 2)
    middles = [torch.cat([box[:, :2] + box[:, 2:], 2 * (box[:, 2:] - box[:, :2])], 1) / 2 / size for box in corners]
    return {
        "pixel_values": torch.stack(pixels),
        "labels": [{"boxes": box, "class_labels": kind} for box, kind in zip(middles, kinds, strict=True)],
    }


def main():
    loop.start()
    rows = loop.first_alone(lambda: core.rows(plan))
    classes = plan["classes"] or 1 + max(int(boxes_of(row)[1].max(initial=0)) for row in rows.select_columns("objects"))
    learnt, held = core.split(rows, plan)
    bare = loop.with_adapter(load_model(classes), whole=OF_TORCHVISION if pictures.of_torchvision else HEADS)

    plan["judged_as_learning"] = pictures.of_torchvision
    loop.train(bare, Scenes(learnt), collate, pictures.keeper(bare), held=held and Scenes(held))


main()
