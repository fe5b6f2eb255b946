"""Reads and writes JSON as Jackson does, where orjson differs.

A text of Java can hold half of a surrogate pair (`"\\ud800"`), which is no character: UTF-8 has
none for it, and orjson refuses the document. Jackson writes characters of two UTF-16 units as two
escapes.
"""

from __future__ import annotations

import binascii
import json
import math
import re
from base64 import b64decode, b64encode
from typing import Any, Final

import orjson

from connect_runtime.java.scalars import java_double

_ESCAPED_HALF: Final = re.compile(rb"\\u[dD][89a-fA-F]")
# a backslash of the text is two in JSON, and may have these characters after it
_ESCAPED_CONTROL: Final = re.compile(r"\\\\|\\u00[0-9a-f]{2}")
# four bytes in UTF-8, a pair of surrogates in Java
_PAIR: Final = re.compile(rb"[\xf0-\xf4][\x80-\xbf]{3}")
_HALF_OR_PAIR: Final = re.compile("[\ud800-\udfff\U00010000-\U0010ffff]")
_BLANKS: Final = dict.fromkeys(range(0x21))
_GROUP: Final = "[A-Za-z0-9+/]{2}(?:[A-Za-z0-9+/]{2}|[A-Za-z0-9+/]=|==)"
_GROUPS: Final = re.compile(rf"[\0- ]*+(?:{_GROUP}[\0- ]*+)*+")
_PADDED: Final = re.compile(r"[A-Za-z0-9+/]+=*")


def read_json(content: bytes) -> Any:
    """Returns the value of JSON that Java wrote. A text that holds half of a surrogate pair is
    None; in a field's name `?` replaces the half, as Java encodes it. Raises ValueError, without
    the content, if it is not JSON, and for halves in JSON that is nested hundreds of levels
    deep."""
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        pass
    try:
        if _ESCAPED_HALF.search(content):
            return _without_halves(json.loads(content))
    except (ValueError, RecursionError):
        pass
    raise ValueError("not JSON")


def _without_halves(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key.encode(errors="replace").decode(): _without_halves(field)
            for key, field in value.items()
        }
    if isinstance(value, list):
        return [_without_halves(item) for item in value]
    if isinstance(value, str):
        return value if value.encode(errors="replace").decode() == value else None
    return value


def json_string(value: Any) -> str:
    """Returns a string, or a map of strings, as Jackson writes it."""
    try:
        text = with_pairs(orjson.dumps(value)).decode()
    except TypeError:
        # half of a surrogate pair, which orjson refuses
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        text = _HALF_OR_PAIR.sub(_escaped_units, text)
    if "\\u00" in text:
        # Jackson writes hexadecimal digits in upper case
        text = _ESCAPED_CONTROL.sub(lambda match: match[0][:2] + match[0][2:].upper(), text)
    return text


def json_scalar(value: Any) -> str | None:
    """Returns a text, number, boolean, null or bytes as Jackson writes them; None for other
    values."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return json_double(value)
    if isinstance(value, str):
        return json_string(value)
    return json_bytes(value) if isinstance(value, bytes | bytearray | memoryview) else None


def json_double(value: float) -> str:
    """Returns a number of 64 bits. Jackson quotes those that JSON cannot write."""
    text = java_double(value)
    return text if math.isfinite(value) else f'"{text}"'


def json_bytes(value: bytes | bytearray | memoryview) -> str:
    """Returns bytes as text in base64."""
    return f'"{b64encode(value).decode()}"'


def with_pairs(text: bytes) -> bytes:
    r"""Returns JSON as Jackson writes it in UTF-8: emoji and other characters of two UTF-16 units
    are escaped, as in \uD83D\uDE00."""
    return text if text.isascii() else _PAIR.sub(_escaped_pair, text)


def _escaped_pair(match: re.Match[bytes]) -> bytes:
    units = match[0].decode().encode("utf-16-be").hex().upper().encode()
    return b"\\u%b\\u%b" % (units[:4], units[4:])


def _escaped_units(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass").hex().upper()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def base64_data(text: str) -> bytes:
    """Returns the bytes of base64 as Jackson reads it. Raises ValueError.

    Blanks may stand between groups of four characters, as where MIME or MySQL's TO_BASE64 ends a
    line. A group that ends with `=` need not be the last one.
    """
    try:
        data = b64decode(text, validate=True)
    except ValueError:
        pass
    else:
        # Python takes more padding than there may be
        if len(data) == len(text) / 4 * 3 - text.count("="):
            return data
    if _GROUPS.fullmatch(text) is None:
        raise ValueError("not base64")
    return b"".join(map(binascii.a2b_base64, _PADDED.findall(text.translate(_BLANKS))))
