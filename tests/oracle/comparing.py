"""Asks one runtime, and makes what two of them answered comparable.

What has to differ is named alike: hosts, versions, group names, documentation, map order. Options
of converters and client overrides are compared in any order, as Apache's is that of a hash map.
Everything else is compared as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import httpx

from support.exchanges import Exchange
from support.wait import wait_until

# Of Jackson, of null pointers, of base64 and of Log4j: ours are other texts
_TEXTS_OF_JAVA = re.compile(
    r"Cannot (invoke|deserialize|construct|coerce) |Unrecognized (field|token|character) "
    r"|Unexpected (end-of-input|character|close marker)|Trailing token|Non-standard token"
    r"|Illegal (unquoted|base64) character|Illegal null or empty Level|Input byte|No content to map"
    r"|Algorithm \w+ not available"
)
_PLUGINS = re.compile(r"available connectors are: .*")
_VERSION = r"\d+\.\d+\.\d+(\.Final)?"
_MAY_BE_VERSIONS = ("version", "default_value", "value", "recommended_values")
_AVAILABLE = re.compile(r"available versions: \[.*\]")
_WORKER = re.compile(r"127\.0\.0\.1:\d+")
_MAP = re.compile(r"\{(\w[^{}]*=[^{}]*)\}")
_OPTION = re.compile(
    r"((key|value|header)\.converter\.(?!plugin\.version)|(producer|consumer|admin)\.override\.).*"
)
_OPTION_GROUPS = ("Schemas", "Serialization")
_ERRORS = re.compile(r"(?<=error\(s\):\n).*(?=\nYou can also find)", re.DOTALL)
# A rebalance or a task that is still ending is no answer yet: Apache's own tests ask again.
_PASSING = re.compile(r"rebalance|tasks haven't stopped completely yet|stale configuration")


def ask(client: httpx.Client, exchange: Exchange, names: Mapping[str, str]) -> httpx.Response:
    """The first answer that is more than "not now"."""
    content = exchange.content
    path = exchange.path
    for name, value in names.items():
        path = path.replace(f"{{{name}}}", value)
        content = content and content.replace(f"{{{name}}}", value)
    headers = {"content-type": "application/json"} if content is not None else {}

    def answer() -> httpx.Response | None:
        found = client.request(
            exchange.method, path, content=content, headers={**headers, **exchange.headers}
        )
        return None if _PASSING.search(found.text) else found

    found = wait_until(answer, what=f"an answer to {exchange}", every_s=0.2)
    assert found is not None
    return found


def comparable(response: httpx.Response, names: Mapping[str, str]) -> dict[str, Any]:
    """Status, content type, Location, Allow and body of an answer."""
    text = response.text
    for name, value in names.items():
        text = text.replace(value, f"<{name}>")
    kind = response.headers.get("content-type", "").split(";")[0]
    body = _alike(json.loads(text)) if kind == "application/json" and text else None
    if kind == "" and text.startswith("{"):
        body = _alike(json.loads(text))
    location = response.headers.get("location")
    return {
        "status": response.status_code,
        "content-type": kind,
        "location": location and _WORKER.sub("<worker>", location),
        "allow": _in_any_order(response.headers.get("allow")),
        "text": _in_any_order(text) if kind == "text/plain" else None,
        "body": body,
    }


def _in_any_order(methods: str | None) -> str | None:
    """The order is that of the Java VM, which its archive of classes changes."""
    return methods and ", ".join(sorted(re.split(", ?", methods)))


def differences(ours: Any, theirs: Any, place: str = "") -> list[str]:
    """Where two comparable answers differ, a line each. Where Apache's text is Java's, ours is
    another one."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        keys = [*ours, *(key for key in theirs if key not in ours)]
        pairs = [(key, ours.get(key, "<none>"), theirs.get(key, "<none>")) for key in keys]
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        pairs = [(str(n), a, b) for n, (a, b) in enumerate(zip(ours, theirs, strict=True))]
    elif place == "/body/message" and _TEXTS_OF_JAVA.match(str(theirs)):
        return [] if isinstance(ours, str) else [f"{place}: ours {ours!r}"]
    else:
        return [] if ours == theirs else [f"{place}: ours {ours!r}, Apache's {theirs!r}"]
    return [line for key, a, b in pairs for line in differences(a, b, f"{place}/{key}")]


def _is_only_here(entry: Any) -> bool:
    """Whether it is a plugin that does not come with Apache's worker."""
    name = entry.get("class", "") if isinstance(entry, dict) else entry
    return isinstance(name, str) and name.startswith("io.debezium.")


def _place(info: Any) -> str:
    """Sorts keys without a definition first, then the connector's as they come, then options."""
    if not isinstance(info, dict) or info.get("definition") is None:
        return "0" + json.dumps(info)
    name = info["definition"]["name"]
    return f"2{name}" if _OPTION.fullmatch(name) else "1"


def _alike(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {k: _alike(v, k) for k, v in value.items() if k != "documentation"}
    if isinstance(value, list):
        found = [_alike(entry, key) for entry in value if not _is_only_here(entry)]
        if key == "configs":
            return sorted(found, key=_place)
        if key == "groups":
            return sorted(found, key=lambda group: (group in _OPTION_GROUPS) * group)
        # connectors come in any order
        return sorted(found) if key == "" and all(isinstance(e, str) for e in found) else found
    if not isinstance(value, str):
        return value
    if key in _MAY_BE_VERSIONS and re.fullmatch(_VERSION, value):
        return "<version>"
    value = _AVAILABLE.sub(lambda m: re.sub(_VERSION, "<version>", m[0]), value)
    value = _ERRORS.sub(lambda m: "\n".join(sorted(m[0].split("\n"))), value)
    value = _PLUGINS.sub("available connectors are: <plugins>", value)
    value = _MAP.sub(lambda m: f"{{{', '.join(sorted(m[1].split(', ')))}}}", value)
    return _WORKER.sub("<worker>", value)
