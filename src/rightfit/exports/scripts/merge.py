"""Put the trained adapter into its base model, on the processor. Usage: python merge.py train.json [FOLDER]

Reads the adapter where the run left it, writes the whole model to the folder "merged" beside it, and does nothing where that is whole already.
"""

import sys
from pathlib import Path

import run_core as core
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer

plan = core.settings()
output = Path(sys.argv[2] if len(sys.argv) > 2 else plan["output"])
adapter = next((folder for folder in (output, output / "model") if (folder / "adapter_config.json").exists()), None)
merged = output / "merged"


def main():
    if core.is_whole(merged):
        return
    if adapter is None:
        raise SystemExit(f"{output} holds no adapter: the run has not ended, or trained the whole model")
    scores = plan.get("objective") == "reward"
    kind = AutoModelForSequenceClassification if scores else AutoModelForCausalLM
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(plan["precision"], torch.float32)
    base = kind.from_pretrained(
        plan["model"], revision=plan.get("revision", "main"), dtype=dtype, low_cpu_mem_usage=True, **({"num_labels": 1} if scores else {})
    )
    PeftModel.from_pretrained(base, str(adapter)).merge_and_unload().save_pretrained(merged)
    told = adapter if (adapter / "tokenizer_config.json").exists() else plan["model"]
    AutoTokenizer.from_pretrained(str(told), revision=plan.get("revision", "main")).save_pretrained(merged)
    core.mark_whole(merged)


main()
