"""Train or fine-tune a model that gives each pixel its class as a rightfit plan says: of Transformers (SegFormer, UPerNet ...) or of torchvision
(DeepLabV3, FCN, LR-ASPP). Usage: torchrun ... train.py train.json

Rows have an "image" and a "mask" (files beside the data, or images of a data set of the hub); a mask holds the number of the class of each
pixel, 255 where it does not count.
"""

import numpy as np
import run_core as core
import torch
import train_loop as loop
import train_pictures as pictures
from PIL import Image

plan = loop.plan
IGNORED = 255


class Masked(pictures.Pictures):
    """Image and mask of each row in the plan's size."""

    def mask(self, number):
        return np.asarray(self.opened(number, "mask").resize(pictures.size, Image.Resampling.NEAREST), np.int64)

    def __getitem__(self, number):
        pixels, mask = (pictures.pixels_of(self.opened(number)) - pictures.MEAN) / pictures.DEVIATION, self.mask(number)
        if self.turned(number):
            pixels, mask = pixels[:, ::-1], mask[:, ::-1]
        return pictures.tensor(pixels), torch.from_numpy(np.ascontiguousarray(mask))


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
    if pictures.of_torchvision:
        from torchvision import models

        name = pictures.name_there
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
    rows = Masked(loop.first_alone(lambda: core.rows(plan)))
    classes = plan["classes"] or 1 + max(int(mask[mask != IGNORED].max(initial=0)) for mask in map(rows.mask, range(len(rows))))
    learnt, held = core.split(rows.rows, plan)
    model = load_model(classes)
    if plan["channels_last"]:
        model = model.to(memory_format=torch.channels_last)

    def collate(samples):
        pixels, masks = zip(*samples, strict=True)
        images = torch.stack(pixels)
        images = images.contiguous(memory_format=torch.channels_last) if plan["channels_last"] else images
        return {"pixel_values": images, "labels": torch.stack(masks)}

    heads = ("classifier", "aux_classifier") if pictures.of_torchvision else ("decode_head", "auxiliary_head", "class_predictor")
    bare = loop.with_adapter(model, whole=heads)
    loop.train(bare, Masked(learnt), collate, pictures.keeper(bare), held=held and Masked(held))


main()
