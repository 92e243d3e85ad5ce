"""The layout of the store: what a reader checks before it trusts a file."""

from __future__ import annotations

# Raised whenever the layout changes; an older store is then simply not found and a new one is built.
SCHEMA_VERSION = 5
APPLICATION_ID = 0x52464954  # "RFIT" in the SQLite header
TABLE_NAMES = ("block", "meta", "region", "storage_price", "egress_price", "interruption", "discount", "market_gpu_price", "finding")
