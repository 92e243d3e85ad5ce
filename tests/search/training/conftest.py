"""Puts the helpers of these tests (toy.py, brute.py) within reach."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
