"""Where things of the catalog have their pages."""

from __future__ import annotations

from urllib.parse import urlencode

from rightfit.explain.messages import Lang
from rightfit.web.draw import Links


def server_address(server: str, lang: Lang) -> str:
    """The page of a server, PROVIDER/INSTANCE."""
    return f"/server?{urlencode({'name': server, 'lang': lang})}"


def card_address(card: str, lang: Lang) -> str:
    """The page of a card."""
    return f"/card?{urlencode({'name': card, 'lang': lang})}"


def fit_address(gpu: str, count: int, task: str, lang: Lang) -> str:
    """The page of the models that fit some cards."""
    given = {"gpu": gpu, "count": str(count) if count != 1 else "", "task": task, "lang": lang}
    return f"/fit?{urlencode({name: value for name, value in given.items() if value})}"


def plan_address(lang: Lang, **wishes: str) -> str:
    """A plan."""
    return f"/?{urlencode({**{name: value for name, value in wishes.items() if value}, 'lang': lang})}"


def catalog_links(lang: Lang, kind: str) -> Links:
    """Where the lines of the catalog lead."""
    if kind in ("servers", "prices"):
        return {
            "instance_type": lambda record: server_address(record["server"], lang),
            "accelerator_name": lambda record: card_address(record["accelerator_name"], lang),
        }
    if kind == "accelerators":
        return {"name": lambda record: card_address(record["name"], lang)}
    return {"name": lambda record: plan_address(lang, model=record["name"])}
