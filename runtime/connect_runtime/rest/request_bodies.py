"""Parses the JSON bodies of requests.

The statuses are Connect's, also the odd ones: 500 for a body that is not JSON or not of the right
shape, and scalars of a config become the strings that were sent. Their texts are ours.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from connect_runtime.herder.verbs import RequestError
from connect_runtime.java.scalars import java_trim
from connect_specs.desired import OffsetEntry, TargetState

RawConfig = dict[str, str | None]

_BODY: Final = "The request's body"
_OBJECT: Final = "a JSON object: the connector's config"
_NO_OFFSETS: Final = "Partitions / offsets need to be provided for an alter offsets request"
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")


@dataclass(frozen=True, slots=True)
class CreateRequest:
    """The body of POST /connectors, the name trimmed and put into the config."""

    name: str
    config: RawConfig
    initial_state: TargetState | None


def create_request(body: bytes) -> CreateRequest:
    """Parses the body of POST /connectors. Raises RequestError."""
    fields = _fields(_json(body), _BODY, "name", "config", "initial_state")
    name = java_trim(_string(fields.get("name"), "'name'") or "")
    state = _initial_state(fields.get("initial_state"))
    return CreateRequest(name, _named(_config(fields.get("config"), "'config'"), name), state)


def config_request(body: bytes, name: str) -> RawConfig:
    """Parses the body of PUT config, adding the connector's name. Raises RequestError."""
    return _named(_config(_json(body)), name)


def patch_request(body: bytes) -> RawConfig | None:
    """Parses the body of PATCH config; a value None removes its key. Returns None for JSON's null,
    which `no_patch` refuses if the connector exists. Raises RequestError."""
    patch = _json(body)
    return None if patch is None else _config(patch)


def no_patch() -> RequestError:
    """Returns the refusal of a patch that is null."""
    return _wrong_type(None, _BODY, "a JSON object: the changes to the connector's config")


def validate_request(body: bytes) -> RawConfig:
    """Parses the body of PUT config/validate. Raises RequestError 400, where Connect answers 500:
    the endpoint reports the client's errors."""
    try:
        return _config(_json(body))
    except RequestError as error:
        raise RequestError(400, error.message) from None


def logger_request(body: bytes) -> str:
    """Parses the body of PUT of a logger: the level, as it was sent. Raises RequestError."""
    level = _config(_json(body), expected="a JSON object with the level").get("level")
    if level is None:
        raise RequestError(400, "Desired 'level' parameter was not specified in request.")
    if not level:
        raise _refused("The level is empty; it must be one such as INFO or DEBUG")
    return level


def check_task_configs(body: bytes) -> None:
    """Raises RequestError for a body of POST tasks, which only Apache's workers send, that is not a
    list of configs."""
    configs = _json(body)
    if configs is None and body:
        return
    for config in _list(configs, _BODY):
        if config is not None:
            _config(config, "A task's config")


def offsets_request(body: bytes) -> Sequence[OffsetEntry]:
    """Parses the body of PATCH offsets: never empty. Raises RequestError."""
    fields = _fields(_json(body, numbers_as_sent=False), _BODY, "offsets")
    entries = fields.get("offsets")
    if entries is None or entries == []:
        raise RequestError(400, _NO_OFFSETS)
    return [_offset_entry(entry) for entry in _list(entries, "'offsets'")]


def _offset_entry(entry: Any) -> OffsetEntry:
    fields = _fields(entry, "An entry of 'offsets'", "partition", "offset")
    for key, value in fields.items():
        if not isinstance(value, dict | None):
            raise _wrong_type(value, f"'{key}'", "a JSON object or null")
    # the herder reports a missing partition
    return OffsetEntry(fields.get("partition"), fields.get("offset"))  # type: ignore[arg-type]


def _initial_state(value: Any) -> TargetState | None:
    text = _string(value, "'initial_state'")
    if text is None:
        return None
    if text.upper() not in TargetState.__members__:
        states = ", ".join(TargetState.__members__)
        raise _refused(f"'initial_state' is '{text}'; it must be one of {states}")
    return TargetState[text.upper()]


def _named(config: RawConfig, name: str) -> RawConfig:
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


def _config(value: Any, place: str = _BODY, expected: str = _OBJECT) -> RawConfig:
    if not isinstance(value, dict):
        raise _wrong_type(value, place, expected)
    return {key: _string(entry, f"The value of '{key}'") for key, entry in value.items()}


def _string(value: Any, place: str) -> str | None:
    """Returns a scalar as the string that was sent."""
    if isinstance(value, dict | list):
        raise _wrong_type(value, place, "a string, a number, true, false or null")
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value)


def _fields(value: Any, place: str, *names: str) -> Mapping[str, Any]:
    choice = f"the field{'s' if len(names) > 1 else ''} {', '.join(names)}"
    if not isinstance(value, dict):
        raise _wrong_type(value, place, f"a JSON object with {choice}")
    unknown = next((key for key in value if key not in names), None)
    if unknown is not None:
        raise _refused(f"{place} has an unknown field '{unknown}'; it may have {choice}")
    return value


def _list(value: Any, place: str) -> list[Any]:
    if not isinstance(value, list):
        raise _wrong_type(value, place, "a JSON array")
    return value


class _Number(str):
    """A JSON number as it was sent."""

    __slots__ = ()


def _json(body: bytes, *, numbers_as_sent: bool = True) -> Any:
    """Returns the value of a body, None without one. Raises RequestError."""
    number = _Number if numbers_as_sent else None
    try:
        # Connect, too, finds the encoding by the first bytes, and not by the content type
        text = body.decode(json.detect_encoding(body))
        if not text.strip(" \t\r\n"):
            return None
        value = json.loads(text, parse_float=number, parse_int=number, parse_constant=_no_constant)
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise RequestError(
            400,
            "The request's body holds half of a surrogate pair (\\ud800 to \\udfff), which is no "
            "character and cannot be stored",
        ) from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise _refused(f"The request's body is not JSON: {error}") from None
    except RecursionError:
        raise _refused("The request's body has too many objects within objects") from None
    except ValueError:
        raise _refused("The request's body holds a number with too many digits") from None
    return value


def _no_constant(name: str) -> NoReturn:
    raise _refused(f"The request's body is not JSON: {name} is not a number in JSON")


def _wrong_type(value: Any, place: str, expected: str) -> RequestError:
    return _refused(f"{place} is {_kind(value)}; it must be {expected}")


def _kind(value: Any) -> str:
    """Returns the JSON type of a parsed value, with its article."""
    match value:
        case None:
            return "missing or null"
        case bool():
            return "true" if value else "false"
        case dict():
            return "an object"
        case list():
            return "an array"
        case _Number() | int() | float():
            return "a number"
        case _:
            return "a string"


def _refused(message: str) -> RequestError:
    return RequestError(500, message)
