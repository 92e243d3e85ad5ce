"""Write facts/data/api_prices.csv from a snapshot of published token prices.

Usage: python scripts/build_api_prices.py MODEL_PRICES_JSON AS_OF SOURCE

MODEL_PRICES_JSON is LiteLLM's table (model_prices_and_context_window_backup.json of its wheel, MIT
license), AS_OF the date of the wheel, SOURCE the words that name it. The rows of a seller that the
snapshot lists are replaced as a whole, so that what a seller has dropped is gone; rows of other
sellers stay until they are half a year older than the snapshot. A model keeps the cheapest of its
regions. Prices that the snapshot says have ended by AS_OF are left out.
"""

from __future__ import annotations

import csv
import datetime
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TABLE = Path(__file__).parent.parent / "src/rightfit/facts/data/api_prices.csv"
HEADER = [
    "model",
    "provider",
    "input_usd_per_million",
    "output_usd_per_million",
    "cached_input_usd_per_million",
    "quantization",
    "as_of",
    "source",
    "note",
]
LONGEST_DAYS = 180
#: Names of LiteLLM's providers: sellers of models whose weights are open. Lambda, whose prices the
#: table still has, ended its API in 2025.
SELLERS = {
    "azure_ai": "Azure AI Foundry",
    "baseten": "Baseten",
    "bedrock": "AWS Bedrock",
    "bedrock_converse": "AWS Bedrock",
    "cerebras": "Cerebras",
    "cloudflare": "Cloudflare",
    "crusoe": "Crusoe",
    "dashscope": "Alibaba",
    "databricks": "Databricks",
    "deepinfra": "DeepInfra",
    "deepseek": "DeepSeek",
    "fireworks_ai": "Fireworks",
    "friendliai": "FriendliAI",
    "gmi": "GMI",
    "groq": "Groq",
    "hyperbolic": "Hyperbolic",
    "minimax": "MiniMax",
    "mistral": "Mistral",
    "moonshot": "Moonshot",
    "nebius": "Nebius Token Factory",
    "novita": "Novita",
    "nscale": "Nscale",
    "oci": "OCI",
    "ovhcloud": "OVHcloud",
    "sambanova": "SambaNova",
    "scaleway": "Scaleway",
    "tencent": "Tencent",
    "together_ai": "Together AI",
    "vertex_ai": "Google Vertex AI",
    "wandb": "W&B Inference",
    "watsonx": "IBM watsonx",
    "zai": "Z.ai",
}
#: Models whose weights nobody can download; the sellers above list them beside the open ones.
CLOSED = re.compile(
    r"claude|gpt-\d|qwen-(max|plus|turbo|coder|vl-)|command-(light-)?text|gemini|nova-|titan|palm|grok-(?![12])|o[134](-|$)|jurassic|j2-",
    re.IGNORECASE,
)
#: Areas before the name of a model of AWS Bedrock.
_AREA = re.compile(r"^(us|eu|apac|au|jp|ca|global|us-gov)\.")
_MAKER = re.compile(r"^(meta|mistral|qwen|openai|deepseek|moonshot|moonshotai|minimax|zai|nvidia|google|cohere|ai21|writer)\.")


def plain_name(key: str, seller: str) -> str:
    """A model's name as its maker writes it, from a seller's key."""
    name = key.split("/", 1)[1] if "/" in key else key
    if seller == "Fireworks":
        name = re.sub(r"(?<=\d)p(?=\d)", ".", name.rsplit("/", 1)[-1])
    if seller in ("AWS Bedrock", "OCI"):
        name = re.sub(r"-v\d+:\d+$|:\d+$", "", _MAKER.sub("", _AREA.sub("", name.rsplit("/", 1)[-1])))
    for start in ("@cf/", "@hf/thebloke/", "databricks-", "FW-"):
        name = name.removeprefix(start)
    return name.removesuffix("-maas")


def snapshot_rows(path: str, as_of: str, source: str) -> Iterator[dict[str, str]]:
    """The rows of LiteLLM's table that this one takes."""
    for key, value in json.loads(Path(path).read_text(encoding="utf-8")).items():
        seller = SELLERS.get(str(value.get("litellm_provider", "")).split("-")[0], "")
        if seller and _is_listed(value, as_of) and not CLOSED.search(key):
            cached = value.get("cache_read_input_token_cost")
            cells = [_price(value["input_cost_per_token"]), _price(value["output_cost_per_token"]), _price(cached) if cached else ""]
            yield dict(zip(HEADER, (plain_name(key, seller), seller, *cells, "", as_of, source, ""), strict=True))


def _is_listed(value: dict[str, Any], as_of: str) -> bool:
    priced = all(value.get(f"{side}_cost_per_token") for side in ("input", "output"))
    return bool(priced) and value.get("mode") == "chat" and str(value.get("deprecation_date") or "9999") > as_of


def _price(usd_per_token: float) -> str:
    return f"{usd_per_token * 1e6:.6g}"


def main(path: str, as_of: str, source: str) -> None:
    """Replace the rows of the sellers of the snapshot."""
    with TABLE.open(encoding="utf-8") as stream:
        before = list(csv.DictReader(stream))
    new = list(snapshot_rows(path, as_of, source))
    sellers = {row["provider"] for row in new}
    oldest = (datetime.date.fromisoformat(as_of) - datetime.timedelta(days=LONGEST_DAYS)).isoformat()
    rows = [row for row in before if row["provider"] not in sellers and row["as_of"] >= oldest] + new
    cheapest: dict[tuple[str, str], dict[str, str]] = {}
    for row in sorted(rows, key=lambda row: (float(row["output_usd_per_million"]), float(row["input_usd_per_million"]))):
        cheapest.setdefault((row["model"].casefold(), row["provider"]), row)
    ordered = sorted(cheapest.values(), key=lambda row: (row["provider"].casefold(), row["model"].casefold()))
    with TABLE.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, HEADER, lineterminator="\n", restval="")
        writer.writeheader()
        writer.writerows(ordered)


if __name__ == "__main__":
    main(*sys.argv[1:4])
