"""Which fields GitHub's and GitLab's answers have, taken from recorded ones.

recorded_shapes.json names the public recording that each shape is taken from. The fakes of both
check whatever they serve with it: a field that the real service does not send cannot be read in a
test either.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

_TYPES: Mapping[type, str] = {
    bool: "boolean",
    int: "number",
    float: "number",
    str: "text",
    list: "list",
    dict: "object",
}


def as_recorded(service: str, kind: str, item: Mapping[str, Any]) -> Mapping[str, Any]:
    """The item. Raises AssertionError where a recorded one has no such field, or another type."""
    _check(f"{service}'s {kind}", item, _shapes()[service][kind]["fields"])
    return item


def _check(where: str, value: Any, shape: Any) -> None:
    if value is None or shape == "null":
        return
    if isinstance(shape, dict):
        assert isinstance(value, dict), f"{where} is an object"
        for key, each in value.items():
            assert key in shape, f"{where} has no field {key}"
            _check(f"{where}, {key}", each, shape[key])
    elif isinstance(shape, list):
        assert isinstance(value, list), f"{where} is a list"
        for each in value:
            _check(where, each, shape[0])
    else:
        assert _TYPES[type(value)] == shape, f"{where} is of type {shape}"


@cache
def _shapes() -> dict[str, Any]:
    file = Path(__file__).with_name("recorded_shapes.json")
    found: dict[str, Any] = json.loads(file.read_text())
    return found
