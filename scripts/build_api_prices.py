"""Write facts/data/api_prices.csv: the rows that stand in it with their own source, and those of a
snapshot of published token prices.

Usage: python scripts/build_api_prices.py MODEL_PRICES_JSON AS_OF SOURCE MODEL_PRICES_JSON is
LiteLLM's table (model_prices_and_context_window.json) or a copy of it; AS_OF its date, SOURCE the
words that name it. Only open models at providers that name them by hub id are taken, so that no
name has to be guessed.
"""

from __future__ import annotations

import csv
import json
import re
import sys
from pathlib import Path

TABLE = Path(__file__).parent.parent / "src/rightfit/facts/data/api_prices.csv"
PROVIDERS = {"deepinfra": "DeepInfra", "together_ai": "Together AI", "hyperbolic": "Hyperbolic"}
OPEN = re.compile(
    r"^(meta-llama|mistralai|Qwen|deepseek-ai|google/(gemma|codegemma)|microsoft/[Pp]hi|openai/gpt-oss|OpenAI/gpt-oss|01-ai|zai-org|moonshotai)"
)
SPECIAL = re.compile(r"guard|vision|vl|qvq|ocr|prover|turbo-free|multimodal", re.IGNORECASE)


def main(path: str, as_of: str, source: str) -> None:
    """Keep the rows of other sources, replace those of this one."""
    with TABLE.open(encoding="utf-8") as stream:
        reader = csv.DictReader(stream)
        header, kept = list(reader.fieldnames or ()), [row for row in reader if row["source"] != source]
    for key, value in json.loads(Path(path).read_text(encoding="utf-8")).items():
        provider, _, model = key.partition("/")
        prices = [value.get(f"{side}_cost_per_token") for side in ("input", "output")]
        if provider in PROVIDERS and OPEN.match(model) and not SPECIAL.search(model) and value.get("mode") == "chat" and all(prices):
            each = [f"{price * 1e6:.6g}" for price in prices]
            kept.append(dict(zip(header, (model, PROVIDERS[provider], *each, "", as_of, source, ""), strict=True)))
    with TABLE.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, header, lineterminator="\n")
        writer.writeheader()
        writer.writerows(kept)


if __name__ == "__main__":
    main(*sys.argv[1:4])
