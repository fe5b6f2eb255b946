"""The meaning of an answer: Connect's own error, or one of something that is not Connect, as text.

Every error names the request, the address without a login, the status and the body, in short.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from html import unescape
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import httpx
import orjson

from connect_reconciler.backend.rest.connection import shown_url
from connect_reconciler.backend.rest.refusals import refusal_in, takes_no_such_path
from connect_runtime.herder.verbs import Refusal, RequestError
from connect_runtime.java.jackson import read_json
from connect_specs.desired import RestTarget
from connect_specs.diagnostics import Diagnostic, Unreachable
from connect_specs.secrets import HIDDEN, Redactor, secret_parts

LOGIN_HINT: Final = "give the target a user and password, or headers, that may do it"

_NOT_ALLOWED = (401, 403, 407)
_SHOWN = 160
_READ = 65_536
# An element without an end extends to the end of the text: a repeated search would take long
_TAGS = re.compile(r"(?is)<(script|style)\b(?:.*?</\1\s*>|.*)|<!--(?:.*?-->|.*)|<[^<>]*>")
_SCHEME_SECRET = re.compile(r"(?i)\b(bearer|basic|digest|negotiate)\s+[\w.~+/=-]{6,}")
# These name the connector, and are no secrets
_PLAIN_KEYS = frozenset({"name", "connector.class", "initial_state"})
_HINTS: Mapping[int, str] = {
    400: "correct what it names; the worker's log may say more",
    404: "check the path of the target's URL; an older version may not know this request",
    409: "the cluster may rebalance: try again in a while",
    413: "a proxy or load balancer in front of the Connect cluster limits the size of requests",
    429: "try again later, or let fewer ask at a time, such as with --parallelism 1",
}
_OF_WORKER = "the worker's log says more"
_OF_ANYTHING_ELSE = (
    "check the target's URL with its path, and a proxy or load balancer in front of the cluster"
)
_OF_BALANCER = "check whether the workers run, and a proxy or load balancer in front of them"
_OF_REDIRECT = "write the URL that Connect itself answers at; a login page may stand before it"
_OF_NAME = "this version takes no request about a connector with a slash in its name"


class Refused(RequestError):
    """Connect's own error, with the request that it answers and what to do about it."""

    def __init__(
        self,
        status: int,
        message: str,
        exchange: str = "",
        hint: str = "",
        refusal: Refusal | None = None,
    ) -> None:
        super().__init__(status, message, refusal)
        self.exchange, self.hint = exchange, hint
        self.diagnostics = (Diagnostic(f"connect.{status}", message, why=exchange, hint=hint),)


class NotConnect(Unreachable):
    """An answer that Connect does not give to such a request; `exchange` names both."""

    def __init__(self, problem: Diagnostic, status: int = 0, exchange: str = "") -> None:
        super().__init__(problem)
        self.status, self.exchange = status, exchange


@dataclass(frozen=True, slots=True)
class TargetRequest:
    """A request to a target; `content` is its body."""

    target: RestTarget
    method: str
    path: str
    content: bytes | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        """Returns the address, without a login."""
        return f"{shown_url(self.target).rstrip('/')}{self.path}"

    @property
    def redactor(self) -> Redactor:
        """Hides what was sent: the login, and the texts of the body."""
        return Redactor([*_login(self.target), *_sent(self.content)], mask=HIDDEN)

    def __str__(self) -> str:
        return f"{self.method} {self.url}"


def connects_text(response: httpx.Response) -> str | None:
    """Returns Connect's error text; None if something else answers."""
    body = decoded(response)
    if not isinstance(body, dict) or not isinstance(body.get("error_code"), int):
        return None
    # Connect writes null for an exception without a text
    return str(body.get("message") or f"HTTP {response.status_code} {response.reason_phrase}")


def decoded(response: httpx.Response) -> Any:
    """Returns the body; None for one that is not JSON."""
    if not response.headers.get("Content-Type", "").startswith("application/json"):
        return None
    try:
        return read_json(response.content)
    except ValueError:
        return None


def is_starting(response: httpx.Response) -> bool:
    """Returns True if Jetty answers for a worker that has not registered its resources yet. Once it
    has, Connect itself answers 404."""
    if response.status_code != 404 or connects_text(response) is not None:
        return False
    body = decoded(response)
    return isinstance(body, dict) and {"message", "url", "status"} <= body.keys()


def refused(request: TargetRequest, response: httpx.Response, login_hint: str) -> Exception:
    """Returns the error of an answer without success."""
    status, text = response.status_code, connects_text(response)
    exchange = in_words(request, response)
    if status in _NOT_ALLOWED:
        problem = f"the Connect cluster does not allow this: {status} {response.reason_phrase}"
        return Unreachable(_problem("not-allowed", problem, request, exchange, login_hint))
    if text is not None:
        hint = _HINTS.get(status, _OF_WORKER)
        answered = f"{request} answered {_status(response)}"
        return Refused(status, text, answered, hint, refusal_in(response.headers))
    if status == 400 and takes_no_such_path(response.text[:_READ]):
        return Refused(status, "the worker takes no such path", exchange, _OF_NAME)
    if response.is_server_error or status in (413, 429):
        problem = f"a proxy or load balancer in front of the Connect cluster answers {status}"
        hint = _HINTS.get(status, _OF_BALANCER)
        return Unreachable(_problem("unreachable", problem, request, exchange, hint))
    return not_connect(request, response)


def not_connect(request: TargetRequest, response: httpx.Response, reason: str = "") -> NotConnect:
    """Returns the error of an answer that Connect would not give, because of its body if there is a
    `reason`."""
    text = "what answers is not a Connect cluster"
    exchange = f"{request} answered {_status(response)}"
    hint = _OF_REDIRECT if response.is_redirect else _OF_ANYTHING_ELSE
    cause = f"{exchange}: {reason or _came(request, response)}"
    problem = _problem("not-connect", text, request, cause, hint)
    return NotConnect(problem, response.status_code, exchange)


def in_words(request: TargetRequest, response: httpx.Response) -> str:
    """Returns request and answer in one line: `GET http://… answered 500 …: <body>`."""
    return f"{request} answered {_status(response)}: {_came(request, response)}"


def short(text: str, redactor: Redactor) -> str:
    """Returns a body in one line of bounded length, without tags and without secrets that can be
    recognised or that `redactor` has."""
    plain = _TAGS.sub(" ", redactor.redact(unescape(text[:_READ])))
    plain = Redactor(secret_parts(plain), mask=HIDDEN, shortest=1).redact(plain)
    plain = _SCHEME_SECRET.sub(rf"\1 {HIDDEN}", plain)
    line = " ".join(
        "".join(character if character.isprintable() else " " for character in plain).split()
    )
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"


def without_login(url: str) -> str:
    """Returns an address without user, password, query and fragment."""
    split = urlsplit(url)
    host = split.netloc.rpartition("@")[2]
    return urlunsplit((split.scheme, host, split.path, "", ""))


def _problem(code: str, problem: str, request: TargetRequest, reason: str, hint: str) -> Diagnostic:
    return Diagnostic(f"cluster.{code}", problem, shown_url(request.target), reason, hint)


def _status(response: httpx.Response) -> str:
    return f"{response.status_code} {response.reason_phrase}".rstrip()


def _came(request: TargetRequest, response: httpx.Response) -> str:
    if response.is_redirect:
        try:
            return f"a redirect to {without_login(response.headers['Location'])}"
        except (KeyError, ValueError):
            return "a redirect"
    if not response.content.strip():
        return "an empty body"
    text = connects_text(response) or response.content[:_READ].decode("utf-8", "replace")
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip()
    media_type = f"{kind}, " if kind and kind != "application/json" and kind.isprintable() else ""
    return f"{media_type}{short(text, request.redactor)}"


def _login(target: RestTarget) -> Iterator[str]:
    url = httpx.URL(target.url)
    for user, password in ((target.user, target.password), (url.username, url.password)):
        if password:
            yield password
            yield base64.b64encode(f"{user}:{password}".encode()).decode()
    for value in target.headers.values():
        yield value
        yield from value.split()[1:]


def _sent(content: bytes | None) -> Iterator[str]:
    """Yields the texts of a body that was sent: an answer may echo secrets among them."""
    if content:
        yield from _texts(orjson.loads(content))


def _texts(value: object, leaving_out: Collection[str] = _PLAIN_KEYS) -> Iterator[str]:
    match value:
        case dict():
            for key, item in value.items():
                if key not in leaving_out:
                    yield from _texts(item)
        case list():
            for item in value:
                yield from _texts(item)
        case str():
            yield value
        case _:
            pass
