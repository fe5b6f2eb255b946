"""Parses JSON as Jackson does, with its texts for what it refuses: answers of status 500.

Texts begin as Jackson's do; where they name a place in the body, ours may differ.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final, NoReturn

from connect_runtime.herder.verbs import RequestError

PLACE: Final = "\n at [Source: REDACTED (`StreamReadFeature.INCLUDE_SOURCE_IN_LOCATION` disabled);"

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
# Escapes of other characters, and of both halves of a pair
_OTHER_ESCAPES = re.compile(
    r"\\[^u]|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}", re.DOTALL
)
# Jackson's limit (StreamReadConstraints)
_DEPTH_MAX = 1000
_DEPTH_FROM = ", from `StreamReadConstraints.getMaxNestingDepth()`"
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
# What Python says is missing, in Jackson's words
_WANTED = (
    ("Expecting property name", "was expecting double-quote to start field name"),
    ("Expecting ',' delimiter", "was expecting comma to separate Object entries"),
    ("Expecting ':' delimiter", "was expecting a colon to separate field name and value"),
)
# What follows is of no use for somebody who sends JSON
_INTERNALS = re.compile(r"\n at | \(start marker| \(bound as|: enable `")
# Also one without an end, and without going back: a search from each of its quotes would take hours
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"?', re.DOTALL)


class _Number(str):
    """A JSON number as it was written."""

    __slots__ = ()


def read_json(body: bytes, *, kind: str = "java.util.Map", numbers_as_written: bool = True) -> Any:
    """Parses JSON by Jackson's rules: no body is null, and nothing may follow the value. `kind` is
    the Java class that the value becomes."""
    try:
        # Jackson, too, finds the encoding by the first bytes, whatever the content type says
        text = body.decode(json.detect_encoding(body)).lstrip(" \t\r\n")
    except UnicodeDecodeError as error:
        byte = body[error.start]
        raise refused(f"Invalid UTF-8 start byte 0x{byte:x}{PLACE} line: 1, column: 1]") from None
    if not text:
        return None
    _check_depth(text)
    number: Callable[[str], Any] | None = _Number if numbers_as_written else None
    decoder = json.JSONDecoder(parse_float=number, parse_int=number, parse_constant=_no_constant)
    try:
        value, end = decoder.raw_decode(text)
    except (ValueError, RecursionError) as error:
        raise refused(_syntax_text(text, error)) from None
    _check_characters(text)
    # of a list, its type is refused first
    if text[end:].strip(" \t\r\n") and not isinstance(value, list):
        raise refused(_trailing_text(text, end, kind))
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
    place = f"{PLACE} line: {line}, column: {column}]"
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
                raise refused(
                    f"Document nesting depth ({depth}) exceeds the maximum allowed ({_DEPTH_MAX}"
                    f"{_DEPTH_FROM})"
                )
        elif mark in "]}":
            depth -= 1


def _no_constant(name: str) -> NoReturn:
    raise refused(
        f"Non-standard token '{name}': enable `JsonReadFeature.ALLOW_NON_NUMERIC_NUMBERS` to allow"
    )


def _syntax_text(text: str, error: Exception) -> str:
    if not isinstance(error, json.JSONDecodeError):
        return f"Document nesting depth or number length exceeds the maximum allowed{PLACE}"
    at = error.pos
    while at < len(text) and text[at] in " \t\r\n" and not error.msg.startswith("Invalid control"):
        at += 1
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    is_cut_off = at >= len(text) or error.msg.startswith("Unterminated string")
    found = _cut_off(text, at) if is_cut_off else _unexpected(text, at, error.msg)
    return f"{found}{PLACE} line: {line}, column: {column}]"


def _cut_off(text: str, at: int) -> str:
    """Tells of a text that ends too early: within the string that begins at `at`, or outside of
    strings."""
    if at < len(text):
        is_value = text[:at].rstrip()[-1:] in (":", "[", "")
        return f"Unexpected end-of-input in {'VALUE_STRING' if is_value else 'field name'}"
    marker = "Array" if text[:1] == "[" else "Object"
    before = text.rstrip()
    # after a field's name, or the colon behind it
    if before[-1:] == ":" or re.search(r'[{,]\s*"[^"]*"$', before):
        return f"Unexpected end-of-input within/between {marker} entries"
    start = f"(start marker at {PLACE.strip().removeprefix('at ')} line: 1, column: 1])"
    return f"Unexpected end-of-input: expected close marker for {marker} {start}"


def _unexpected(text: str, at: int, why: str) -> str:
    """Tells of the character at `at`, which Python refuses with the message `why`."""
    if why.startswith("Invalid control character"):
        return (
            f"Illegal unquoted character ((CTRL-CHAR, code {ord(text[at])})): has to be escaped "
            "using backslash to be included in string value"
        )
    if why.startswith("Invalid \\escape"):
        escaped = text[at + 1]
        return f"Unrecognized character escape '{escaped}' (code {ord(escaped)})"
    if why == "Expecting value" and text[at].isalpha():
        token = text[at:].split()[0].rstrip(",}]")
        return f"Unrecognized token '{token}': was expecting {_TOKEN_EXPECTED}"
    wanted = next((jackson for python, jackson in _WANTED if why.startswith(python)), "")
    if why == "Expecting value":
        wanted = (
            "expected a value" if text[at] in ",}]" else f"expected a valid value {_TOKEN_EXPECTED}"
        )
    return f"Unexpected character ('{text[at]}' (code {ord(text[at])})){wanted and f': {wanted}'}"


def mismatch(kind: str, value: Any) -> RequestError:
    """Returns the refusal of a value that cannot become the Java class `kind`."""
    place = f"{PLACE} line: 1, column: 1]"
    is_text = isinstance(value, str) and not isinstance(value, _Number)
    if is_text and kind.startswith("java.util.LinkedHashMap"):
        kind = "java.util.LinkedHashMap"
        if not value:
            return refused(
                f'Cannot coerce empty String ("") to element of `{kind}` (but could if coercion '
                f"was enabled using `CoercionConfig`){place}"
            )
    elif isinstance(value, dict | list) or kind.startswith("java.util."):
        return refused(f"Cannot deserialize value of type `{kind}` from {_token(value)}{place}")
    return refused(
        f"Cannot construct instance of `{kind}` (although at least one Creator exists): no "
        f"{_scalar(value)}{place}"
    )


def plain_text(error: RequestError) -> str:
    """Returns what a refusal says of the JSON, without Jackson's settings and Java's classes."""
    text = _INTERNALS.split(error.message.replace(_DEPTH_FROM, ""))[0]
    found = re.search(r"line: (\d+), column: (\d+)\]$", error.message)
    return text if found is None else f"{text}, at line {found[1]}, column {found[2]}"


def json_kind(value: Any) -> str:
    """Returns what a parsed value is in JSON, with its article."""
    match value:
        case None:
            return "null"
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


def _token(value: Any) -> str:
    if isinstance(value, dict):
        shape, token = "Object", "START_OBJECT"
    elif isinstance(value, list):
        shape, token = "Array", "START_ARRAY"
    elif isinstance(value, bool):
        shape, token = "Boolean", f"VALUE_{str(value).upper()}"
    elif isinstance(value, str) and not isinstance(value, _Number):
        shape, token = "String", "VALUE_STRING"
    elif _is_whole(value):
        shape, token = "Integer", "VALUE_NUMBER_INT"
    else:
        shape, token = "Floating-point", "VALUE_NUMBER_FLOAT"
    return f"{shape} value (token `JsonToken.{token}`)"


def _scalar(value: Any) -> str:
    maker = "argument constructor/factory method to deserialize from"
    if isinstance(value, bool):
        return f"boolean/Boolean-{maker} boolean value ({str(value).lower()})"
    if isinstance(value, str) and not isinstance(value, _Number):
        return f"String-{maker} String value ('{value}')"
    return f"{'int/Int' if _is_whole(value) else 'double/Double'}-{maker} Number value ({value})"


def _is_whole(number: int | float | _Number) -> bool:
    return str(number).lstrip("-").isdigit()


def refused(message: str) -> RequestError:
    """Returns a refusal of which Connect knows only the text."""
    return RequestError(500, message)
