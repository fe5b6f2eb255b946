"""Parses request bodies as Connect does, with its answers to invalid ones.

Those answers are odd: what Jackson cannot map is a 500 with Jackson's text (connect-facts 4.1), and
scalars in a config become the strings that were written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connect_runtime.api.java_text import java_trim
from connect_runtime.herder.verbs import RequestError
from connect_runtime.rest.jackson import PLACE, json_kind, mismatch, plain_text, read_json, refused
from connect_specs.desired import OffsetEntry
from connect_specs.states import TargetState

RawConfig = dict[str, str | None]

_ENTITIES = "org.apache.kafka.connect.runtime.rest.entities"
_MAP = "java.util.LinkedHashMap<java.lang.String,java.lang.String>"
_NO_CONFIG = 'Cannot invoke "java.util.Map.get(Object)" because "connectorConfig" is null'
_NO_OFFSETS = "Partitions / offsets need to be provided for an alter offsets request"


@dataclass(frozen=True, slots=True)
class CreateRequest:
    """The body of POST /connectors, the name trimmed and put into the config."""

    name: str
    config: RawConfig
    initial_state: TargetState | None


def create_request(body: bytes) -> CreateRequest:
    """Parses the body of POST /connectors. Raises RequestError."""
    kind = f"{_ENTITIES}.CreateConnectorRequest"
    parsed = read_json(body, kind=kind)
    fields = _object(parsed, kind, ("config", "name", "initial_state"))
    if fields is None:
        raise refused(f'Cannot invoke "{kind}.name()" because "createRequest" is null')
    name = java_trim(_string(fields.get("name")) or "")
    state = _initial_state(fields.get("initial_state"), kind)
    config = _config(fields.get("config"))
    if config is None:
        raise refused(_NO_CONFIG)
    return CreateRequest(name, named(config, name), state)


def config_request(body: bytes, name: str) -> RawConfig:
    """Parses the body of PUT config, adding the connector's name. Raises RequestError."""
    config = _config(read_json(body))
    if config is None:
        raise refused(_NO_CONFIG)
    return named(config, name)


def patch_request(body: bytes) -> RawConfig | None:
    """Parses the body of PATCH config; None removes a key. Returns None for JSON's null, which is
    `no_patch` of a connector that exists. Raises RequestError."""
    return _config(read_json(body))


def no_patch() -> RequestError:
    """Returns the refusal of a patch that is null."""
    return refused(
        'Cannot invoke "java.util.Map.forEach(java.util.function.BiConsumer)" because "patch" is '
        "null"
    )


def validate_request(body: bytes) -> RawConfig:
    """Parses the body of PUT config/validate. Raises RequestError 400, where Connect answers 500
    with the texts of Java's exceptions: validation tells what is wrong."""
    try:
        found = read_json(body)
    except RequestError as error:
        if error.status == 400:
            raise
        raise RequestError(400, f"The request's body is not valid: {plain_text(error)}") from None
    if not isinstance(found, dict):
        kind = "empty" if found is None and not body.strip() else json_kind(found)
        text = f"The request's body is {kind}; it must be a JSON object: the connector's config"
        raise RequestError(400, text)
    for key, value in found.items():
        if isinstance(value, dict | list):
            must = "a value must be a string, a number, true, false or null"
            raise RequestError(400, f"The value of '{key}' is {json_kind(value)}; {must}")
    return {key: _string(value) for key, value in found.items()}


def logger_request(body: bytes) -> str:
    """Parses the body of PUT of a logger: the level, as it was written. Raises RequestError."""
    fields = _config(read_json(body))
    if fields is None:
        raise refused('Cannot invoke "java.util.Map.get(Object)" because "levelMap" is null')
    level = fields.get("level")
    if level is None:
        raise RequestError(400, "Desired 'level' parameter was not specified in request.")
    if not level:
        raise refused("Illegal null or empty Level name.")
    return level


def task_configs_request(body: bytes) -> Sequence[RawConfig | None]:
    """Parses the body of POST tasks, which only Apache's workers send. Raises RequestError."""
    if not body:
        raise refused(f"No content to map due to end-of-input{PLACE} line: 1]")
    configs = read_json(body)
    if configs is None:
        return ()
    if not isinstance(configs, list):
        raise mismatch(
            "java.util.ArrayList<java.util.Map<java.lang.String,java.lang.String>>", configs
        )
    return [_config(config) for config in configs]


def offsets_request(body: bytes) -> Sequence[OffsetEntry]:
    """Parses the body of PATCH offsets: never empty. Raises RequestError."""
    kind = f"{_ENTITIES}.ConnectorOffsets"
    parsed = read_json(body, kind=kind, numbers_as_written=False)
    fields = _object(parsed, kind, ("offsets",))
    if fields is None:
        raise refused(f'Cannot invoke "{kind}.offsets()" because "offsets" is null')
    entries = fields.get("offsets")
    if entries is None or entries == []:
        raise RequestError(400, _NO_OFFSETS)
    if not isinstance(entries, list):
        raise mismatch(f"java.util.ArrayList<{_ENTITIES}.ConnectorOffset>", entries)
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
        raise refused(f'Cannot invoke "{kind}.partition()" because "offset" is null')
    for key in ("partition", "offset"):
        if not isinstance(fields.get(key), dict | None):
            raise mismatch(
                "java.util.LinkedHashMap<java.lang.String,java.lang.Object>", fields[key]
            )
    # the herder reports a missing partition
    return OffsetEntry(fields.get("partition"), fields.get("offset"))  # type: ignore[arg-type]


def _initial_state(value: Any, kind: str) -> TargetState | None:
    text = _string(value)
    if text is None:
        return None
    if text.upper() not in TargetState.__members__:
        raise refused(
            f"Cannot construct instance of `{kind}$InitialState`, problem: No enum constant "
            f"{kind}.InitialState.{text.upper()}{PLACE} line: 1, column: 1]"
        )
    return TargetState[text.upper()]


def _config(value: Any) -> RawConfig | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise mismatch(_MAP, value)
    return {key: _string(entry) for key, entry in value.items()}


def _string(value: Any) -> str | None:
    """Converts scalars to strings."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        raise mismatch("java.lang.String", value)
    return None if value is None else str(value)


def _object(value: Any, kind: str, fields: tuple[str, ...]) -> Mapping[str, Any] | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise mismatch(kind, value)
    unknown = next((key for key in value if key not in fields), None)
    if unknown is not None:
        count = "one known property" if len(fields) == 1 else f"{len(fields)} known properties"
        known = ", ".join(f'"{field}"' for field in fields)
        raise refused(
            f'Unrecognized field "{unknown}" (class {kind}), not marked as ignorable '
            f"({count}: {known}){PLACE} line: 1, column: 1]"
        )
    return value
