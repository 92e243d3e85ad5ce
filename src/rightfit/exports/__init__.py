"""Files that start a plan: pure functions from a plan to {path: text}, one module a target."""

from __future__ import annotations

from rightfit.exports.bundle import files_of
from rightfit.exports.job import ExportSettings, Job, PlanDocument, job_of, plan_document, read_plan
from rightfit.exports.launching import write_files
from rightfit.exports.registry import Files, Target, all_targets, find_target

__all__ = [
    "ExportSettings",
    "Files",
    "Job",
    "PlanDocument",
    "Target",
    "all_targets",
    "files_of",
    "find_target",
    "job_of",
    "plan_document",
    "read_plan",
    "write_files",
]
