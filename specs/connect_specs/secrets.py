"""Decides which config values are secret, and redacts secrets in texts that may quote them. Pure.

A value is secret by its key's name, by a secret of a recognizable form inside it, such as a URL's
password, by its ConfigDef type, or because the spec says so. A value that consists of
`${provider:path:key}` alone is a reference, and is shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final
from urllib.parse import quote, quote_plus, unquote

# Texts in a secret's place: Connect's for a password, ours for a value, and ours within texts
MASK: Final = "[hidden]"
SENSITIVE: Final = "(sensitive)"
HIDDEN: Final = "(hidden)"
# Shorter secrets are part of too many words
SHORTEST: Final = 4

# --- names ---

_SECRET_NAME = re.compile(
    r"passw(or)?d|passphrase|passcode|pwd|(^|[._-])pass$|secret|token(?!iz|is)|credential"
    r"|(api|private|access|account|encryption|signing|master|shared)[._-]?key"
    r"|(sas|customer|decryption|subscription|function|storage|license|hmac|auth|app)[._-]?key$"
    r"|authorization$|(^|[._-])(cookie|license|psk|pat)$"
    r"|jaas\.config|ssl\.key$|ssl\.keystore\.(key|certificate\.chain)"
    r"|ssl\.truststore\.certificates|auth\.user\.?info|connection\.?string",
    re.IGNORECASE,
)
# Anyone who has a webhook's URL can use it
_WEBHOOK_NAME = re.compile(r"webhooks?([._-]?(url|uri|endpoint))?$", re.IGNORECASE)
# Names of facts *about* a secret: its location, type or lifetime
_ABOUT_A_SECRET = re.compile(
    r"[._-](class|provider|source|type|location|path|file|algorithm|mechanism|enabled?|ms|seconds"
    r"|url|uri|endpoint|topic|format)$",
    re.IGNORECASE,
)


def is_secret_name(name: str) -> bool:
    """Returns True if a config key or value of this name is secret."""
    if _SECRET_NAME.search(name) and not _ABOUT_A_SECRET.search(name):
        return True
    return bool(_WEBHOOK_NAME.search(name))


def is_secret_value(name: str, globs: Iterable[str]) -> bool:
    """Returns True if the value in `values/` of this dotted name is secret: by its name, or that of
    a map around it, or because the names or globs `globs` in values files match one of them."""
    keys = name.split(".")
    names = [".".join(keys[: end + 1]) for end in range(len(keys))]
    return any(is_secret_name(key) for key in keys) or any(
        fnmatchcase(prefix, glob) for prefix in names for glob in globs
    )


# --- texts ---

_REFERENCE = re.compile(r"\$\{[^{}]+\}")
# Each group that has a name is a secret. One expression, because every value is searched; each
# repetition that something must follow has a limit, so that no text takes long.
_SECRET = re.compile(
    # user:password@, also with a slash in the password; host:port/path@ is none
    r"://[^/@\s:]{0,200}:(?!\d{1,5}[/?#,])(?P<url>[^/\s]{1,200}|[^@\s,]{1,200})@"
    # user/password@ of Oracle
    r"|jdbc:oracle:\w{2,5}:[^/@\s]{1,128}/(?P<oracle>[^@\s]{1,128})@"
    r"|\A[\w.$#-]{1,128}/(?P<login>[^/@\s]{1,128})@(?://|[\w.-]{1,200}:\d{2,5}(?:[:/]|\Z))"
    # Webhooks: anyone who has the path can use them
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
# Separators of the pieces of a secret: of a path, of a key's id from the key, and line breaks, also
# as JSON escapes them
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
    """Returns True if the value contains a recognizable secret; references are not secrets."""
    text = without_references(value)
    return bool(_SIGN.search(text) and _SECRET.search(text))


def secret_parts(value: str) -> tuple[str, ...]:
    """Returns the recognizable secrets inside a value, also URL-decoded."""
    matches = _SECRET.finditer(without_references(value))
    pieces = (piece for match in matches for piece in _pieces(match))
    return tuple(dict.fromkeys(text for piece in pieces for text in (piece, unquote(piece))))


def header_secrets(value: str) -> tuple[str, ...]:
    """Returns the values of HTTP headers, `name: value` with `,`, `;`, `|` or line breaks between
    them, but those of headers that never hold a secret."""
    return tuple(
        text
        for name, header in _HEADER.findall(without_references(value))
        if name.lower() not in _PLAIN_HEADERS
        and (text := header.strip().strip("\"'"))
        and text.lower() not in _SCHEMES
    )


def holds_text(value: str, secrets: Iterable[str]) -> bool:
    """Returns True if the value is one of the secrets, or contains one of four or more
    characters."""
    return any(
        value == secret or (len(secret) >= SHORTEST and secret in value) for secret in secrets
    )


def _pieces(match: re.Match[str]) -> Iterator[str]:
    """Yields the secret, and the pieces of it that a message may quote alone."""
    kind = match.lastgroup or ""
    secret = match[kind].strip()
    if secret:
        yield secret
    separator = _SPLIT.get("pem" if "PRIVATE KEY" in secret else kind)
    if separator is not None:
        yield from (piece for piece in separator.split(secret) if 8 <= len(piece) < len(secret))


# --- config values ---

_GLOB = frozenset("*?[")
_HEADERS_KEY = re.compile(r"(^|[._-])headers([._-](additional|static|custom))?$", re.IGNORECASE)


def is_reference(value: str) -> bool:
    """Returns True if the value consists of `${provider:path:key}` alone."""
    return bool(value) and not without_references(value)


def is_sensitive(config_key: str, value: str, named: Collection[str] = ()) -> bool:
    """Returns True if the value must never be shown. `named` holds keys known to be sensitive, or
    globs."""
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
    """Returns True for a key for HTTP headers, such as `http.headers`."""
    return _kind(config_key) == "headers"


@lru_cache(maxsize=4096)
def _kind(config_key: str) -> str:
    if is_secret_name(config_key):
        return "secret"
    return "headers" if _HEADERS_KEY.search(config_key) else ""


# --- redaction ---


class Redactor:
    """Replaces secrets in texts by `mask`: as they are, line by line, and as JSON, URLs and Python
    write them. Secrets shorter than `shortest` characters stay, and so do values that other code
    derives from a secret, such as a hash. Those of less than four characters are replaced only
    as separate words: else a secret `1` would make every text unreadable."""

    def __init__(
        self, secrets: Iterable[str] = (), *, mask: str = MASK, shortest: int = SHORTEST
    ) -> None:
        shapes = {
            shape for secret in secrets for shape in _shapes(secret) if len(shape) >= shortest
        }
        # In one pass, the longest first: one may be part of another, or of the mask.
        longest_first = sorted(shapes, key=lambda shape: (-len(shape), shape))
        self._pattern = re.compile("|".join(map(_expression, longest_first))) if shapes else None
        self._mask = mask

    @classmethod
    def of_configs(
        cls,
        *configs: Mapping[str, str],
        named: Collection[str] = (),
        texts: Iterable[str] = (),
        mask: str = MASK,
        shortest: int = SHORTEST,
    ) -> Redactor:
        """Returns a redactor of the secrets of these configs, and of `texts`. `named` holds keys
        known to be sensitive, or globs."""
        secrets = (secret for config in configs for secret in secrets_in(config, named))
        return cls((*texts, *secrets), mask=mask, shortest=shortest)

    def redact(self, text: str) -> str:
        """Returns `text` with each secret replaced by the mask."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda match: self._mask, text)


def secrets_in(config: Mapping[str, str], named: Collection[str] = ()) -> Iterator[str]:
    """Yields the secrets of a config: secret values, and the passwords inside other values.

    `named` holds keys known to be sensitive, or globs.
    """
    for key, value in config.items():
        if is_sensitive(key, value, named):
            yield value
            yield from secret_parts(value)
            if is_headers_key(key):
                yield from header_secrets(value)


def _expression(shape: str) -> str:
    text = re.escape(shape)
    return text if len(shape) >= SHORTEST else rf"(?<!\w){text}(?!\w)"


def _shapes(secret: str) -> Iterator[str]:
    """Yields the forms in which a text may quote the secret: as written, as Connect trims it, line
    by line because a trace may break it, and encoded.
    """
    for text in dict.fromkeys((secret, secret.strip(), *secret.splitlines())):
        if not text.strip():
            continue
        yield text
        yield json.dumps(text)[1:-1]
        yield json.dumps(text, ensure_ascii=False)[1:-1]
        yield repr(text)[1:-1]
        # with both kinds of quotes in the text, repr escapes one of them
        yield repr(f'"{text}')[2:-1]
        for encode in (lambda data: quote(data, safe=""), quote, quote_plus):
            encoded = encode(text.encode("utf-8", "surrogatepass"))
            yield encoded
            yield re.sub("%..", lambda match: match[0].lower(), encoded)
