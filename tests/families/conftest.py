"""Tests over every family share the answers to the wishes: the module `answers` beside this file."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
