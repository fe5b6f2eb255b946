"""Adds headers to answers: those of `response.http.headers.config`, and those that permit web pages
of other origins (CORS), as Jetty's HeaderFilter and CrossOriginHandler do for Apache's workers.

A rule is `action name:value`; actions are set, add, setDate and addDate, whose value is
milliseconds from now. A header that the answer has itself replaces one that is set. A preflight
request is answered by its resource, as every OPTIONS.
"""

from __future__ import annotations

import csv
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from connect_runtime.api import ConfigError

KEY: Final = "response.http.headers.config"
_ACTIONS: Final = ("set", "add", "setDate", "addDate")
_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+\-.^_`|~]+")
# The server's own: they frame the answer
_FRAMING: Final = ("content-length", "transfer-encoding")
# Milliseconds from now that lead to years of four digits
_DATES: Final = range(-(10**12), 10**14)
_PREFLIGHT_AGE_S: Final = 60


@dataclass(frozen=True, slots=True)
class HeaderRule:
    """One rule; `adds`: beside others of its name; `from_now`: the value is milliseconds."""

    name: str
    value: str
    adds: bool
    from_now: bool

    def text(self) -> str:
        """Returns the header's value at this moment."""
        if self.from_now:
            return formatdate(time.time() + int(self.value) / 1000, usegmt=True)
        return self.value


def parse_rules(text: str) -> tuple[HeaderRule, ...]:
    """Returns the rules. Raises ConfigError with Apache's texts."""
    if not text.strip():
        return ()
    line = text.replace("\n", " ").replace("\r", " ")
    try:
        rules = next(csv.reader([line], skipinitialspace=True))
    except csv.Error as error:
        raise ConfigError(f"Invalid list of header configs in {KEY}: {error}") from None
    return tuple(_rule(rule.strip()) for rule in rules)


def validate_rules(name: str, value: Any) -> None:
    """Raises ConfigError if the value is not a list of rules."""
    parse_rules(value or "")


def _rule(text: str) -> HeaderRule:
    word, _, header = text.partition(" ")
    if not header.strip():
        raise ConfigError(
            f"Invalid format of header config '{text}' in {KEY}. "
            "Expected: '[action] [header name]:[header value]'"
        )
    action = next((action for action in _ACTIONS if action.lower() == word.lower()), None)
    if action is None:
        raise ConfigError(
            f"Invalid header config action: '{word}' in {KEY}. "
            f"Expected one of [{', '.join(_ACTIONS)}]"
        )
    name, colon, value = header.strip().partition(":")
    name, value, from_now = name.strip(), value.strip(), action.endswith("Date")
    is_valid = value.isascii() and value.isprintable() and (not from_now or _is_number(value))
    if not colon or not value or ":" in value or not is_valid:
        raise ConfigError(
            f"Invalid format of header name and header value pair '{header}' in {KEY}. "
            "Expected: '[header name]:[header value]'"
        )
    if not _TOKEN.fullmatch(name):
        raise ConfigError(
            f"Invalid header name '{name}' in {KEY}. The '[header name]' cannot contain whitespace"
        )
    if name.lower() in _FRAMING:
        raise ConfigError(f"Invalid header name '{name}' in {KEY}. The server itself sets it")
    return HeaderRule(name, value, action.startswith("add"), from_now)


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?\d{1,15}", text) is not None and int(text) in _DATES


class ResponseHeaders:
    """Adds the headers of rules to every answer."""

    def __init__(self, app: ASGIApp, rules: Sequence[HeaderRule]) -> None:
        self._app = app
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, _changing_headers(send, self._add))

    def _add(self, headers: MutableHeaders) -> None:
        own = {*headers.keys()}
        for rule in self._rules:
            if rule.adds:
                headers.append(rule.name, rule.text())
            elif rule.name.lower() not in own:
                headers[rule.name] = rule.text()


class CrossOrigin:
    """Adds headers to answers for web pages of the origins that are allowed, as regular expressions
    or `*`. `methods`: those that they may use, `login`: requests need one."""

    def __init__(
        self, app: ASGIApp, origins: Sequence[str], methods: Sequence[str], *, login: bool
    ) -> None:
        self._app = app
        self._origins = origins
        request_headers = ["Content-Type", *(["Authorization"] if login else [])]
        self._of_preflight = {
            "Access-Control-Allow-Methods": ",".join(methods),
            "Access-Control-Allow-Headers": ",".join(request_headers),
            "Access-Control-Max-Age": str(_PREFLIGHT_AGE_S),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        added = self._headers(scope)
        await self._app(scope, receive, _changing_headers(send, lambda own: own.update(added)))

    def _headers(self, scope: Scope) -> dict[str, str]:
        origin = Headers(scope=scope).get("origin")
        headers = {"Vary": "Origin"}
        if origin is not None and is_listed(origin, self._origins):
            headers["Access-Control-Allow-Origin"] = origin
            headers |= self._of_preflight if is_preflight(scope) else {}
        return headers


def _changing_headers(send: Send, change: Callable[[MutableHeaders], None]) -> Send:
    async def send_changed(message: Message) -> None:
        if message["type"] == "http.response.start":
            change(MutableHeaders(scope=message))
        await send(message)

    return send_changed


def is_listed(origin: str, origins: Sequence[str]) -> bool:
    """Returns True if one of these patterns, or `*`, matches the whole origin, in any case."""
    return any(
        pattern == "*" or re.fullmatch(pattern, origin, re.IGNORECASE) for pattern in origins
    )


def is_preflight(scope: Scope) -> bool:
    """Returns True for a browser's question about the requests that a page may send, which never
    has a login."""
    headers = Headers(scope=scope)
    return (
        scope["method"] == "OPTIONS"
        and "origin" in headers
        and "access-control-request-method" in headers
    )
