"""What the programs share that learn from pictures: rows as pixels in the plan's size, and what is kept of a model. Imported by the train.py
beside it."""

import io
from pathlib import Path

import numpy as np
import run_core as core
import torch
import train_loop as loop
from PIL import Image
from torch.utils.data import Dataset

plan = loop.plan
TORCHVISION = "torchvision/"
of_torchvision = plan["model"].startswith(TORCHVISION)
name_there = plan["model"].removeprefix(TORCHVISION)
size = plan["width"], plan["height"]
MEAN, DEVIATION = np.array([0.485, 0.456, 0.406], np.float32), np.array([0.229, 0.224, 0.225], np.float32)  # of ImageNet


def opened(value, folder):
    """An image of a row: read already, bytes, or a file beside the data."""
    if isinstance(value, Image.Image):
        return value
    found = value if isinstance(value, dict) else {"path": value}
    return Image.open(io.BytesIO(found["bytes"]) if found.get("bytes") else folder / found["path"])


def tensor(pixels):
    """Height x width x colours as torch has them."""
    return torch.from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1)))


class Pictures(Dataset):
    """Rows with images; every other one turned over, other ones in each epoch."""

    def __init__(self, rows):
        self.rows, self.epoch = rows, 0
        place = Path(core.local(plan["data"]))
        self.folder = place if place.is_dir() else place.parent

    def __len__(self):
        return len(self.rows)

    def opened(self, number, column="image"):
        return opened(self.rows[number][column], self.folder)

    def turned(self, number):
        return bool((number + self.epoch) % 2)


def pixels_of(image):
    """An image in the plan's size, each colour from 0 to 1."""
    return np.asarray(image.convert("RGB").resize(size, Image.Resampling.BILINEAR), np.float32) / 255


def keeper(bare):
    """What writes the finished model: as Transformers has it, or the weights of torchvision's own."""

    def keep(folder, weights):
        if hasattr(bare, "save_pretrained"):
            loop.save_model(bare, folder, weights)
        else:
            folder.mkdir(parents=True, exist_ok=True)
            torch.save({name.removeprefix("model."): part for name, part in weights.items()}, folder / "model.pt")

    return keep
