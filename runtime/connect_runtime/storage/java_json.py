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
    JSON, and for halves in JSON that is nested hundreds of levels deep."""
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        pass
    try:
        if _HALF.search(content):
            return _without_halves(json.loads(content))
    except (ValueError, RecursionError):
        pass
    raise ValueError("not JSON")


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
