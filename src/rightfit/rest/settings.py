"""How a server is set up: who may ask, how much at once, and where saved plans go. All limits have safe defaults."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rightfit.errors import FileInputError, InputError
from rightfit.messages import Message, system_problem
from rightfit.records import dataclass

VARIABLE = "RIGHTFIT_SERVE_SETTINGS"
TOKEN_VARIABLE = "RIGHTFIT_TOKEN"  # noqa: S105  (the name of a variable)
DATABASE_VARIABLE = "RIGHTFIT_DATABASE_URL"
SHORTEST_TOKEN, LONGEST_TOKEN = 16, 512
LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True, slots=True)
class Settings:
    """`token`: what clients must show, empty for nobody. `database_url`: empty for a file of SQLite in the data folder. `allowed_hosts`:
    names that
    the server answers to, empty for any. `cors_origins`: web pages of other hosts that may ask, none by default. `page`: serve the web page
    too, where there is one (see rightfit.web.asgi).
    Limits: [bytes] of a body, of a table and of all that are under way, rows of a table, options of a plan, [s] for a body to arrive and
    for an answer to be found from the start of its work, and that those who come may have to wait before that (more are sent away),
    answers waited for at once, requests a second of one client (and how many at once), [bytes] of answers kept, plans kept."""

    token: str = dataclasses.field(default="", repr=False)
    database_url: str = dataclasses.field(default="", repr=False)
    allowed_hosts: tuple[str, ...] = ()
    cors_origins: tuple[str, ...] = ()
    page: bool = True
    most_body_bytes: int = 2_000_000
    most_table_bytes: int = 32_000_000
    most_held_bytes: int = 256_000_000
    most_rows: int = 100_000
    most_options: int = 50
    body_s: float = 20.0
    answer_s: float = 30.0
    patience_s: float = 5.0
    most_waiting: int = 64
    rate_per_s: float = 200.0
    burst: int = 400
    cache_bytes: int = 64_000_000
    most_saved: int = 100_000

    def __post_init__(self) -> None:
        if self.token and not (SHORTEST_TOKEN <= len(self.token) <= LONGEST_TOKEN and self.token.isascii() and self.token.isprintable()):
            raise InputError(Message("rest.token_length", fewest=SHORTEST_TOKEN, most=LONGEST_TOKEN), field="token")
        for name in (
            "most_body_bytes",
            "most_held_bytes",
            "most_rows",
            "most_options",
            "body_s",
            "answer_s",
            "patience_s",
            "most_waiting",
            "rate_per_s",
            "burst",
            "most_saved",
        ):
            if not 0 < getattr(self, name) < math.inf:
                raise InputError(Message("rest.setting", setting=name), field=name)

    def to_environment(self) -> dict[str, str]:
        """The settings as the variables from which the processes of a server read them; secrets go in variables of their own."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        secrets = {TOKEN_VARIABLE: str(values.pop("token")), DATABASE_VARIABLE: str(values.pop("database_url"))}
        return {VARIABLE: json.dumps(values), **{name: text for name, text in secrets.items() if text}}


def from_environment(environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings that `to_environment` wrote, or the defaults; the token and the database from their variables."""
    values: dict[str, Any] = json.loads(environment.get(VARIABLE) or "{}")
    lists: dict[str, Any] = {name: tuple(values[name]) for name in ("allowed_hosts", "cors_origins") if name in values}
    secrets = {"token": environment.get(TOKEN_VARIABLE, "").strip(), "database_url": environment.get(DATABASE_VARIABLE, "").strip()}
    return Settings(**(values | lists | secrets))


def read_token(path: str | Path) -> str:
    """The token in a file: its first line."""
    try:
        with Path(path).open("rb") as stream:
            lines = stream.read(4096).decode("utf-8").splitlines()
    except OSError as error:
        raise FileInputError(Message("rest.token_unreadable", path=path, error=system_problem(error)), field="token_file") from None
    except UnicodeDecodeError:
        raise FileInputError(Message("rest.token_not_text", path=path), field="token_file") from None
    token = lines[0].strip() if lines else ""
    if not token:
        raise FileInputError(Message("rest.token_empty", path=path, count=SHORTEST_TOKEN), field="token_file")
    return token


def is_local(host: str) -> bool:
    """Whether an address is of this machine alone."""
    import ipaddress

    if host.casefold() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
