"""Reads JSON that Java wrote.

Java's texts may hold half of a surrogate pair (`"\\ud800"`), which is no character: UTF-8 has none
for it, and orjson refuses the whole document.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import orjson

_HALF: Final = re.compile(rb"\\u[dD][89a-fA-F]")


def loads(content: bytes) -> Any:
    """Returns the value. A text that holds half of a surrogate pair is None; in a field's name `?`
    stands for the half, as Java encodes it. Raises ValueError, without the content, for what is not
    JSON."""
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        found = _with_halves(content) if _HALF.search(content) else None
    if found is None:
        raise ValueError("not JSON")
    return _without_halves(found)


def _with_halves(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def _without_halves(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key.encode(errors="replace").decode(): _without_halves(each)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [_without_halves(each) for each in value]
    if isinstance(value, str):
        return value if value.encode(errors="replace").decode() == value else None
    return value
