"""Texts from elsewhere, errors and traces, without the secrets that they may quote. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from connect_reconciler.plan.secrets.sensitive import Veil, is_sensitive, secret_parts

HIDDEN = "(hidden)"


def hide(text: str, cover: Veil, *configs: Mapping[str, str]) -> str:
    """`text`, such as an error or a trace, without the secrets of these configs."""
    secrets = {
        shape
        for config in configs
        for key, value in config.items()
        if is_sensitive(key, value, cover.named)
        for secret in (value, *secret_parts(value))
        for shape in _shapes(secret)
    }
    if not secrets:
        return text
    # In one pass, the longest first: one may be part of another, or of the word for hidden.
    longest_first = sorted(secrets, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, longest_first)), HIDDEN, text)


def _shapes(secret: str) -> Iterator[str]:
    """As written, as Connect trims it, in JSON, and line by line: a trace may break it."""
    for each in (secret, secret.strip(), *secret.splitlines()):
        if each.strip():
            yield each
            yield json.dumps(each)[1:-1]
            yield json.dumps(each, ensure_ascii=False)[1:-1]
