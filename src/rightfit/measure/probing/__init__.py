"""Measure a command while it runs, without a change of its code: `wrapped` starts and samples it,
`agent` counts inside it, `counters` reads the machine."""
