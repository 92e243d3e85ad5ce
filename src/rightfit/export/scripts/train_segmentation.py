"""Train or fine-tune a model that gives each pixel its class as a rightfit plan says: of Transformers (SegFormer, UPerNet ...) or of torchvision
(DeepLabV3, FCN, LR-ASPP). Usage: torchrun ... train.py train.json

Rows have an "image" and a "mask" (files beside the data, or images of a data set of the hub); a mask holds the number of the class of each
pixel, 255 where it does not count.
"""

import io
from pathlib import Path

import numpy as np
import run_core as core
import torch
import train_loop as loop
from PIL import Image
from torch.utils.data import Dataset

plan = loop.plan
IGNORED = 255
MEAN, DEVIATION = (
    np.array([0.485, 0.456, 0.406], np.float32),
    np.array([0.229, 0.224, 0.225], np.float32),
)  # of ImageNet, as the models had them
TORCHVISION = "torchvision/"


def opened(value, folder):
    """An image of a row: read already, bytes, or a file beside the data."""
    if isinstance(value, Image.Image):
        return value
    found = value if isinstance(value, dict) else {"path": value}
    return Image.open(io.BytesIO(found["bytes"]) if found.get("bytes") else folder / found["path"])


class Pictures(Dataset):
    """Image and mask of each row in the plan's size; every other one turned over, other ones in each epoch."""

    def __init__(self, rows):
        self.rows, self.epoch = rows, 0
        place = Path(core.local(plan["data"]))
        self.folder = place if place.is_dir() else place.parent

    def __len__(self):
        return len(self.rows)

    def mask(self, number):
        return np.asarray(opened(self.rows[number]["mask"], self.folder).resize(self.size, Image.Resampling.NEAREST), np.int64)

    @property
    def size(self):
        return plan["width"], plan["height"]

    def __getitem__(self, number):
        image = opened(self.rows[number]["image"], self.folder).convert("RGB").resize(self.size, Image.Resampling.BILINEAR)
        pixels, mask = (np.asarray(image, np.float32) / 255 - MEAN) / DEVIATION, self.mask(number)
        if (number + self.epoch) % 2:
            pixels, mask = pixels[:, ::-1], mask[:, ::-1]
        return torch.from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1))), torch.from_numpy(np.ascontiguousarray(mask))


class OfTorchvision(torch.nn.Module):
    """A model of torchvision that gives its loss, as those of Transformers do."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, pixel_values, labels):
        found = self.model(pixel_values)
        losses = {
            name: torch.nn.functional.cross_entropy(maps.float(), labels, ignore_index=IGNORED) for name, maps in found.items()
        }  # a second head counts half
        return loop.Result(losses["out"] + 0.5 * losses.get("aux", 0.0))


def load_model(classes):
    if plan["model"].startswith(TORCHVISION):
        from torchvision import models

        name = plan["model"].removeprefix(TORCHVISION)
        head = {"num_classes": classes, **({"aux_loss": True} if "lraspp" not in name else {})}
        backbone = {} if not plan["from_scratch"] else {"weights_backbone": None}
        return OfTorchvision(models.get_model(name, weights=None, **head, **backbone))
    from transformers import AutoConfig, AutoModelForSemanticSegmentation

    config = AutoConfig.from_pretrained(
        plan["model"], revision=plan.get("revision", "main"), num_labels=classes, semantic_loss_ignore_index=IGNORED
    )
    if plan["from_scratch"]:
        return AutoModelForSemanticSegmentation.from_config(config)
    return AutoModelForSemanticSegmentation.from_pretrained(
        plan["model"],
        revision=plan.get("revision", "main"),
        config=config,
        dtype=loop.kept_dtype(),
        ignore_mismatched_sizes=True,
    )


def main():
    loop.start()
    pictures = Pictures(loop.first_alone(lambda: core.rows(plan)))
    classes = plan["classes"] or 1 + max(int(mask[mask != IGNORED].max(initial=0)) for mask in map(pictures.mask, range(len(pictures))))
    learnt, held = core.split(pictures.rows, plan)
    model = load_model(classes)
    if plan["channels_last"]:
        model = model.to(memory_format=torch.channels_last)

    def collate(samples):
        pixels, masks = zip(*samples, strict=True)
        images = torch.stack(pixels)
        images = images.contiguous(memory_format=torch.channels_last) if plan["channels_last"] else images
        return {"pixel_values": images, "labels": torch.stack(masks)}

    bare = loop.with_adapter(model)

    def keep(folder, weights):
        if hasattr(bare, "save_pretrained"):
            loop.save_model(bare, folder, weights)
        else:
            folder.mkdir(parents=True, exist_ok=True)
            torch.save({name.removeprefix("model."): tensor for name, tensor in weights.items()}, folder / "model.pt")

    loop.train(bare, Pictures(learnt), collate, keep, held=held and Pictures(held))


main()
