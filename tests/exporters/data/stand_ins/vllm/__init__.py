"""Stands in for vLLM, which wants a card: the same names and arguments, one prompt after the
other by Transformers."""

import json
import os
import time
from types import SimpleNamespace

KNOWN = {
    *("tensor_parallel_size", "pipeline_parallel_size", "max_num_seqs", "max_model_len", "dtype", "quantization", "kv_cache_dtype"),
    *("enable_expert_parallel", "speculative_config", "enable_lora", "max_loras", "max_lora_rank", "kv_transfer_config"),
}
"""Arguments of vLLM's LLM that exports may name."""


class SamplingParams:
    def __init__(self, *, max_tokens, temperature):
        self.max_tokens, self.temperature = max_tokens, temperature


class LLM:
    def __init__(self, model, **settings):
        from transformers import AutoModelForCausalLM, AutoTokenizer

        if unknown := set(settings) - KNOWN:
            raise TypeError(f"vLLM has no {unknown}")
        print(json.dumps({"cards": os.environ.get("CUDA_VISIBLE_DEVICES", "")}), flush=True)
        self.tokenizer, self.model = AutoTokenizer.from_pretrained(model), AutoModelForCausalLM.from_pretrained(model)

    def generate(self, prompts, params):
        time.sleep(float(os.environ.get("STAND_IN_S", "0")))
        return [self.answer(prompt, params) for prompt in prompts]

    def answer(self, prompt, params):
        words = self.tokenizer(prompt, return_tensors="pt")
        limits = {"max_new_tokens": params.max_tokens, "min_new_tokens": params.max_tokens, "do_sample": False}
        found = self.model.generate(words["input_ids"], attention_mask=words["attention_mask"], **limits)[0][words["input_ids"].shape[1] :]
        return SimpleNamespace(outputs=[SimpleNamespace(text=self.tokenizer.decode(found), token_ids=found.tolist())])
