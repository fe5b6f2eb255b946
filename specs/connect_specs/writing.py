"""A connector to the YAML text of its spec. Reading that text gives the same connector.

Pure. Values that YAML 1.1 takes for something else than text are quoted, although our own reader
takes scalars as written: a spec is read by editors and people too. What a spec cannot hold, such as
a name with a control character, the reader says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

from yaml import ScalarNode
from yaml.resolver import Resolver

from connect_specs.connector_parts import CLASS_KEY
from connect_specs.desired import DesiredConnector, Pin

_FIRST_KEYS = (CLASS_KEY, "tasks.max", "topics", "topics.regex", "topic")
_PLAIN = re.compile(
    r"(?:[A-Za-z0-9_/.$]|-(?=[A-Za-z0-9]))"
    r"(?:[A-Za-z0-9_/.,;+@=%?&*$(){}<>-]|:(?=[A-Za-z0-9_/])| (?=[A-Za-z0-9_/.(<$]))*"
)
_AS_WRITTEN = re.compile(r"0|-?[1-9][0-9]{0,17}|true|false")
_UNSEEN = re.compile("[^\x20-\x7e\xa1-\u1fff\u2010-\u2027\u2030-\u205e\u2070-\ud7ff]")
# json.dumps escapes what JSON must; YAML forbids more, and other readers stumble over the rest
_ESCAPED = re.compile("[\x7f-\xa0\u2000-\u200f\u2028-\u202f\u205f-\u206f\ufeff\ufffe\uffff]")
_BREAK = "\n"
_RESOLVER = Resolver()


def spec_text(connector: DesiredConnector, notes: Iterable[str] = ()) -> str:
    """The spec as YAML, one document; `notes` become comments at its top."""
    return "".join(f"{line}\n" for line in (*_comments(notes), *_spec_lines(connector)))


def in_reading_order(config: Mapping[str, str]) -> dict[str, str]:
    """A config without its name: what it is and reads first, the rest by the alphabet."""
    first = [key for key in _FIRST_KEYS if key in config]
    rest = sorted(config.keys() - {*first, "name"})
    return {key: config[key] for key in (*first, *rest)}


def map_lines(values: Mapping[str, str], indent: str) -> Iterator[str]:
    """`key: value`, a line each, or more for a value of several lines."""
    for key, text in values.items():
        yield from _entry(key, text, indent)


def scalar(text: str) -> str:
    """A text as a YAML scalar on one line."""
    return text if _is_plain(text) else _json(text)


def _comments(notes: Iterable[str]) -> Iterator[str]:
    for note in notes:
        yield from (f"# {line}" for line in note.splitlines())


def _spec_lines(connector: DesiredConnector) -> Iterator[str]:
    yield f"name: {scalar(connector.name)}"
    if connector.renamed_from is not None:
        yield f"renamed_from: {scalar(connector.renamed_from)}"
    if connector.state is not None:
        yield f"state: {connector.state.value}"
    config = in_reading_order(connector.config)
    yield "config:" if config else "config: {}"
    yield from map_lines(config, "  ")
    if connector.pin is not None:
        yield from _pin_lines(connector.pin)
    if connector.prevent_delete or connector.ignore:
        yield "lifecycle:"
    if connector.prevent_delete:
        yield "  prevent_delete: true"
    if connector.ignore:
        yield "  ignore:"
        yield from (f"    - {scalar(glob)}" for glob in connector.ignore)
    if connector.sensitive:
        yield "sensitive:"
        yield from (f"  - {scalar(key)}" for key in connector.sensitive)


def _pin_lines(pin: Pin) -> Iterator[str]:
    yield "offsets:"
    yield f"  pin: {scalar(pin.id)}"
    if pin.reset:
        yield "  reset: true"
    elif pin.to is not None:
        yield f"  to: {pin.to if isinstance(pin.to, str) else _moment(pin.to)}"
    else:
        yield "  set:"
        for entry in pin.set:
            # a line of JSON is YAML too, and keeps types
            offset = None if entry.offset is None else dict(entry.offset)
            yield f"    - partition: {_json(dict(entry.partition))}"
            yield f"      offset: {_json(offset)}"


def _moment(ms: int) -> str:
    at = datetime.fromtimestamp(ms / 1000, UTC)
    return at.strftime("%Y-%m-%dT%H:%M:%S") + (f".{ms % 1000:03d}Z" if ms % 1000 else "Z")


def _entry(key: str, text: str, indent: str) -> Iterator[str]:
    name = scalar(key)
    head = f"{indent}{name}:"
    # YAML gives a key before its colon 1024 characters
    if len(name) > 1000:
        yield f"{indent}? {name}"
        head = f"{indent}:"
    if _reads_well_as_lines(text):
        yield f"{head} |{'' if text.endswith(_BREAK) else '-'}"
        for line in text.removesuffix(_BREAK).split(_BREAK):
            yield f"{indent}  {line}" if line else ""
    else:
        yield f"{head} {scalar(text)}"


def _reads_well_as_lines(text: str) -> bool:
    """Whether a block of lines holds all of it, with nothing that no eye and few editors see."""
    lines = text.removesuffix(_BREAK).split(_BREAK)
    seen = all(line == line.rstrip() and not _UNSEEN.search(line) for line in lines)
    return len(lines) > 1 and seen and bool(lines[-1]) and lines[0] == lines[0].lstrip() != ""


def _is_plain(text: str) -> bool:
    if not _PLAIN.fullmatch(text):
        return False
    tag = _RESOLVER.resolve(ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    return tag == "tag:yaml.org,2002:str" or bool(_AS_WRITTEN.fullmatch(text))


def _json(value: object) -> str:
    return _ESCAPED.sub(_escape, json.dumps(value, ensure_ascii=False, allow_nan=False))


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"
