"""Finds the secrets inside a text, such as a URL, connection string, HTTP header or JAAS entry.

Recognizes them by the form of the text alone; `secret_names` judges the names of keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from urllib.parse import unquote

_REFERENCE = re.compile(r"\$\{[^{}]+\}")
# Each group that has a name is a secret. One expression, because every value is searched; each
# repetition that something must follow has a limit, so that no text takes long.
_SECRET = re.compile(
    # user:password@, also with a slash in the password; host:port/path@ is none
    r"://[^/@\s:]{0,200}:(?!\d{1,5}[/?#,])(?P<url>[^/\s]{1,200}|[^@\s,]{1,200})@"
    # user/password@ of Oracle
    r"|jdbc:oracle:\w{2,5}:[^/@\s]{1,128}/(?P<oracle>[^@\s]{1,128})@"
    r"|\A[\w.$#-]{1,128}/(?P<login>[^/@\s]{1,128})@(?://|[\w.-]{1,200}:\d{2,5}(?:[:/]|\Z))"
    # Webhooks: whoever knows the path can use them
    r"|https?://(?:(?=[^\s\"']{0,300}(?<![a-z])(?:web)?hooks?[/.])"
    r"|(?=api\.telegram\.org/bot|events\.pagerduty\.com/integration/))"
    r"[^\s/?#\"']{1,200}/(?P<hook>[^\s\"',;]+)"
    # HTTP headers
    r"|(?:authorization|api-?key|x-[\w-]{0,40}(?:key|token|secret|auth)|cookie)"
    r"[\"']?\s{0,4}[:=]\s{0,4}[\"']?(?:(?:bearer|basic|token|apikey|digest)\s{1,4})?"
    r"(?!(?:bearer|basic|token|apikey|digest)\s{0,4}(?:[\"',;|]|\Z))(?P<header>[^\s\"',;|][^\"',;|\r\n]*)"
    r"|\b(?:bearer|basic)\s{1,4}(?P<scheme>(?=[^\s\"',;|]{0,200}[0-9=+/_~])[^\s\"',;|]{6,})"
    # name=value, and "name": "value"
    r"|(?:passw(?:or)?d|pwd|(?<![a-z])pass|passphrase|secret|token|(?<![a-z])sig|signature"
    r"|(?:api|access|account|secret|subscription|sas|private)[_-]?key|(?<=[?&])(?:key|code|auth))"
    r"(?:[\"']\s{0,8}:|[\"']?\s{0,8}=)\s{0,8}"
    r"(?:\"(?P<double>[^\"]{1,4000})\"|'(?P<single>[^']{1,4000})'"
    # but not an SQL parameter, a JSON object or a list
    r"|(?!\?(?:[\s,;)]|\Z)|\$\d|[{\[]\s*(?:[\"'{\[\]}]|\Z))[\"']?(?P<bare>[^\s;&\"']+))"
    # Private keys, tokens and keys that are known by how they begin
    r"|-----BEGIN [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----(?P<pem>[^-]*)"
    r"|(?<![\w-])(?P<token>(?-i:eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Z0-9])(?:[\s:/,;|]{1,4}[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+]))?"
    r"|(?:gh[pousr]_|github_pat_|glpat-|xox[abeoprs]-|[sr]k_live_|sk-(?:ant|proj)-|AIza|ya29\."
    r"|hvs\.)[\w.-]{16,}|dapi[0-9a-f]{32}(?:-[0-9]{1,4})?(?![\w-])"
    r"|SG\.[\w-]{22}\.[\w-]{43}(?![\w-])))",
    re.IGNORECASE,
)
# What separates the pieces of a secret: a path's parts, a key's id from the key, and lines, of
# which JSON escapes the breaks
_SPLIT = {
    "hook": re.compile("[/?&=]"),
    "token": re.compile(r"[\s:,;|]+"),
    "pem": re.compile(r"\\n|\s+"),
}
# No secret is found in a text without one of these
_SIGN = re.compile(
    r"[=:@]|bearer\s|basic\s|-----BEGIN|eyJ|AKIA|ASIA|gh[pousr]_|github_pat_|glpat-|xox"
    r"|k_live_|sk-|AIza|ya29|hvs\.|dapi|SG\.",
    re.IGNORECASE,
)

_HEADER = re.compile(
    r"(?:\A|[,;|\n{])\s{0,8}[\"']?([A-Za-z][\w-]{0,60})[\"']?\s{0,4}[:=]\s{0,4}([^,;|\n}]*)"
)
_SCHEMES = ("bearer", "basic", "token", "apikey", "digest")
_PLAIN_HEADERS = frozenset(
    "accept accept-charset accept-encoding accept-language cache-control charset connection"
    " content-encoding content-language content-type host origin q referer user-agent".split()
)


def without_references(value: str) -> str:
    """Returns the value without `${provider:path:key}`."""
    return _REFERENCE.sub("", value) if "${" in value else value


# Most values are the same in many connectors, and each is looked at several times
@lru_cache(maxsize=8192)
def holds_secret(value: str) -> bool:
    """Whether the value contains a recognizable secret; references are not secrets."""
    text = without_references(value)
    return bool(_SIGN.search(text) and _SECRET.search(text))


def secret_parts(value: str) -> tuple[str, ...]:
    """Returns the recognizable secrets inside a value, also URL-decoded."""
    found = _SECRET.finditer(without_references(value))
    pieces = (piece for match in found for piece in _pieces(match))
    return tuple(dict.fromkeys(each for piece in pieces for each in (piece, unquote(piece))))


def header_secrets(value: str) -> tuple[str, ...]:
    """The values of HTTP headers, `name: value` with `,`, `;`, `|` or line breaks between them, but
    those of headers that never hold a secret."""
    return tuple(
        text
        for name, given in _HEADER.findall(without_references(value))
        if name.lower() not in _PLAIN_HEADERS
        and (text := given.strip().strip("\"'"))
        and text.lower() not in _SCHEMES
    )


def _pieces(match: re.Match[str]) -> Iterator[str]:
    """Yields the secret, and the pieces of it that a message may quote alone."""
    kind = match.lastgroup or ""
    part = match[kind].strip()
    if part:
        yield part
    split = _SPLIT.get("pem" if "PRIVATE KEY" in part else kind)
    if split is not None:
        yield from (piece for piece in split.split(part) if 8 <= len(piece) < len(part))
