"""Parses request bodies as Connect does, with its answers to invalid ones.

Those answers are odd: what Jackson cannot map is a 500 with Jackson's text (connect-facts 4.1), and
scalars in a config become the strings that were written. Texts begin as Jackson's do; where they
name a place in the body, ours may differ.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from connect_runtime.herder.errors import RequestError
from connect_specs.desired import OffsetEntry
from connect_specs.states import TargetState

RawConfig = dict[str, str | None]

_ENTITIES = "org.apache.kafka.connect.runtime.rest.entities"
_MAP = "java.util.LinkedHashMap<java.lang.String,java.lang.String>"
_PLACE = "\n at [Source: REDACTED (`StreamReadFeature.INCLUDE_SOURCE_IN_LOCATION` disabled);"
_NO_CONFIG = 'Cannot invoke "java.util.Map.get(Object)" because "connectorConfig" is null'
_NO_OFFSETS = "Partitions / offsets need to be provided for an alter offsets request"

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
# Escapes of other characters, and of both halves of a pair
_OTHER_ESCAPES = re.compile(
    r"\\[^u]|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}", re.DOTALL
)
# Jackson's limit (StreamReadConstraints)
_DEPTH_MAX = 1000
_TOKEN_EXPECTED = "(JSON String, Number, Array, Object or token 'null', 'true' or 'false')"
# Jackson's name for what begins so
_TOKENS = (
    (r"\{", "START_OBJECT"),
    (r"\[", "START_ARRAY"),
    (r'"', "VALUE_STRING"),
    (r"-?\d+\b(?![.eE])", "VALUE_NUMBER_INT"),
    (r"-?\d", "VALUE_NUMBER_FLOAT"),
    (r"true\b", "VALUE_TRUE"),
    (r"false\b", "VALUE_FALSE"),
    (r"null\b", "VALUE_NULL"),
)
# Also one without an end, and without going back: a search from each of its quotes would take hours
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"?', re.DOTALL)


class _Number(str):
    """A JSON number as it was written."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class CreateRequest:
    """The body of POST /connectors, the name trimmed and put into the config."""

    name: str
    config: RawConfig
    initial_state: TargetState | None


def create_request(body: bytes) -> CreateRequest:
    """Parses the body of POST /connectors. Raises RequestError."""
    kind = f"{_ENTITIES}.CreateConnectorRequest"
    parsed = _parsed(body, kind=kind)
    fields = _object(parsed, kind, ("config", "name", "initial_state"))
    if fields is None:
        raise _refused(f'Cannot invoke "{kind}.name()" because "createRequest" is null')
    name = (_string(fields.get("name")) or "").strip()
    state = _initial_state(fields.get("initial_state"), kind)
    config = _config(fields.get("config"))
    if config is None:
        raise _refused(_NO_CONFIG)
    return CreateRequest(name, named(config, name), state)


def config_request(body: bytes, name: str) -> RawConfig:
    """Parses the body of PUT config, adding the connector's name. Raises RequestError."""
    config = _config(_parsed(body))
    if config is None:
        raise _refused(_NO_CONFIG)
    return named(config, name)


def patch_request(body: bytes) -> RawConfig:
    """Parses the body of PATCH config; None removes a key. Raises RequestError."""
    patch = _config(_parsed(body))
    if patch is None:
        raise _refused(
            'Cannot invoke "java.util.Map.forEach(java.util.function.BiConsumer)" because "patch"'
            " is null"
        )
    return patch


def validate_request(body: bytes) -> RawConfig:
    """Parses the body of PUT config/validate. Raises RequestError."""
    config = _config(_parsed(body))
    if config is None:
        raise _refused(
            'Cannot invoke "java.util.Map.get(Object)" because "connectorConfig" is null'
        )
    return config


def logger_request(body: bytes) -> str:
    """Parses the body of PUT of a logger: the level, as it was written. Raises RequestError."""
    fields = _config(_parsed(body))
    if fields is None:
        raise _refused('Cannot invoke "java.util.Map.get(Object)" because "levelMap" is null')
    level = fields.get("level")
    if level is None:
        raise RequestError(400, "Desired 'level' parameter was not specified in request.")
    if not level:
        raise _refused("Illegal null or empty Level name.")
    return level


def task_configs_request(body: bytes) -> Sequence[RawConfig | None]:
    """Parses the body of POST tasks, which only Apache's workers send. Raises RequestError."""
    if not body:
        raise _refused(f"No content to map due to end-of-input{_PLACE} line: 1]")
    configs = _parsed(body)
    if configs is None:
        return ()
    if not isinstance(configs, list):
        raise _mismatch(
            "java.util.ArrayList<java.util.Map<java.lang.String,java.lang.String>>", configs
        )
    return [_config(config) for config in configs]


def offsets_request(body: bytes) -> Sequence[OffsetEntry]:
    """Parses the body of PATCH offsets: never empty. Raises RequestError."""
    kind = f"{_ENTITIES}.ConnectorOffsets"
    parsed = _parsed(body, kind=kind, numbers_as_written=False)
    fields = _object(parsed, kind, ("offsets",))
    if fields is None:
        raise _refused(f'Cannot invoke "{kind}.offsets()" because "offsets" is null')
    entries = fields.get("offsets")
    if entries is None or entries == []:
        raise RequestError(400, _NO_OFFSETS)
    if not isinstance(entries, list):
        raise _mismatch(f"java.util.ArrayList<{_ENTITIES}.ConnectorOffset>", entries)
    return [_offset_entry(entry) for entry in entries]


def named(config: RawConfig, name: str) -> RawConfig:
    """Returns the config with the connector's name. Raises RequestError if it has another one."""
    included = config.get("name")
    if included is None:
        return {**config, "name": name}
    if included != name:
        raise RequestError(
            400,
            f"Connector name configuration ({included}) doesn't match connector name in the URL "
            f"({name})",
        )
    return config


def _offset_entry(entry: Any) -> OffsetEntry:
    kind = f"{_ENTITIES}.ConnectorOffset"
    fields = _object(entry, kind, ("partition", "offset"))
    if fields is None:
        raise _refused(f'Cannot invoke "{kind}.partition()" because "offset" is null')
    for key in ("partition", "offset"):
        if not isinstance(fields.get(key), dict | None):
            raise _mismatch(
                "java.util.LinkedHashMap<java.lang.String,java.lang.Object>", fields[key]
            )
    # the herder reports a missing partition
    return OffsetEntry(fields.get("partition"), fields.get("offset"))  # type: ignore[arg-type]


def _initial_state(value: Any, kind: str) -> TargetState | None:
    text = _string(value)
    if text is None:
        return None
    if text.upper() not in TargetState.__members__:
        raise _refused(
            f"Cannot construct instance of `{kind}$InitialState`, problem: No enum constant "
            f"{kind}.InitialState.{text.upper()}{_PLACE} line: 1, column: 1]"
        )
    return TargetState[text.upper()]


def _config(value: Any) -> RawConfig | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise _mismatch(_MAP, value)
    return {key: _string(entry) for key, entry in value.items()}


def _string(value: Any) -> str | None:
    """Converts scalars to strings."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        raise _mismatch("java.lang.String", value)
    return None if value is None else str(value)


def _object(value: Any, kind: str, fields: tuple[str, ...]) -> Mapping[str, Any] | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise _mismatch(kind, value)
    unknown = next((key for key in value if key not in fields), None)
    if unknown is not None:
        count = "one known property" if len(fields) == 1 else f"{len(fields)} known properties"
        known = ", ".join(f'"{field}"' for field in fields)
        raise _refused(
            f'Unrecognized field "{unknown}" (class {kind}), not marked as ignorable '
            f"({count}: {known}]){_PLACE} line: 1, column: 1]"
        )
    return value


def _parsed(body: bytes, *, kind: str = "java.util.Map", numbers_as_written: bool = True) -> Any:
    """Parses JSON by Jackson's rules: no body is null, and nothing may follow the value. `kind` is
    the Java class that the value becomes."""
    try:
        text = body.decode("utf-8-sig").lstrip(" \t\r\n")
    except UnicodeDecodeError as error:
        byte = body[error.start]
        raise _refused(f"Invalid UTF-8 start byte 0x{byte:x}{_PLACE} line: 1, column: 1]") from None
    if not text:
        return None
    _check_depth(text)
    number: Callable[[str], Any] | None = _Number if numbers_as_written else None
    decoder = json.JSONDecoder(parse_float=number, parse_int=number, parse_constant=_no_constant)
    try:
        value, end = decoder.raw_decode(text)
    except (ValueError, RecursionError) as error:
        raise _refused(_syntax_text(text, error)) from None
    _check_characters(text)
    # of a list, its type is refused first
    if text[end:].strip(" \t\r\n") and not isinstance(value, list):
        raise _refused(_trailing_text(text, end, kind))
    return value


def _check_characters(text: str) -> None:
    """Raises RequestError for half of a surrogate pair, which Java's strings hold and UTF-8 does
    not."""
    if _SURROGATE.search(text) and _SURROGATE.search(_OTHER_ESCAPES.sub("", text)):
        raise RequestError(
            400,
            "The request's body holds half of a surrogate pair (\\ud800 to \\udfff), which is no "
            "character and cannot be stored",
        )


def _trailing_text(text: str, end: int, kind: str) -> str:
    rest = text[end:].lstrip(" \t\r\n")
    at = len(text) - len(rest)
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    place = f"{_PLACE} line: {line}, column: {column}]"
    token = next((name for form, name in _TOKENS if re.match(form, rest)), None)
    if token is not None:
        return (
            f"Trailing token (of type {token}) found after value (bound as `{kind}`): not allowed "
            f"as per `DeserializationFeature.FAIL_ON_TRAILING_TOKENS`{place}"
        )
    if rest[0] in "]}":
        name = "Array" if rest[0] == "]" else "Object"
        return f"Unexpected close marker '{rest[0]}': no open {name} to close{place}"
    if rest[0].isalpha():
        return f"Unrecognized token '{rest.split()[0]}': was expecting {_TOKEN_EXPECTED}{place}"
    return f"Unexpected character ('{rest[0]}' (code {ord(rest[0])})): expected a value{place}"


def _check_depth(text: str) -> None:
    """Raises RequestError where arrays and objects nest too deeply."""
    if text.count("[") + text.count("{") <= _DEPTH_MAX:
        return
    depth = 0
    for mark in _STRING.sub("", text):
        if mark in "[{":
            depth += 1
            if depth > _DEPTH_MAX:
                raise _refused(
                    f"Document nesting depth ({depth}) exceeds the maximum allowed ({_DEPTH_MAX}, "
                    "from `StreamReadConstraints.getMaxNestingDepth()`)"
                )
        elif mark in "]}":
            depth -= 1


def _no_constant(name: str) -> NoReturn:
    token = name.lstrip("-")
    raise _refused(
        f"Non-standard token '{token}': enable `JsonReadFeature.ALLOW_NON_NUMERIC_NUMBERS`"
    )


def _syntax_text(text: str, error: Exception) -> str:
    if not isinstance(error, json.JSONDecodeError):
        return f"Document nesting depth or number length exceeds the maximum allowed{_PLACE}"
    at = error.pos
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    place = f"{_PLACE} line: {line}, column: {column}]"
    if at >= len(text) or error.msg.startswith("Unterminated string"):
        marker = "Array" if text[:1] == "[" else "Object"
        if text.rstrip()[-1:] == ":":
            return f"Unexpected end-of-input within/between {marker} entries{place}"
        start = f"(start marker at {_PLACE.strip().removeprefix('at ')} line: 1, column: 1])"
        return f"Unexpected end-of-input: expected close marker for {marker} {start}{place}"
    if error.msg == "Expecting value" and text[at].isalpha():
        token = text[at:].split()[0].rstrip(",}]")
        return f"Unrecognized token '{token}': was expecting {_TOKEN_EXPECTED}{place}"
    found = f"Unexpected character ('{text[at]}' (code {ord(text[at])}))"
    if "property name" in error.msg:
        found += ": was expecting double-quote to start field name"
    return f"{found}{place}"


def _mismatch(kind: str, value: Any) -> RequestError:
    place = f"{_PLACE} line: 1, column: 1]"
    if isinstance(value, dict):
        token = "Object value (token `JsonToken.START_OBJECT`)"
    elif isinstance(value, list):
        token = "Array value (token `JsonToken.START_ARRAY`)"
    else:
        return _refused(
            f"Cannot construct instance of `{kind}` (although at least one Creator exists): no "
            f"{_scalar(value)}{place}"
        )
    return _refused(f"Cannot deserialize value of type `{kind}` from {token}{place}")


def _scalar(value: Any) -> str:
    maker = "argument constructor/factory method to deserialize from"
    if isinstance(value, bool):
        return f"boolean/Boolean-{maker} boolean value ({str(value).lower()})"
    if isinstance(value, str) and not isinstance(value, _Number):
        return f"String-{maker} String value ('{value}')"
    whole = str(value).lstrip("-").isdigit()
    return f"{'int/Int' if whole else 'double/Double'}-{maker} Number value ({value})"


def _refused(message: str) -> RequestError:
    return RequestError(500, message)
