"""Real runs come back as evidence: records of runs, readers of other programs' results,
calibration, advice from a run.

`record` is what everything else writes and reads; `store` keeps records. Nothing here leaves the
machine unless asked.
"""
