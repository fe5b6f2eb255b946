"""Java's `String.split` for a single character."""

from __future__ import annotations


def split(text: str, separator: str) -> list[str]:
    """Returns the parts, without empty ones at the end. A text that is empty is one part."""
    parts = text.split(separator)
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts if parts[0] or len(parts) > 1 or not text else []
