"""The requests of exchanges.yaml and plugin_exchanges.yaml, which both runtimes are asked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import cycle, product
from pathlib import Path
from typing import Any, Final

import yaml


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request. `body` text is sent as it is, anything else as JSON; None is no body. `differs`
    says why the answer's body is meant to be another one, and `status` which status ours has then,
    if that is another one, too."""

    method: str
    path: str
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    differs: str = ""
    status: int | None = None

    @property
    def content(self) -> str | None:
        """The body as sent."""
        if self.body is None or isinstance(self.body, str):
            return self.body
        return json.dumps(self.body)

    def __str__(self) -> str:
        content = (self.content or "")[:70]
        return f"{self.method} {self.path} {content}".strip()


_JAVA: Final = "org.apache.kafka.connect"
_OF_KIND: Final = {
    "sink": {"name": "new", "connector.class": "FileStreamSink", "topics": "{topic}"},
    "source": {"name": "new", "connector.class": "FileStreamSource", "topic": "{topic}"},
}
_ALIASES: Final = {
    "transform": ("a", "transforms"),
    "predicate": ("p", "transforms.predicates"),
}
_in_turn: Final = cycle(_OF_KIND.values())


def exchanges(*sections: str) -> list[Exchange]:
    """Returns the exchanges of sections of exchanges.yaml, in its order."""
    table = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
    return [_exchange(entry) for section in sections for entry in table[section]]


def plugin_exchanges(*sections: str) -> list[Exchange]:
    """Returns the exchanges of sections of plugin_exchanges.yaml, in its order."""
    text = Path(__file__).with_name("plugin_exchanges.yaml").read_text()
    table = yaml.safe_load(text.replace("{java}", _JAVA))
    entries = (entry for section in sections for entry in table[section])
    rows = ([_exchange(e)] if isinstance(e, str) else _of_plugins(e) for e in entries)
    return [exchange for row in rows for exchange in row]


def _of_plugins(entry: Mapping[str, Any]) -> Iterator[Exchange]:
    (kind, given), *more = entry.items()
    if kind.startswith("keys"):
        query, _, package = kind.removeprefix("keys").partition(" of ")
        for name in given:
            plugin = f"{_JAVA}.{package}.{name}" if package else name
            yield Exchange("GET", f"/connector-plugins/{plugin}/config{query}")
        return
    for config in given if isinstance(given, list) else [given]:
        for options in _each(_config(kind, config)):
            body = (_OF_KIND.get(kind) or next(_in_turn)) | options
            path = f"/connector-plugins/{body['connector.class']}/config/validate"
            yield Exchange("PUT", path, body, **dict(more))


def _config(kind: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The keys of a transformation or predicate by its class, or of any other config."""
    if kind not in _ALIASES:
        return given
    ((name, options),) = given.items()
    alias, package = _ALIASES[kind]
    full = name if "." in name else f"{_JAVA}.{package}.{name}"
    prefixed = {f"{kind}s.{alias}.{key}": value for key, value in options.items()}
    return {f"{kind}s": alias, f"{kind}s.{alias}.type": full, **prefixed}


def _each(config: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    lists = [value if isinstance(value, list) else [value] for value in config.values()]
    for values in product(*lists):
        yield dict(zip(config, values, strict=True))


def _exchange(entry: Any) -> Exchange:
    if isinstance(entry, str):
        return Exchange(*entry.split())
    more = dict(entry)
    if "create" in entry:
        return Exchange("POST", "/connectors", {"name": "new", "config": entry["create"]})
    request = next(key for key in more if " " in key)
    body, differs, status = more.pop(request), more.pop("differs", ""), more.pop("status", None)
    return Exchange(*request.split(), body, more, differs, status)
