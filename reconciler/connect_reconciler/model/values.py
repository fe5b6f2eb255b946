"""Config values as a plan may hold them: plain text, or the fingerprint of a secret.

A plan never holds a secret. Apply reads the value again from the specs and refuses if its
fingerprint differs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Plain:
    """A value that may be shown."""

    text: str


@dataclass(frozen=True, slots=True)
class Secret:
    """A value that is never shown: HMAC-SHA256 of it, keyed per project, in hex.

    Empty while the project has no key: then not even a hash of the value is kept.
    """

    fingerprint: str


Value: TypeAlias = Plain | Secret
