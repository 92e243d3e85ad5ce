"""Train or fine-tune a text model as a rightfit plan says, in plain PyTorch. Usage: torchrun ... train.py train.json"""

import itertools

import run_core as core
import torch
import train_loop as loop
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer

plan = loop.plan
classifies = plan["objective"] == "classification"


def load_data(tokenizer):
    """Tokens of the column "text": blocks of the plan's length, or for classification samples with their "label"."""
    found, length = core.rows(plan), plan["seq_len"]
    if classifies:
        kept = [name for name in found.column_names if name != "label"]
        return found.map(lambda row: tokenizer(row["text"], truncation=True, max_length=length), batched=True, remove_columns=kept)

    def blocks(batch):
        ids = list(itertools.chain.from_iterable([*tokenizer(text)["input_ids"], tokenizer.eos_token_id] for text in batch["text"]))
        return {"input_ids": [ids[start : start + length] for start in range(0, len(ids) - length + 1, length)]}

    return found.map(blocks, batched=True, batch_size=1000, remove_columns=found.column_names)


def collate(tokenizer):
    def causal(rows):
        ids = torch.tensor([row["input_ids"] for row in rows])
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids}

    def classes(rows):
        labels = torch.tensor([row.pop("label") for row in rows])
        return {**tokenizer.pad(rows, return_tensors="pt"), "labels": labels}

    return classes if classifies else causal


def load_model(num_labels):
    """(Model, source of its weights), see train_loop.model_of."""
    kind = AutoModelForSequenceClassification if classifies else AutoModelForCausalLM
    extra = {"num_labels": num_labels} if classifies else {}
    told = {"revision": plan.get("revision", "main"), "attn_implementation": plan["attention"], **extra}

    def finished(model):
        model.config.use_cache = False
        return loop.with_adapter(model, "SEQ_CLS" if classifies else "CAUSAL_LM")

    def empty():
        return finished(kind.from_config(AutoConfig.from_pretrained(plan["model"], **told), dtype=torch.float32))

    def whole(dtype):
        return empty() if plan["from_scratch"] else finished(kind.from_pretrained(plan["model"], dtype=dtype, **told))

    return loop.model_of(whole, empty)


def main():
    loop.start()
    tokenizer = AutoTokenizer.from_pretrained(plan["model"], revision=plan.get("revision", "main"))
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    rows = loop.first_alone(lambda: load_data(tokenizer))
    bare, source = load_model(len(set(rows["label"])) if classifies else 0)
    rows, held = core.split(rows, plan)
    bare.config.pad_token_id = tokenizer.pad_token_id

    def keep(folder, weights):
        loop.save_model(bare, folder, weights)
        tokenizer.save_pretrained(folder)

    loop.train(bare, rows, collate(tokenizer), keep, source, held)


main()
