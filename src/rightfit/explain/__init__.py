"""Terms and reasons in English and Chinese. This room words what lower rooms decided; it computes no physics.

plan_sheet(plan, lang), verdict_sheet(verdict, lang)   a whole answer as parts that any face can draw: sentences, lists, tables, breakdowns
plan_text(plan, lang), option_text(option, workload, lang)   the sentences alone
plan_document(plan, lang), verdict_document(verdict, lang)   the contract's JSON
renderer(lang, currency=...)      Reason -> sentence, for plans of training; voice_of(answer).renderer for any kind
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rightfit.explain.documents import flat_option, plan_document, verdict_document
    from rightfit.explain.messages import LANGS, Lang, say
    from rightfit.explain.reasons import render, renderer
    from rightfit.explain.sheets import plan_sheet, verdict_sheet
    from rightfit.explain.voices import option_text, plan_text, voice_of

_HOMES = {
    "flat_option": "documents",
    "plan_document": "documents",
    "verdict_document": "documents",
    "LANGS": "messages",
    "Lang": "messages",
    "say": "messages",
    "render": "reasons",
    "renderer": "reasons",
    "plan_sheet": "sheets",
    "verdict_sheet": "sheets",
    "option_text": "voices",
    "plan_text": "voices",
    "voice_of": "voices",
}

__all__ = [
    "LANGS",
    "Lang",
    "flat_option",
    "option_text",
    "plan_document",
    "plan_sheet",
    "plan_text",
    "render",
    "renderer",
    "say",
    "verdict_document",
    "verdict_sheet",
    "voice_of",
]


def __getattr__(name: str) -> Any:
    """Find a public name where it lives, on first use: a label needs none of what a plan needs."""
    if name not in _HOMES:
        raise AttributeError(f"module 'rightfit.explain' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"rightfit.explain.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
