"""Config values and foreign texts as one line: no terminal disturbed, no difference hidden."""

from __future__ import annotations

import hashlib
import json

from connect_reconciler.plan.actions import FieldChange
from connect_reconciler.plan.sensitive import SENSITIVE
from connect_reconciler.plan.values import Secret, Value

VALUE_LENGTH_MAX = 80
_SHOWN = 48


def value_text(value: Value) -> str:
    """The value, cut where it is long; what is secret says only that it is."""
    if isinstance(value, Secret):
        return SENSITIVE
    text = value.text
    if len(text) > VALUE_LENGTH_MAX:
        mark = hashlib.sha256(text.encode()).hexdigest()[:8]
        shown = _quoted(text[:_SHOWN])
        return f"{shown}… ({len(text)} characters, sha256 {mark})"
    return _quoted(text)


def change_text(change: FieldChange) -> str:
    """`~ key: old → new`, or `+` and `-` where there is only one of them."""
    old, new, key = change.old, change.new, one_line(change.key)
    if isinstance(old, Secret) and isinstance(new, Secret):
        return f"~ {key}: (sensitive, changed)"
    if old is None and new is not None:
        return f"+ {key}: {value_text(new)}"
    if new is None and old is not None:
        return f"- {key}: {value_text(old)}"
    if old is None or new is None:
        return f"~ {key}"
    return f"~ {key}: {value_text(old)} → {value_text(new)}"


def one_line(text: str) -> str:
    """The text with control characters escaped: what others named must not steer a terminal."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def _quoted(text: str) -> str:
    """As it is, or in quotes where its ends or its characters could not be seen."""
    if text and text.isprintable() and text.strip() == text and '"' not in (text[0], text[-1]):
        return text
    return one_line(json.dumps(text, ensure_ascii=False))


def _escaped(char: str) -> str:
    return json.dumps(char)[1:-1]
