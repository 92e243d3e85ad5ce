"""Train or fine-tune a text model as a rightfit plan says, in plain PyTorch. Usage: torchrun ... train.py train.json"""

import itertools
import json
import shutil
from pathlib import Path

import run_core as core
import torch
import train_loop as loop
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
)
from transformers.utils import ModelOutput

plan = loop.plan
classifies = plan["objective"] == "classification"
embeds = plan["objective"] == "embedding"
ranks = plan["objective"] == "reranking"
answers = plan["objective"] == "text-to-text"
TASKS = {"classification": "SEQ_CLS", "embedding": "FEATURE_EXTRACTION", "reranking": "SEQ_CLS", "text-to-text": "SEQ_2_SEQ_LM"}
CLASSES = {
    "classification": AutoModelForSequenceClassification,
    "embedding": AutoModel,
    "reranking": AutoModelForSequenceClassification,
    "text-to-text": AutoModelForSeq2SeqLM,
}
TEMPERATURE = 0.05
"""What similarities are divided by: sentence-transformers' own, whose scale is 20."""
POOLING = ("modules.json", "*sentence*.json", "*_Pooling/*", "*_Normalize/*")
"""Files beside the weights that tell sentence-transformers how vectors are made; without them it takes the mean of all tokens."""


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
        elif isinstance(row[0], str) and not getattr(tokenizer, "has_own_template", False):
            prompt = tokenizer(row[0])["input_ids"]
            ids, asked = [*prompt, *words(row[1]), tokenizer.eos_token_id], len(prompt)
        else:
            asks, answers = core.as_chat(dict(zip(columns, row, strict=True))).values()
            ids, asked = told([*asks, *answers]), len(told(asks, add_generation_prompt=True))
        yield ids, [-100] * asked + ids[asked:]


def load_data(tokenizer):
    """Blocks of the plan's length, or for classification the tokens of the column "text" with the "label"."""
    found, length = core.rows(plan), plan["seq_len"]
    if classifies:
        kept = [name for name in found.column_names if name != "label"]
        return found.map(lambda row: tokenizer(row["text"], truncation=True, max_length=length), batched=True, remove_columns=kept)

    if embeds:

        def both_texts(batch):
            return {name: tokenizer(batch[name], truncation=True, max_length=length)["input_ids"] for name in ("anchor", "positive")}

        return found.map(both_texts, batched=True, remove_columns=found.column_names)

    if ranks:

        def judged(batch):
            read = tokenizer(batch["query"], batch["text"], truncation=True, max_length=length)
            return {**read, "label": [float(value) for value in batch["label"]]}

        return found.map(judged, batched=True, remove_columns=[name for name in found.column_names if name != "label"])

    if answers:

        def both_sides(batch):
            read = tokenizer(batch["prompt"], truncation=True, max_length=length)
            written = tokenizer(text_target=batch["completion"], truncation=True, max_length=length)
            return {"input_ids": read["input_ids"], "labels": written["input_ids"]}

        def translated(row):
            tokenizer.src_lang, tokenizer.tgt_lang = known(row["source_language"]), known(row["target_language"])
            return both_sides(row)

        def known(language):
            token = getattr(tokenizer, "lang_code_to_token", {}).get(language, language)
            if token not in tokenizer.all_special_tokens:
                there = sorted(set(tokenizer.all_special_tokens) - {"<s>", "</s>", "<pad>", "<unk>", "<mask>"})
                raise SystemExit(f"the tokenizer knows no language {language!r}; it has {', '.join(there[:8])} ...")
            return language

        languages = "source_language" in plan["data_columns"][0]
        return found.map(translated if languages else both_sides, batched=not languages, remove_columns=found.column_names)

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

    def pairs(rows):
        return dict(tokenizer.pad({"input_ids": [row[name] for name in ("anchor", "positive") for row in rows]}, return_tensors="pt"))

    def scores(rows):
        batch = classes(rows)
        return {**batch, "labels": batch["labels"].float().unsqueeze(-1)}

    def sides(rows):
        longest = max(len(row["labels"]) for row in rows)
        labels = torch.tensor([row["labels"] + [-100] * (longest - len(row["labels"])) for row in rows])
        read = dict(tokenizer.pad({"input_ids": [row["input_ids"] for row in rows]}, return_tensors="pt"))
        if plan.get("first_sees_all"):
            read["global_attention_mask"] = torch.zeros_like(read["input_ids"])
            read["global_attention_mask"][:, 0] = 1
        return {**read, "labels": labels}

    return {"classification": classes, "embedding": pairs, "reranking": scores, "text-to-text": sides}.get(plan["objective"], causal)


def pooling_files():
    """The folder with what says how the model makes a vector of a text; one process of a server fetches them."""
    if Path(plan["model"]).is_dir():
        return Path(plan["model"])
    from huggingface_hub import snapshot_download

    return Path(snapshot_download(plan["model"], revision=plan.get("revision", "main"), allow_patterns=list(POOLING)))


def with_pairs(model):
    """The model with a forward pass that gives the loss of a batch of pairs: each anchor is to be nearer to its own text than to the others' texts.
    What does not make the vectors (the pooler of BERT) is not trained."""
    files = sorted(pooling_files().glob("*_Pooling/config.json"))
    told = json.loads(files[0].read_text()) if files else {}
    first, last = (told.get(f"pooling_mode_{name}", False) for name in ("cls_token", "lasttoken"))
    inner = model.forward
    for name, parameter in model.named_parameters():
        if ".pooler." in f".{name}":
            parameter.requires_grad_(False)

    def forward(input_ids, attention_mask):
        states = inner(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state.float()
        if first or last:
            places = torch.arange(attention_mask.shape[1], device=attention_mask.device)
            ranked = attention_mask * (places + 1 if last else len(places) - places)
            found = states[torch.arange(len(states), device=states.device), ranked.argmax(dim=1)]
        else:
            kept = attention_mask.unsqueeze(-1)
            found = (states * kept).sum(dim=1) / kept.sum(dim=1)
        anchors, texts = torch.nn.functional.normalize(found, dim=-1).chunk(2)
        nearness = anchors @ texts.T / TEMPERATURE
        return ModelOutput(loss=torch.nn.functional.cross_entropy(nearness, torch.arange(len(anchors), device=nearness.device)))

    model.forward = forward
    return model


def load_model(num_labels):
    """(Model, source of its weights), see train_loop.model_of."""
    kind = CLASSES.get(plan["objective"], AutoModelForCausalLM)
    extra = {"num_labels": num_labels} if classifies else {}
    if ranks:  # one score, and the loss of a judgement between 0 and 1
        extra = {"num_labels": 1, "problem_type": "multi_label_classification"}
    revision, told = plan.get("revision", "main"), {"attn_implementation": plan["attention"], **extra}

    def finished(model):
        model.config.use_cache = False
        found = loop.with_adapter(model, TASKS.get(plan["objective"], "CAUSAL_LM"))
        return with_pairs(found) if embeds else found

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
    tokenizer.has_own_template = bool(tokenizer.chat_template)
    tokenizer.chat_template = tokenizer.chat_template or core.CHAT
    rows = loop.first_alone(lambda: load_data(tokenizer))
    bare, source = load_model(len(set(rows["label"])) if classifies else 0)
    rows, held = core.split(rows, plan)
    bare.config.pad_token_id = tokenizer.pad_token_id

    def keep(folder, weights):
        loop.save_model(bare, folder, weights)
        tokenizer.save_pretrained(folder)
        for file in [file for pattern in POOLING for file in pooling_files().glob(pattern)] if embeds else []:
            place = Path(folder) / file.relative_to(pooling_files())
            place.parent.mkdir(exist_ok=True)
            shutil.copyfile(file, place)

    loop.train(bare, rows, collate(tokenizer), keep, source, held)


main()
