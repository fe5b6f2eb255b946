"""Headers that every answer gets: the worker property `response.http.headers.config`.

A rule is `action name:value`; actions are Jetty's (HeaderFilter): set, add, setDate and addDate,
whose value is milliseconds from now. A header that the answer has itself replaces one that is set.
"""

from __future__ import annotations

import csv
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any, Final

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from connect_runtime.api import ConfigError

KEY: Final = "response.http.headers.config"
_ACTIONS: Final = ("set", "add", "setDate", "addDate")
_TOKEN: Final = frozenset("!#$%&'*+-.^_`|~")
# The server's own: they say where an answer ends
_FRAMING: Final = ("content-length", "transfer-encoding")
# Milliseconds from now that lead to years of four digits
_DATES: Final = range(-(10**12), 10**14)


@dataclass(frozen=True, slots=True)
class HeaderRule:
    """One rule; `adds`: beside others of its name; `from_now`: the value is milliseconds."""

    name: str
    value: str
    adds: bool
    from_now: bool

    def text(self) -> str:
        """Returns the header's value now."""
        if self.from_now:
            return formatdate(time.time() + int(self.value) / 1000, usegmt=True)
        return self.value


def parse_rules(text: str) -> tuple[HeaderRule, ...]:
    """Returns the rules. Raises ConfigError with Apache's texts."""
    if not text.strip():
        return ()
    line = text.replace("\n", " ").replace("\r", " ")
    try:
        parts = next(csv.reader([line], skipinitialspace=True))
    except csv.Error as error:
        raise ConfigError(f"Invalid list of header configs in {KEY}: {error}") from None
    return tuple(_rule(each.strip()) for each in parts)


def validate_rules(name: str, value: Any) -> None:
    """Raises ConfigError if the value is not a list of rules."""
    parse_rules(value or "")


def _rule(text: str) -> HeaderRule:
    action, _, header = text.partition(" ")
    if not header.strip():
        raise ConfigError(
            f"Invalid format of header config '{text}' in {KEY}. "
            "Expected: '[action] [header name]:[header value]'"
        )
    found = next((each for each in _ACTIONS if each.lower() == action.lower()), None)
    if found is None:
        raise ConfigError(
            f"Invalid header config action: '{action}' in {KEY}. "
            f"Expected one of [{', '.join(_ACTIONS)}]"
        )
    name, colon, value = header.strip().partition(":")
    name, value = name.strip(), value.strip()
    dated = found.endswith("Date")
    sound = value.isascii() and value.isprintable() and (not dated or _is_number(value))
    if not colon or not value or ":" in value or not sound:
        raise ConfigError(
            f"Invalid format of header name and header value pair '{header}' in {KEY}. "
            "Expected: '[header name]:[header value]'"
        )
    if not name or not all(c.isascii() and (c.isalnum() or c in _TOKEN) for c in name):
        raise ConfigError(
            f"Invalid header name '{name}' in {KEY}. The '[header name]' cannot contain whitespace"
        )
    if name.lower() in _FRAMING:
        raise ConfigError(f"Invalid header name '{name}' in {KEY}. The server itself sets it")
    return HeaderRule(name, value, found.startswith("add"), dated)


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?\d{1,15}", text) is not None and int(text) in _DATES


class ResponseHeaders:
    """Adds headers to every answer."""

    def __init__(self, app: ASGIApp, rules: Sequence[HeaderRule]) -> None:
        self._app = app
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                own = {*headers.keys()}
                for rule in self._rules:
                    if rule.adds:
                        headers.append(rule.name, rule.text())
                    elif rule.name.lower() not in own:
                        headers[rule.name] = rule.text()
            await send(message)

        await self._app(scope, receive, with_headers)
