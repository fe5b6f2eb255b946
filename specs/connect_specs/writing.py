"""Writes a connector as the YAML text of its spec, or in other tools' formats: Connect's JSON,
.properties, Strimzi's resource.

Pure. Reading the text gives the same connector, except for the fields that a format lacks:
`lost_in`. Values that YAML 1.1 takes for something else than text are quoted, although our own
reader takes scalars as written: a spec is read by editors and people too. The reader reports texts
that a spec cannot hold, such as a name with a control character.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, TypeAlias, assert_never

from yaml import ScalarNode
from yaml.resolver import Resolver

from connect_specs.connector_spec import VERSION_KEY
from connect_specs.desired import DesiredConnector, JsonScalar, Pin
from connect_specs.diagnostics import Diagnostic, Invalid
from connect_specs.plain_text import time_text
from connect_specs.plugin_definitions import CLASS_KEY

ExportFormat: TypeAlias = Literal["json", "properties", "strimzi"]

StrimziVersion: TypeAlias = Literal["v1", "v1beta2"]
ENDINGS: Mapping[ExportFormat, str] = {
    "json": ".json",
    "properties": ".properties",
    "strimzi": ".yaml",
}

_FIRST_KEYS = (CLASS_KEY, "tasks.max", "topics", "topics.regex", "topic")
_PLAIN = re.compile(
    r"(?:[A-Za-z0-9_/.$]|-(?=[A-Za-z0-9]))"
    r"(?:[A-Za-z0-9_/.,;+@=%?&*$(){}<>-]|:(?=[A-Za-z0-9_/])| (?=[A-Za-z0-9_/.(<$]))*"
)
_AS_WRITTEN = re.compile(r"0|-?[1-9][0-9]{0,17}|true|false")
_UNSEEN = re.compile("[^\x20-\x7e\xa1-\u1fff\u2010-\u2027\u2030-\u205e\u2070-\ud7ff]")
# A spec can be a template, and a value must not begin one
_TEMPLATE = re.compile("{(?=[{%#])")
# Characters that YAML forbids, or that other readers misread, and json.dumps does not escape
_ESCAPED = re.compile(
    "{(?=[{%#])|[\x7f-\xa0\u2000-\u200f\u2028-\u202f\u205f-\u206f\ufeff\ufffe\uffff]"
)
# Other types of YAML 1.2 and similar readers, besides those of YAML 1.1 in PyYAML
_OTHER_TYPES = re.compile(
    r"[-+]?\.?[0-9][0-9_]*\.?[0-9_]*([eE][-+]?[0-9]+)?|0[box][0-9a-fA-F_]+|[yYnN]"
)
_BREAK = "\n"
_RESOLVER = Resolver()
_TASKS_KEY = "tasks.max"
_WHOLE = re.compile(r"[1-9][0-9]{0,8}")
_RESOURCE_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_RESOURCE_NAME_MAX = 253
_PROPERTY_ESCAPES = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}


def spec_text(connector: DesiredConnector, notes: Iterable[str] = ()) -> str:
    """Returns the spec as YAML, one document; `notes` become comments at its top."""
    return "".join(f"{line}\n" for line in (*_comments(notes), *_spec_lines(connector)))


def in_reading_order(config: Mapping[str, str]) -> dict[str, str]:
    """Returns a config without its name: class, tasks and topics first, the rest alphabetically."""
    first = [key for key in _FIRST_KEYS if key in config]
    alphabetical = sorted(config.keys() - {*first, "name"})
    return {key: config[key] for key in (*first, *alphabetical)}


def map_lines(values: Mapping[str, str], indent: str) -> Iterator[str]:
    """Yields `key: value` lines; a value of several lines takes more than one."""
    for key, text in values.items():
        yield from _entry(key, text, indent)


def scalar(text: str) -> str:
    """Returns a text as a YAML scalar on one line."""
    return text if _is_plain(text) else json_text(text)


def _comments(notes: Iterable[str]) -> Iterator[str]:
    for note in notes:
        yield from (f"# {_TEMPLATE.sub('{ ', line)}" for line in note.splitlines())


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
    if connector.allow_zero_tasks:
        yield "health:"
        yield "  allow_zero_tasks: true"
    if connector.sensitive:
        yield "sensitive:"
        yield from (f"  - {scalar(key)}" for key in connector.sensitive)


def _pin_lines(pin: Pin) -> Iterator[str]:
    yield "offsets:"
    yield f"  pin: {scalar(pin.id)}"
    if pin.reset:
        yield "  reset: true"
    elif pin.to is not None:
        yield f"  to: {pin.to if isinstance(pin.to, str) else time_text(pin.to, exact=True)}"
    else:
        yield "  set:"
        for entry in pin.set:
            yield from _typed_lines("    - partition", entry.partition)
            yield from _typed_lines("      offset", entry.offset)


def _typed_lines(head: str, values: Mapping[str, JsonScalar] | None) -> Iterator[str]:
    """Yields values whose types matter: text that looks like another type is quoted."""
    if not values:
        yield f"{head}: {'null' if values is None else '{}'}"
        return
    yield f"{head}:"
    for key, value in values.items():
        if isinstance(value, str) and not _AS_WRITTEN.fullmatch(value):
            yield from _entry(key, value, "        ")
        else:
            *key_lines, head = _key(key, "        ")
            yield from key_lines
            yield f"{head} {json_text(value)}"


def _key(key: str, indent: str) -> Iterator[str]:
    """Yields the lines up to the colon: YAML gives a key before its colon 1024 characters."""
    name = scalar(key)
    if len(name) > 1000:
        yield f"{indent}? {name}"
        yield f"{indent}:"
    else:
        yield f"{indent}{name}:"


def _entry(key: str, text: str, indent: str) -> Iterator[str]:
    *key_lines, head = _key(key, indent)
    yield from key_lines
    if _reads_well_as_lines(text):
        yield f"{head} |{'' if text.endswith(_BREAK) else '-'}"
        for line in text.removesuffix(_BREAK).split(_BREAK):
            yield f"{indent}  {line}" if line else ""
    else:
        yield f"{head} {scalar(text)}"


def _reads_well_as_lines(text: str) -> bool:
    """Returns True if a YAML block can hold all of it, without characters that editors do not
    show."""
    lines = text.removesuffix(_BREAK).split(_BREAK)
    visible = all(line == line.rstrip() and not _UNSEEN.search(line) for line in lines)
    bounded = lines[0] == lines[0].lstrip() != "" and bool(lines[-1])
    return len(lines) > 1 and visible and bounded and not _TEMPLATE.search(text)


def _is_plain(text: str) -> bool:
    if not _PLAIN.fullmatch(text) or _TEMPLATE.search(text):
        return False
    if _AS_WRITTEN.fullmatch(text):
        return True
    if _OTHER_TYPES.fullmatch(text):
        return False
    tag = _RESOLVER.resolve(ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    return bool(tag == "tag:yaml.org,2002:str")


def json_text(value: object, indent: int | None = None) -> str:
    """Returns JSON that YAML reads too, and that does not begin a template."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent)
    return _ESCAPED.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


# --- other tools' formats ---


def export_text(
    connector: DesiredConnector,
    export_format: ExportFormat,
    *,
    strimzi_cluster: str | None = None,
    strimzi_version: StrimziVersion = "v1",
) -> str:
    """Returns the connector in that format. Raises Invalid for one that it cannot express.

    `strimzi_cluster` is the KafkaConnect resource that a KafkaConnector belongs to, and
    `strimzi_version` the version of Strimzi's API.
    """
    match export_format:
        case "json":
            return _json_document(connector)
        case "properties":
            return _properties_text(connector)
        case "strimzi":
            return _strimzi_text(connector, strimzi_cluster, strimzi_version)
        case _:
            assert_never(export_format)


def lost_in(connector: DesiredConnector, export_format: ExportFormat) -> tuple[str, ...]:
    """Returns the spec's fields that the format has no equivalent for."""
    fields = {
        "renamed_from": connector.renamed_from is not None,
        "state": connector.state is not None and export_format == "properties",
        "offsets": connector.pin is not None,
        "lifecycle": connector.prevent_delete or bool(connector.ignore),
        "health": connector.allow_zero_tasks,
        "sensitive": bool(connector.sensitive),
    }
    return tuple(field for field, lost in fields.items() if lost)


def _json_document(connector: DesiredConnector) -> str:
    """Returns the body of `POST /connectors` (KIP-980)."""
    config = {"name": connector.name} | in_reading_order(connector.config)
    document: dict[str, object] = {"name": connector.name, "config": config}
    if connector.state is not None:
        document["initial_state"] = connector.state.value.upper()
    return json_text(document, indent=2) + "\n"


def _properties_text(connector: DesiredConnector) -> str:
    config = {"name": connector.name} | in_reading_order(connector.config)
    lines = (f"{_property(key, True)}={_property(text, False)}\n" for key, text in config.items())
    return "".join(lines)


def _property(text: str, is_key: bool) -> str:
    """Returns the text as java.util.Properties stores it: ASCII, other characters as UTF-16 units
    that Java reads.
    """
    escaped: list[str] = []
    for at, character in enumerate(text):
        if character in _PROPERTY_ESCAPES:
            escaped.append(_PROPERTY_ESCAPES[character])
        elif character in "\\=:#!" or (character == " " and (is_key or at == 0)):
            escaped.append(f"\\{character}")
        elif " " <= character <= "~" and not _TEMPLATE.match(text, at):
            escaped.append(character)
        else:
            units = character.encode("utf-16-be").hex().upper()
            escaped += [f"\\u{units[unit : unit + 4]}" for unit in range(0, len(units), 4)]
    return "".join(escaped)


def _strimzi_text(connector: DesiredConnector, cluster: str | None, version: StrimziVersion) -> str:
    problems = tuple(_not_for_strimzi(connector))
    if problems:
        raise Invalid(*problems)
    return "".join(f"{line}\n" for line in _strimzi_lines(connector, cluster, version))


def _not_for_strimzi(connector: DesiredConnector) -> Iterator[Diagnostic]:
    name, tasks = connector.name, connector.config.get(_TASKS_KEY)
    if not _RESOURCE_NAME.fullmatch(name) or len(name) > _RESOURCE_NAME_MAX:
        message = "the connector's name is not a valid name of a Kubernetes resource"
        hint = "Kubernetes accepts lowercase letters, digits, '-' and '.'"
        yield Diagnostic("export.strimzi-name", message, name, hint=hint)
    if tasks is not None and not _WHOLE.fullmatch(tasks):
        message = f"{_TASKS_KEY!r} is not a whole number, as tasksMax must be"
        yield Diagnostic("export.strimzi-tasks", message, name, hint="write a whole number")


def _strimzi_lines(
    connector: DesiredConnector, cluster: str | None, version: StrimziVersion
) -> Iterator[str]:
    yield f"apiVersion: kafka.strimzi.io/{version}"
    yield "kind: KafkaConnector"
    yield "metadata:"
    yield f"  name: {scalar(connector.name)}"
    if cluster is not None:
        yield "  labels:"
        yield f"    strimzi.io/cluster: {scalar(cluster)}"
    yield "spec:"
    yield f"  class: {scalar(connector.config.get(CLASS_KEY, ''))}"
    if _TASKS_KEY in connector.config:
        yield f"  tasksMax: {connector.config[_TASKS_KEY]}"
    if VERSION_KEY in connector.config:
        yield f"  version: {scalar(connector.config[VERSION_KEY])}"
    if connector.state is not None:
        yield f"  state: {connector.state.value}"
    config = {
        key: text
        for key, text in in_reading_order(connector.config).items()
        if key not in (CLASS_KEY, _TASKS_KEY, VERSION_KEY)
    }
    yield "  config:" if config else "  config: {}"
    yield from map_lines(config, "    ")
