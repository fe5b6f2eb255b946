"""Removes secrets from texts that may quote them, such as errors and traces. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import quote, quote_plus

from connect_specs.secret_parts import header_secrets, secret_parts
from connect_specs.secret_values import is_headers_key, is_sensitive

# What Connect shows for a password
MASK: Final = "[hidden]"
# Shorter ones are part of too many words
SHORTEST: Final = 4


class Redactor:
    """Replaces secrets in texts by `mask`: as they are, line by line, and as JSON, URLs and Python
    write them. Secrets shorter than `shortest` characters stay, and so does what other code
    derives from a secret, such as a hash. Those of less than four characters are replaced only
    where they are whole words: else a secret `1` would make every text unreadable."""

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

    def redact(self, text: str) -> str:
        """Returns `text` with each secret replaced by the mask."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda match: self._mask, text)


def secrets_in(config: Mapping[str, str], named: Collection[str] = ()) -> Iterator[str]:
    """Returns the secrets of a config: secret values, and the passwords inside other values.

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
    for each in dict.fromkeys((secret, secret.strip(), *secret.splitlines())):
        if not each.strip():
            continue
        yield each
        yield json.dumps(each)[1:-1]
        yield json.dumps(each, ensure_ascii=False)[1:-1]
        yield repr(each)[1:-1]
        # with both kinds of quotes in the text, repr escapes one of them
        yield repr(f'"{each}')[2:-1]
        for encode in (lambda text: quote(text, safe=""), quote, quote_plus):
            encoded = encode(each.encode("utf-8", "surrogatepass"))
            yield encoded
            yield re.sub("%..", lambda match: match[0].lower(), encoded)
