"""Which config values are secret.

A value is secret by its key's name, by a password inside it, by its ConfigDef type, or because the
spec says so. A value that is nothing but `${provider:path:key}` is a reference, and is shown.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from fnmatch import fnmatchcase
from urllib.parse import unquote

from connect_specs.secret_names import is_secret_name

_REFERENCE = re.compile(r"\$\{[^{}]+\}")
_SECRET_VALUE = re.compile(
    r"://[^/@\s:]*:[^/@\s]+@"
    r"|(password|passwd|pwd|secret|token|accountkey|sharedaccesskey|sig)=\s*[^\s;&]"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----",
    re.IGNORECASE,
)
# The secret itself inside a URL, a connection string or a JAAS entry
_SECRET_PART = re.compile(
    r"://[^/@\s:]*:(?P<url>[^/\s]+)@"
    r"|(?:password|passwd|pwd|secret|token|accountkey|sharedaccesskey|sig)=\s*"
    r"(?:\"(?P<double>[^\"]+)\"|'(?P<single>[^']+)'|(?P<bare>[^\s;&\"']+))",
    re.IGNORECASE,
)
_GLOB = frozenset("*?[")


def is_reference(value: str) -> bool:
    """Whether the value consists of `${provider:path:key}` alone."""
    return bool(value) and not _REFERENCE.sub("", value)


def secret_parts(value: str) -> tuple[str, ...]:
    """The passwords inside a URL, a connection string or a JAAS entry; references are none."""
    text = _REFERENCE.sub("", value)
    found = (match[match.lastgroup or 0] for match in _SECRET_PART.finditer(text))
    return tuple(dict.fromkeys(each for part in found for each in (part, unquote(part))))


def is_sensitive(config_key: str, value: str, named: Collection[str] = ()) -> bool:
    """Whether the value must never be shown. `named` holds keys known to be sensitive, or globs."""
    if not value or is_reference(value):
        return False
    if config_key in named or any(
        fnmatchcase(config_key, glob) for glob in named if not _GLOB.isdisjoint(glob)
    ):
        return True
    if _SECRET_VALUE.search(_REFERENCE.sub("", value)):
        return True
    return value.lower() not in ("true", "false") and is_secret_name(config_key)
