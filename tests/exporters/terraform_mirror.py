"""Where Terraform's plug-ins lie on this machine, since tests reach no registry."""

from __future__ import annotations

import os
import re
from pathlib import Path

#: Where Terraform itself looks for plug-ins that were put there by hand.
_USUAL = (Path.home() / ".terraform.d/plugins", Path("/usr/local/share/terraform/plugins"), Path("/usr/share/terraform/plugins"))
#: Where programs that no package manager knows are put, each in a folder of its own.
_ROOTS = (Path("/opt"), Path("/usr/local/share"), Path("/usr/share"))
_PATH = re.compile(r'\bpath\s*=\s*"([^"]+)"')


def mirror() -> Path | None:
    """The folder that RIGHTFIT_TERRAFORM_MIRROR or Terraform's own settings name, one that it looks
    in, or a mirror beside it; None where there is none."""
    named = os.environ.get("RIGHTFIT_TERRAFORM_MIRROR")
    settings = Path(os.environ.get("TF_CLI_CONFIG_FILE", Path.home() / ".terraformrc"))
    told = _PATH.findall(settings.read_text(encoding="utf-8")) if settings.is_file() else []
    mirrors = (found.parent for root in _ROOTS for found in sorted(root.glob("*/registry.terraform.io")))
    return next((folder for folder in (*map(Path, [named] if named else told), *_USUAL, *mirrors) if folder.is_dir()), None)
