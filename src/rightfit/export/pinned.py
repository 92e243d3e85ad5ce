"""Programs that are no package: one script, or the archive of one commit, fetched and checked on the server by scripts/run_pinned.py."""

from __future__ import annotations

from importlib import resources

from rightfit.export.quoting import to_json
from rightfit.export.registry import Files

TIMM_COMMIT = "aa4b5850c1543fa488abf260f18390eda46cf85d"
DIFFUSERS_COMMIT = "58eb52c0803ea9af3abec60841c2a093bdf1f951"
MEGATRON_COMMIT = "d98e8a64ddf34856e74b24714e3bedb2f5a39553"
RAW = "https://raw.githubusercontent.com"

SHA256 = {
    "train.py": "f0bb70b9e1c8c576eb1f7beba9cb46953d01ec1308d68c59ec055a6266f76388",
    "examples/text_to_image/train_text_to_image.py": "4c5f10d3986bc41c96d595215600a98a8c7b24f384e7f276e57d5df9c7e62a8c",
    "examples/text_to_image/train_text_to_image_lora.py": "6634df6b80bc428a4ed8229a3a7023dc8c7439dc2ed8e633dae2b12560a3958d",
    "examples/text_to_image/train_text_to_image_sdxl.py": "53ec3cd6cd34cd7500006422fe277626921b1b77967ddda7f1e4bc4215357fcd",
    "examples/text_to_image/train_text_to_image_lora_sdxl.py": "077e947b54a02c47fdf304fb547990bed6d31398884c2519a221d987bd0585f1",
    "examples/dreambooth/train_dreambooth_flux.py": "97acda11c6fe799ad85cb7cdbfbf5d1588f5632d068ae3309e58167b09ff6dc2",
    "examples/dreambooth/train_dreambooth_lora_flux.py": "1e7862bbfb16f2d5fa6f3424a93c2d8383ba4b5f1509c6265777e1eb84d070ef",
    "examples/dreambooth/train_dreambooth_sd3.py": "54101e338c6992f36dcb6ef0e9514802e543e590ced467c9977ee7246463ccc9",
    "examples/dreambooth/train_dreambooth_lora_sd3.py": "74f4cfd22527673c10f4e7a7b2a2b117ef554a0190bfa5876210f7d365e393bb",
}
"""Of the files at the commits above."""


def pinned_file(repository: str, commit: str, path: str, *, resume: tuple[str, str] | None = None) -> Files:
    """run_pinned.py and what it must know of one script."""
    facts: dict[str, object] = {"url": f"{RAW}/{repository}/{commit}/{path}", "sha256": SHA256[path]}
    return _files({**facts, "resume": list(resume)} if resume else facts)


def pinned_archive(repository: str, commit: str, script: str) -> Files:
    """run_pinned.py and what it must know of a script that needs the rest of its repository."""
    name = repository.rpartition("/")[2]
    return _files({"url": f"https://github.com/{repository}/archive/{commit}.tar.gz", "script": f"{name}-{commit}/{script}"})


def _files(facts: dict[str, object]) -> Files:
    text = resources.files("rightfit.export").joinpath("scripts/run_pinned.py").read_text(encoding="utf-8")
    return {"run_pinned.py": text, "pinned.json": to_json(facts)}
