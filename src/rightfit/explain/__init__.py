"""Terms and reasons in English and Chinese. This room words what lower rooms decided; it computes no physics.

renderer(lang, currency=...)      Reason -> sentence, for Plan.to_dict(render=...) and Plan.to_json
plan_text(plan, lang)             a whole plan in words (PlanText); option_text(option, workload, lang) one option
why_text(answer, lang)            why a server was or was not chosen
advise(workload, plan, ...)       what would do with less, each effect from a real evaluation
check_rules(plan, workload, ...)  the rules of thumb of the blog posts against our own figures; rule_by_id(id)
"""

from __future__ import annotations

from rightfit.explain.messages import LANGS, Lang, say
from rightfit.explain.plan_text import OptionText, PlanText, Term, option_text, plan_text
from rightfit.explain.reasons import render, renderer

__all__ = ["LANGS", "Lang", "OptionText", "PlanText", "Term", "option_text", "plan_text", "render", "renderer", "say"]
