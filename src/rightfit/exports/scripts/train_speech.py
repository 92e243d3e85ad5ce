"""Train or fine-tune a speech recogniser as a rightfit plan says: one that writes (Whisper), or one that marks frames (CTC: wav2vec 2.0, HuBERT).
Usage: torchrun ... train.py train.json

Rows have "audio" (a file beside the data, or sound of a data set of the hub) and its "text".
"""

import io
import json
import math
from pathlib import Path

import numpy as np
import run_core as core
import soundfile
import train_loop as loop
from scipy.signal import resample_poly
from torch.utils.data import Dataset
from transformers import (
    AutoConfig,
    AutoFeatureExtractor,
    AutoModelForCTC,
    AutoModelForSpeechSeq2Seq,
    AutoTokenizer,
    Wav2Vec2CTCTokenizer,
)
from transformers.models.auto.modeling_auto import MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES

plan = loop.plan
IGNORED = -100


class Recordings(Dataset):
    """(sound, text) of each row, at the rate of the model."""

    def __init__(self, rows, rate):
        self.rows, self.rate = rows, rate
        place = Path(core.local(plan["data"]))
        self.folder = place if place.is_dir() else place.parent
        fitting = [number for number in range(len(rows)) if soundfile.info(self.source(number)).duration <= plan["longest_s"]]
        if len(fitting) < len(rows) and loop.rank == 0:
            print(json.dumps({"left_out": len(rows) - len(fitting), "longer_than_s": plan["longest_s"]}), flush=True)
        self.rows = rows.select(fitting)

    def __len__(self):
        return len(self.rows)

    def source(self, number):
        found = self.rows[number]["audio"]
        found = found if isinstance(found, dict) else {"path": found}
        return io.BytesIO(found["bytes"]) if found.get("bytes") else self.folder / found["path"]

    def __getitem__(self, number):
        row = self.rows[number]
        sound, rate = soundfile.read(self.source(number), dtype="float32")
        sound = sound.mean(axis=1) if sound.ndim > 1 else sound
        if rate != self.rate:
            common = math.gcd(rate, self.rate)
            sound = resample_poly(sound, self.rate // common, rate // common).astype(np.float32)
        return sound, row["text"]


def load_rows():
    from datasets import Audio

    rows = core.rows(plan)
    return rows.cast_column("audio", Audio(decode=False)) if isinstance(rows.features["audio"], Audio) else rows


def letters(rows, config):
    """A tokenizer of the letters of the texts, for a model that has none of its own."""
    found = sorted(set("".join(rows["text"]).replace(" ", "|")))
    words = {
        letter: number
        for number, letter in enumerate(["<pad>", "<s>", "</s>", "<unk>", *[letter for letter in found if letter != "|"], "|"])
    }
    path = Path(plan["output"], "letters.json")
    if loop.rank == 0:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(words))
    loop.dist.barrier()
    config.vocab_size, config.pad_token_id = len(words), words["<pad>"]
    return Wav2Vec2CTCTokenizer(str(path))


def main():
    loop.start()
    config = AutoConfig.from_pretrained(plan["model"], revision=plan.get("revision", "main"))
    writes = config.model_type in MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES
    kind = AutoModelForSpeechSeq2Seq if writes else AutoModelForCTC
    extractor = AutoFeatureExtractor.from_pretrained(plan["model"], revision=plan.get("revision", "main"))
    rows = loop.first_alone(load_rows)
    try:
        tokenizer = AutoTokenizer.from_pretrained(plan["model"], revision=plan.get("revision", "main"))
    except (OSError, ValueError, TypeError):
        if writes:
            raise
        tokenizer = letters(rows, config)
    if not writes:
        config.ctc_loss_reduction, config.ctc_zero_infinity = "mean", True
    model = (
        kind.from_config(config)
        if plan["from_scratch"]
        else kind.from_pretrained(plan["model"], revision=plan.get("revision", "main"), config=config, dtype=loop.kept_dtype())
    )
    model.config.use_cache = False
    if not writes and not plan["from_scratch"]:
        model.freeze_feature_encoder()

    def collate(samples):
        sounds, texts = zip(*samples, strict=True)
        # One that writes has every recording filled up to its one length.
        settings = {"padding": "max_length"} if writes else {"padding": True, "return_attention_mask": True}
        batch = dict(extractor(list(sounds), sampling_rate=extractor.sampling_rate, return_tensors="pt", **settings))
        limit = getattr(config, "max_target_positions", None) if writes else None
        words = tokenizer(list(texts), padding=True, return_tensors="pt", truncation=limit is not None, max_length=limit)
        labels = words["input_ids"].masked_fill(words["attention_mask"] == 0, IGNORED)
        # The model puts its own first word before the labels.
        start = getattr(config, "decoder_start_token_id", None)
        batch["labels"] = labels[:, 1:] if writes and (labels[:, 0] == start).all() else labels
        if writes:
            batch.pop("attention_mask", None)
        return batch

    def keep(folder, weights):
        loop.save_model(bare, folder, weights)
        extractor.save_pretrained(folder)
        tokenizer.save_pretrained(folder)

    bare = loop.with_adapter(model, whole=() if writes else ("lm_head",))
    learnt, held = core.split(rows, plan)
    judges = held and Recordings(held, extractor.sampling_rate)
    loop.train(bare, Recordings(learnt, extractor.sampling_rate), collate, keep, held=judges)


main()
