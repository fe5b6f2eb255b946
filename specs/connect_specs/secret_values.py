"""Decides which config values are secret.

A value is secret by its key's name, by a password inside it, by its ConfigDef type, or because the
spec says so. A value that consists of `${provider:path:key}` alone is a reference, and is shown.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from fnmatch import fnmatchcase
from functools import lru_cache

from connect_specs.secret_names import is_secret_name
from connect_specs.secret_parts import header_secrets, holds_secret, without_references

_GLOB = frozenset("*?[")
_HEADERS_KEY = re.compile(r"(^|[._-])headers([._-](additional|static|custom))?$", re.IGNORECASE)


def is_reference(value: str) -> bool:
    """Whether the value consists of `${provider:path:key}` alone."""
    return bool(value) and not without_references(value)


def is_sensitive(config_key: str, value: str, named: Collection[str] = ()) -> bool:
    """Whether the value must never be shown. `named` holds keys known to be sensitive, or globs."""
    if not value or is_reference(value):
        return False
    if config_key in named or any(
        fnmatchcase(config_key, glob) for glob in named if not _GLOB.isdisjoint(glob)
    ):
        return True
    if holds_secret(value):
        return True
    kind = _kind(config_key)
    if kind == "headers":
        return bool(header_secrets(value))
    return kind == "secret" and value.lower() not in ("true", "false")


def is_headers_key(config_key: str) -> bool:
    """Whether the key is one for HTTP headers, such as `http.headers`."""
    return _kind(config_key) == "headers"


@lru_cache(maxsize=4096)
def _kind(config_key: str) -> str:
    if is_secret_name(config_key):
        return "secret"
    return "headers" if _HEADERS_KEY.search(config_key) else ""
