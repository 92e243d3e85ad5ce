"""Train or fine-tune a text model as a rightfit plan says, in plain PyTorch. Usage: torchrun ... train.py train.json"""

import itertools

import run_core as core
import torch
import train_loop as loop
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer

plan = loop.plan
classifies = plan["objective"] == "classification"


def pieces(tokenizer, batch):
    """(Tokens, which of them are learnt) of each row: of a prompt with its completion, the completion alone."""

    def words(text):
        return tokenizer(text, add_special_tokens=False)["input_ids"]

    def told(messages, **further):
        return words(tokenizer.apply_chat_template(messages, tokenize=False, **further))

    columns = next(names for names in plan["data_columns"] if set(names) <= set(batch))
    for row in zip(*(batch[name] for name in columns), strict=True):
        if columns == ["text"]:
            ids, asked = [*tokenizer(row[0])["input_ids"], tokenizer.eos_token_id], 0
        elif columns == ["messages"]:
            ids, asked = told(row[0]), 0
        elif isinstance(row[0], str):
            prompt = tokenizer(row[0])["input_ids"]
            ids, asked = [*prompt, *words(row[1]), tokenizer.eos_token_id], len(prompt)
        else:
            ids, asked = told([*row[0], *row[1]]), len(told(row[0], add_generation_prompt=True))
        yield ids, [-100] * asked + ids[asked:]


def load_data(tokenizer):
    """Blocks of the plan's length, or for classification the tokens of the column "text" with the "label"."""
    found, length = core.rows(plan), plan["seq_len"]
    if classifies:
        kept = [name for name in found.column_names if name != "label"]
        return found.map(lambda row: tokenizer(row["text"], truncation=True, max_length=length), batched=True, remove_columns=kept)

    def blocks(batch):
        both = [list(itertools.chain.from_iterable(part)) for part in zip(*pieces(tokenizer, batch), strict=True)]
        if not plan["from_scratch"]:  # few rows may fill no block; what fills them up is not learnt
            short = -len(both[0]) % length
            both = [both[0] + [tokenizer.eos_token_id] * short, both[1] + [-100] * short]
        cut = [[part[start : start + length] for start in range(0, len(part) - length + 1, length)] for part in both]
        return dict(zip(("input_ids", "labels"), cut, strict=True))

    return found.map(blocks, batched=True, batch_size=1000, remove_columns=found.column_names)


def collate(tokenizer):
    def causal(rows):
        ids, labels = (torch.tensor([row[name] for row in rows]) for name in ("input_ids", "labels"))
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}

    def classes(rows):
        labels = torch.tensor([row.pop("label") for row in rows])
        return {**tokenizer.pad(rows, return_tensors="pt"), "labels": labels}

    return classes if classifies else causal


def load_model(num_labels):
    """(Model, source of its weights), see train_loop.model_of."""
    kind = AutoModelForSequenceClassification if classifies else AutoModelForCausalLM
    extra = {"num_labels": num_labels} if classifies else {}
    revision, told = plan.get("revision", "main"), {"attn_implementation": plan["attention"], **extra}

    def finished(model):
        model.config.use_cache = False
        return loop.with_adapter(model, "SEQ_CLS" if classifies else "CAUSAL_LM")

    def empty():
        return finished(kind.from_config(AutoConfig.from_pretrained(plan["model"], revision=revision, **told), dtype=torch.float32))

    def whole(dtype):
        if plan["from_scratch"]:
            return empty()
        return finished(kind.from_pretrained(plan["model"], revision=revision, dtype=dtype, **told))

    return loop.model_of(whole, empty)


def main():
    loop.start()
    tokenizer = AutoTokenizer.from_pretrained(plan["model"], revision=plan.get("revision", "main"))
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    tokenizer.chat_template = tokenizer.chat_template or core.CHAT
    rows = loop.first_alone(lambda: load_data(tokenizer))
    bare, source = load_model(len(set(rows["label"])) if classifies else 0)
    rows, held = core.split(rows, plan)
    bare.config.pad_token_id = tokenizer.pad_token_id

    def keep(folder, weights):
        loop.save_model(bare, folder, weights)
        tokenizer.save_pretrained(folder)

    loop.train(bare, rows, collate(tokenizer), keep, source, held)


main()
