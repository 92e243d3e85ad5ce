"""One module a target: `TARGET = Target(...)`. The registry finds them by being here."""
