"""Files that start the opened plan: shown, copied, downloaded one by one or all together."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nicegui import ui

from rightfit.errors import RightfitError
from rightfit.recent import exact_key
from rightfit.web.draw import box, button, paragraph, text
from rightfit.web.words import problem_lines, word

if TYPE_CHECKING:
    from rightfit.search.answer import Option, Plan
    from rightfit.web.host import PlanHost


def export_tab(page: PlanHost, plan: Plan, option: Option) -> None:
    """Targets that can express the plan, and the files of the chosen one."""
    from rightfit.export import all_targets, job_of, plan_document

    lang = page.state.lang
    try:
        job = job_of(plan_document(plan.to_dict()), rank=option.rank)
    except RightfitError as error:
        paragraph(problem_lines(error, lang)[0][1])
        return
    able = {name: f"{name} – {target.summary}" for name, target in all_targets().items() if not target.refuses(job)}
    if not able:
        paragraph(word("tab.export_none", lang), "muted")
        return
    with box("div", "head"):
        choice = (
            ui.select(able, label=word("tab.export_target", lang), value=next(iter(able)))
            .props("outlined dense options-dense")
            .mark("export-target")
        )
        choice.style("min-width: min(420px, 100%)")

        async def everything() -> None:
            await _download(page, job, "all", f"{job.settings.name}.zip" if hasattr(job, "settings") else "rightfit.zip")

        button(word("tab.bundle", lang), everything, "button").mark("export-bundle")
    files = box("div", "files")

    async def show() -> None:
        found = await _files(page, job, str(choice.value))
        if files.is_deleted:
            return  # the visitor has turned to another tab meanwhile
        files.clear()
        with files:
            for path, content in found.items():
                _file(path, content, page)

    choice.on_value_change(show)
    ui.timer(0, show, once=True)


async def _files(page: PlanHost, job: Any, target: str) -> Mapping[str, str]:
    from rightfit.export import files_of

    try:
        return await page.answers.ask(("export", exact_key(job), target), lambda: files_of(job, target))
    except RightfitError as error:
        ui.notify(problem_lines(error, page.state.lang)[0][1])
        return {}


async def _download(page: PlanHost, job: Any, target: str, name: str) -> None:
    found = await _files(page, job, target)
    if found:
        ui.download.content(zipped(found), name)


def zipped(files: Mapping[str, str]) -> bytes:
    """The files as one ZIP archive; the same files give the same bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            archive.writestr(zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0)), content.encode("utf-8"))
    return buffer.getvalue()


def _file(path: str, content: str, page: PlanHost) -> None:
    lang = page.state.lang

    def copy() -> None:
        ui.clipboard.write(content)
        ui.notify(word("result.copied", lang))

    with box("section", "file"):
        with box("div", "head"):
            text(path, "", "h4")
            with box("div", "actions"):
                button(word("tab.copy", lang), copy, "chip", label_text=f"{word('tab.copy', lang)}: {path}")
                name = path.rsplit("/", 1)[-1]
                button(
                    word("tab.download", lang),
                    lambda: ui.download.content(content, name),
                    "chip",
                    label_text=f"{word('tab.download', lang)}: {path}",
                )
        shown = text(content, "", "pre")
        shown.props["tabindex"] = "0"
