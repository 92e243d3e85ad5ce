"""A plan and a verdict as their users hold them: the records of the search, and what can
be done with them.

They stand above the words and the exports, so that neither those nor the search know of them. What
works with answers inside rightfit takes the records.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rightfit.search import answer, servers

if TYPE_CHECKING:
    from rightfit.exports import Job
    from rightfit.messages import Lang


#: Options that a plan shows as text; `.options` has them all.
_SHOWN_OPTIONS = 8


class Plan(answer.Plan):
    __doc__ = answer.Plan.__doc__
    __slots__ = ()

    def __repr__(self) -> str:
        """The choice with its setup, and a line for each of the first options; `.to_json()` has
        everything."""
        from rightfit.explain.messages import default_lang
        from rightfit.explain.voices import plan_text

        text = plan_text(self, default_lang())
        found = text.best
        lines = [text.headline, *((found.outcome, found.setup) if found else (text.blame, *text.advice[:2]))]
        options = [
            f"{one.rank}  {f'{one.nodes} x ' if one.nodes > 1 else ''}{one.provider}/{one.instance_type}"
            f"  {one.region}  {one.purchase}  ${one.cost.total_usd:,.2f}"
            for one in self.options[:_SHOWN_OPTIONS]
        ]
        return "\n".join([f"<Plan: {len(self.options)} options>", *(line for line in lines if line), *options])

    def export(
        self, target: str, *, option: int = 1, out: str | Path | None = None, force: bool = False, **settings: Any
    ) -> dict[str, str]:
        """Files that start an option: {path: text}, also written below `out` when given. `target`
        and `settings` as in `rightfit export`."""
        return exported(self.to_dict(), target, option=option, out=out, force=force, **settings)

    def to_dataframe(self, *, backend: str | None = None, pareto: bool = False) -> Any:
        """The options as a data frame of pandas or polars (`backend`; by default the one that is
        installed), one a row, in base units.

        `pareto`: instead the points of the Pareto front of cost and time. Raises
        MissingComponentError where neither library is installed.
        """
        from rightfit.explain.voices import data_frame, flat_option, flat_point

        return data_frame(map(flat_point, self.pareto) if pareto else map(flat_option, self.options), backend=backend)

    def to_html(self, lang: Lang | None = None, *, everything: bool = False, whole: bool = False) -> str:
        """The whole answer as HTML that needs nothing from outside; `lang` "en" or "zh", by default
        that of the locale.

        A fragment for a page or, with `whole`, the text of a file. `everything`: every refusal, the
        bill, and the rules of thumb too.
        """
        return _html(self, lang, everything=everything, whole=whole)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return self.to_html()

    def launch(
        self, tool: str = "skypilot", *, option: int = 1, out: str | Path | None = None, dry_run: bool = False, **settings: Any
    ) -> None:
        """Start an option through SkyPilot or Terraform, without asking; as
        `rightfit launch --yes`. A dry run rents nothing."""
        launched(self.to_dict(), tool, option=option, out=out, dry_run=dry_run, **settings)


class Verdict(servers.Verdict):
    __doc__ = servers.Verdict.__doc__
    __slots__ = ()

    def __repr__(self) -> str:
        """Whether the server does the job, and why; `.to_dict()` has everything."""
        from rightfit.explain.messages import default_lang
        from rightfit.explain.sheets import verdict_head

        return "\n".join([f"<Verdict: {self.provider}/{self.instance_type}>", *verdict_head(self, default_lang())])

    def to_html(self, lang: Lang | None = None, *, everything: bool = False, whole: bool = False) -> str:
        """The verdict as HTML that needs nothing from outside; `lang` "en" or "zh", by default
        that of the locale.

        A fragment for a page or, with `whole`, the text of a file. `everything`: every refusal too.
        """
        return _html(self, lang, everything=everything, whole=whole)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return self.to_html()


def plan_of(found: answer.Plan) -> Plan:
    """The record of a plan, with what can be done with it."""
    return Plan(**_fields(found))


def verdict_of(found: servers.Verdict) -> Verdict:
    """The record of a verdict, with what can be done with it."""
    return Verdict(**_fields(found))


def exported(
    plan: Path | Mapping[str, Any], target: str, *, option: int = 1, out: str | Path | None = None, force: bool = False, **settings: Any
) -> dict[str, str]:
    """Files that start an option of a plan: its JSON file, or what `to_dict` gives."""
    from rightfit.exports import files_of, write_files

    files = dict(files_of(_job_of(plan, option, settings), target))
    if out is not None:
        write_files(files, out, force=force)
    return files


def launched(
    plan: Path | Mapping[str, Any], tool: str, *, option: int = 1, out: str | Path | None = None, dry_run: bool = False, **settings: Any
) -> None:
    """Start an option of a plan: its JSON file, or what `to_dict` gives."""
    from rightfit.exports import launching

    job = _job_of(plan, option, settings)
    folder = Path(out) if out is not None else None if dry_run else Path(f"{job.name}-{job.plan_id}")
    launching.start(launching.launch_of(job, tool=tool, dry_run=dry_run), folder=folder)


def _job_of(plan: Path | Mapping[str, Any], option: int, settings: Mapping[str, Any]) -> Job:
    from rightfit.exports import ExportSettings, job_of, plan_document, read_plan

    document = read_plan(plan) if isinstance(plan, Path) else plan_document(plan)
    return job_of(document, rank=option, settings=ExportSettings(**settings))


def _fields(found: answer.Plan | servers.Verdict) -> dict[str, Any]:
    return {field.name: getattr(found, field.name) for field in dataclasses.fields(found)}


def _html(found: Plan | Verdict, lang: Lang | None, *, everything: bool, whole: bool) -> str:
    from rightfit.explain.html import answer_html
    from rightfit.explain.messages import default_lang

    return answer_html(found, lang or default_lang(), everything=everything, whole=whole)
