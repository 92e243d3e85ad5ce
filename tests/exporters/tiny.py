"""A text model and data small enough to train on a processor in seconds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SMALL: dict[str, Any] = {
    "seq_len": 64,
    "micro_batch": 2,
    "grad_accum": 2,
    "precision": "fp32",
    "attention": "sdpa",
    "optimizer": "adamw_torch",
    "workers": 0,
    "save_every_s": 0,
}


def make_tokenizer(folder: Path) -> int:
    """A tokenizer of bytes; the size of its vocabulary."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: number for number, letter in enumerate([*alphabet, "</s>"])}, []))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    told = {"eos_token": "</s>", "pad_token": "</s>", "model_input_names": ["input_ids", "attention_mask"]}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **told).save_pretrained(folder)
    return len(alphabet) + 1


def make_llama(folder: Path, **further: int) -> Path:
    """A Llama of 30,000 parameters, or of other sizes."""
    from transformers import LlamaConfig, LlamaForCausalLM

    vocabulary = make_tokenizer(folder)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    LlamaForCausalLM(LlamaConfig(vocab_size=vocabulary, max_position_embeddings=128, **sizes | further)).save_pretrained(folder)
    return folder


def make_bert(folder: Path) -> Path:
    """A BERT of as many."""
    from transformers import BertConfig, BertForMaskedLM

    vocabulary = make_tokenizer(folder)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    BertForMaskedLM(BertConfig(vocab_size=vocabulary, max_position_embeddings=128, **sizes)).save_pretrained(folder)
    return folder


def make_t5(folder: Path) -> Path:
    """A T5 of as many."""
    from transformers import T5Config, T5ForConditionalGeneration

    vocabulary = make_tokenizer(folder)
    sizes = {"d_model": 32, "d_ff": 64, "d_kv": 8, "num_layers": 2, "num_heads": 4}
    told = {"decoder_start_token_id": vocabulary - 1, "pad_token_id": vocabulary - 1, "eos_token_id": vocabulary - 1}
    T5ForConditionalGeneration(T5Config(vocab_size=vocabulary, **sizes, **told)).save_pretrained(folder)
    return folder


def make_nllb(folder: Path) -> Path:
    """An NLLB of as many, whose tokenizer knows two languages."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import M2M100Config, M2M100ForConditionalGeneration, NllbTokenizerFast

    folder.mkdir(exist_ok=True)
    words = {word: number for number, word in enumerate(["<s>", "<pad>", "</s>", "<unk>", *"abcdefghijklmnopqrstuvwxyz0123456789▁"])}
    tokenizer = Tokenizer(models.BPE(words, [], unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.save(str(folder / "tokenizer.json"))
    own = NllbTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), additional_special_tokens=["eng_Latn", "fra_Latn"])
    own.save_pretrained(folder)
    sizes = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
    told = {"vocab_size": len(own), "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 128}
    still = {"dropout": 0.0, "attention_dropout": 0.0, "encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0}
    tokens = {"decoder_start_token_id": 2, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
    M2M100ForConditionalGeneration(M2M100Config(**sizes, **told, **tokens, **still)).save_pretrained(folder)
    return folder


def make_led(folder: Path) -> Path:
    """An LED of as many, which sees eight tokens to each side and all from the first."""
    from transformers import LEDConfig, LEDForConditionalGeneration

    words = make_tokenizer(folder)
    sizes = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
    told = {"encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_encoder_position_embeddings": 128, "max_decoder_position_embeddings": 64}
    still = {"dropout": 0.0, "attention_dropout": 0.0, "encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0}
    tokens = dict.fromkeys(("decoder_start_token_id", "pad_token_id", "bos_token_id", "eos_token_id"), words - 1)
    LEDForConditionalGeneration(LEDConfig(vocab_size=words, attention_window=8, **sizes, **told, **tokens, **still)).save_pretrained(folder)
    return folder


def make_data(path: Path, *, samples: int = 64) -> Path:
    """JSON lines with a text, its class, and the same as a conversation."""

    def row(number: int) -> dict[str, Any]:
        text = f"number {number} is followed by {number + 1}. " * 4
        return {"text": text, "label": number % 3}

    path.write_text("\n".join(json.dumps(row(number)) for number in range(samples)), encoding="utf-8")
    return path


def environment(folder: Path, **further: str) -> dict[str, str]:
    """No network, no accelerator, one thread a process."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "ACCELERATE_", "PYTORCH_"))}
    fixed = {"HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "PYTHONPATH": "", "HF_HOME": str(folder / "hf")}
    return {**kept, **fixed, "PATH": f"{Path(sys.executable).parent}:{kept['PATH']}", **further}


def run(command: Sequence[str], folder: Path, *, timeout_s: float = 300, further: Mapping[str, str] | None = None) -> str:
    """What a command prints; its errors where it fails."""
    ran = subprocess.run(
        list(command),
        cwd=folder,
        capture_output=True,
        text=True,
        env=environment(folder, **(further or {})),
        check=False,
        timeout=timeout_s,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    return ran.stdout + ran.stderr


def torchrun(processes: int) -> list[str]:
    """What starts a script in several processes."""
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(processes)]
