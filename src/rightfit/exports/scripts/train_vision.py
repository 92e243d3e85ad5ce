"""Train or fine-tune a model that tells what is in an image as a rightfit plan says: one that names its class (ViT, DINOv2, ConvNeXt ..., of
Transformers or timm), or one that puts images and their texts side by side (CLIP, SigLIP). Usage: torchrun ... train.py train.json

Rows have an "image" (a file beside the data, or an image of a data set of the hub) and its "label" (a name or a number), or its "text".
Of images and texts, those that lie in one micro-batch of a process are told apart.
"""

import numpy as np
import run_core as core
import torch
import train_loop as loop
import train_pictures as pictures
from torch.nn.functional import cross_entropy

plan = loop.plan
TIMM = "timm/"
of_timm = plan["model"].startswith(TIMM)
BOTH = ["visual_projection", "text_projection", "head", "logit_scale", "logit_bias"]
LONGEST_TEXT = 77  # of CLIP; a model's own limit comes first


class OfTimm(torch.nn.Module):
    """A model of timm that gives its loss, as those of Transformers do."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, pixel_values, labels):
        return loop.Result(cross_entropy(self.model(pixel_values).float(), labels))

    def gradient_checkpointing_enable(self, **_):
        self.model.set_grad_checkpointing()


class Rows(pictures.Pictures):
    """(Pixels, class or text) of each row."""

    def __init__(self, rows, look, answers):
        super().__init__(rows)
        self.look, self.answers = look, answers

    def __getitem__(self, number):
        mean, deviation, size = self.look
        image = self.opened(number).convert("RGB").resize(size, pictures.Image.Resampling.BICUBIC)
        pixels = (np.asarray(image, np.float32) / 255 - mean) / deviation
        if self.answers is None:  # a text may say left and right
            return pictures.tensor(pixels), self.rows[number]["text"]
        return pictures.tensor(pixels[:, ::-1] if self.turned(number) else pixels), self.answers[self.rows[number]["label"]]


def classes_of(rows):
    """Label of a row -> number of its class, in the order of the data set's names."""
    names = getattr(rows.features["label"], "names", None)
    return (
        {number: number for number in range(len(names))}
        if names
        else {name: number for number, name in enumerate(sorted(set(rows["label"])))}
    )


def look_of(config):
    """Mean and deviation of the colours, and the size of an image: the plan's, or the model's own."""
    if of_timm:
        given = config
        mean, deviation, own = given["mean"], given["std"], given["input_size"][1:]
    else:
        from transformers import AutoImageProcessor

        processor = AutoImageProcessor.from_pretrained(plan["model"], revision=plan.get("revision", "main"))
        sizes = dict(getattr(processor, "crop_size", None) or {}) or dict(processor.size)
        side = sizes.get("shortest_edge") or 0
        mean, deviation, own = processor.image_mean, processor.image_std, (sizes.get("height") or side, sizes.get("width") or side)
    height, width = plan["height"] or own[0], plan["width"] or own[1]
    return np.array(mean, np.float32), np.array(deviation, np.float32), (int(width), int(height))


def load_timm(classes):
    """(The model, its own settings of images, the names of its head.)"""
    import timm

    name, sizes = plan["model"].removeprefix(TIMM), {"img_size": (plan["height"], plan["width"])} if plan["height"] else {}
    try:
        model = timm.create_model(name, pretrained=not plan["from_scratch"], num_classes=classes, **sizes)
    except TypeError:  # networks of convolutions take images of any size
        model = timm.create_model(name, pretrained=not plan["from_scratch"], num_classes=classes)
    if plan["method"] != "full":
        model = model.to(loop.kept_dtype())
    return OfTimm(model), model.pretrained_cfg, heads_of(model)


def load_hub(classes, names):
    """(The model, its settings, the names of its head.) `classes` is None where images and texts are put side by side."""
    from transformers import AutoConfig, AutoModel, AutoModelForImageClassification

    revision = plan.get("revision", "main")
    more = (
        {} if classes is None else {"num_labels": classes, "id2label": names, "label2id": {name: number for number, name in names.items()}}
    )
    config = AutoConfig.from_pretrained(plan["model"], revision=revision, **more)
    kind = AutoModel if classes is None else AutoModelForImageClassification
    if plan["from_scratch"]:
        model = kind.from_config(config)
    else:
        loose = {} if classes is None else {"ignore_mismatched_sizes": True}
        model = kind.from_pretrained(plan["model"], config=config, dtype=loop.kept_dtype(), revision=revision, **loose)
    return model, config, heads_of(model)


def heads_of(model):
    """The last layer of a classifier, which is new and learns whole; of images beside texts what puts both into one space, where nothing else learns."""
    if plan["texts"]:
        return BOTH if plan["method"] == "freeze" else []
    return [name for name in ("classifier", "cls_classifier", "distillation_classifier", "head", "fc", "score") if hasattr(model, name)]


def main():
    loop.start()
    rows = loop.first_alone(lambda: core.rows(plan))
    answers = None if plan["texts"] else classes_of(rows)
    named = getattr(rows.features.get("label"), "names", None)
    names = {number: str(named[number] if named else name) for name, number in (answers or {}).items()}
    classes = None if answers is None else len(answers)
    model, config, heads = load_timm(classes) if of_timm else load_hub(classes, names)
    look = look_of(config)
    if plan["channels_last"]:
        model = model.to(memory_format=torch.channels_last)
    tokenizer = None
    if plan["texts"]:
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(plan["model"], revision=plan.get("revision", "main"))
        limit = getattr(config.text_config, "max_position_embeddings", LONGEST_TEXT)
    own = 0 if of_timm else getattr(getattr(config, "vision_config", config), "image_size", 0)
    own = own if isinstance(own, int) else max(own)
    scaled = {"interpolate_pos_encoding": True} if own and own != max(look[2]) else {}

    def collate(samples):
        pixels, found = zip(*samples, strict=True)
        images = torch.stack(pixels)
        images = images.contiguous(memory_format=torch.channels_last) if plan["channels_last"] else images
        if tokenizer is None:
            return {"pixel_values": images, "labels": torch.tensor(found), **scaled}
        # SigLIP learnt with texts filled up to one length, without a mask.
        filled = "max_length" if config.model_type.startswith("siglip") else True
        words = dict(tokenizer(list(found), padding=filled, truncation=True, max_length=limit, return_tensors="pt"))
        words = {name: values for name, values in words.items() if name == "input_ids" or (name == "attention_mask" and filled is True)}
        return {"pixel_values": images, **words, "return_loss": True, **scaled}

    def keep(folder, weights):
        if of_timm and plan["method"] in ("full", "freeze"):
            folder.mkdir(parents=True, exist_ok=True)
            torch.save({name.removeprefix("model."): part for name, part in weights.items()}, folder / "model.pt")
        else:
            loop.save_model(bare, folder, weights)
        if of_timm:
            (folder / "classes.json").write_text(loop.json.dumps(names))
        else:
            from transformers import AutoImageProcessor

            AutoImageProcessor.from_pretrained(plan["model"], revision=plan.get("revision", "main")).save_pretrained(folder)
        if tokenizer is not None:
            tokenizer.save_pretrained(folder)

    bare = loop.with_adapter(model, whole=heads)
    learnt, held = core.split(rows, plan)
    loop.train(bare, Rows(learnt, look, answers), collate, keep, held=held and Rows(held, look, answers))


main()
