"""From columns of facts and settings to figures with intervals."""
