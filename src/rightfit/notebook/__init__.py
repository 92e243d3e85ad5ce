"""The form and the charts as widgets of Jupyter, VS Code and Colab (extra `notebook`). Words and
figures are those of the web page; nothing is loaded from outside.

form(**wishes)        fields, a button, the answer as a report with its charts; `form().plan` is the
                      plan
chart(plan, kind)     "offers": every feasible offer, a click on a plan's number sets `selected`;
                      "scaling": more of the best server; "months": what is owed
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rightfit.errors import MissingComponentError
from rightfit.messages import Message

if TYPE_CHECKING:
    from rightfit.messages import Lang
    from rightfit.search.answer import Plan

MISSING = Message("rest.notebook_needs")


def form(*, lang: Lang | None = None, **wishes: str) -> Any:
    """The form, filled with what is given (options of a workload as text), and answered at once
    where that is a wish."""
    _check()
    from rightfit.explain.messages import default_lang
    from rightfit.notebook.widgets import PlanForm

    return PlanForm(wishes, lang or default_lang())


def chart(plan: Plan, kind: str = "offers", *, lang: Lang | None = None) -> Any:
    """A chart of a plan; InputError for a kind that does not exist."""
    _check()
    from rightfit.explain.messages import default_lang
    from rightfit.notebook.widgets import chart_of

    return chart_of(plan, kind, lang or default_lang())


def _check() -> None:
    from importlib.util import find_spec

    missing = [name for name in ("ipywidgets", "anywidget") if find_spec(name) is None]
    if missing:
        raise MissingComponentError(Message("rest.lacks_several", why=MISSING, names=", ".join(missing)))


__all__ = ["chart", "form"]
