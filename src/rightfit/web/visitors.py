"""Pages that were asked for and never opened: a program that only reads the HTML leaves a page's state behind on the server. It is dropped soon, and one address
cannot pile it up."""

from __future__ import annotations

from nicegui import Client, app

#: How long a browser may take to open the connection of a page [s], how often that is looked at [s], and how many pages of one address may wait for it.
OPENS_WITHIN_S = 10.0
LOOK_EVERY_S = 2.0
MOST_UNOPENED = 30


def watch() -> None:
    """Drop pages that nobody opened in time, for as long as the server runs."""
    app.timer(LOOK_EVERY_S, lambda: Client.prune_instances(client_age_threshold=OPENS_WITHIN_S))


def admit(client: Client) -> None:
    """Take in a page, and drop the oldest unopened ones of its address where there are too many."""
    address = _address(client)
    waiting = [one for one in Client.instances.values() if _is_unopened(one) and one is not client and _address(one) == address]
    for one in sorted(waiting, key=lambda one: one.created)[: max(len(waiting) + 1 - MOST_UNOPENED, 0)]:
        one.delete()


def _is_unopened(client: Client) -> bool:
    """Whether nobody opened it. A page whose connection was lost has a time to come back, after which the framework drops it."""
    return not client.has_socket_connection and not getattr(client, "_delete_tasks", None)


def _address(client: Client) -> str:
    try:
        return str(client.ip)
    except RuntimeError:  # a page of the program itself, which nobody asked for
        return ""
