"""Texts from elsewhere, errors and traces, without the secrets that they may quote. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from connect_reconciler.plan.sensitive import Veil, is_sensitive

HIDDEN = "(hidden)"


def hide(text: str, cover: Veil, *configs: Mapping[str, str]) -> str:
    """`text`, such as an error or a trace, without the secrets of these configs."""
    secrets = {
        value
        for config in configs
        for key, value in config.items()
        if is_sensitive(key, value, cover.named)
    }
    # The longest first: one may be part of another.
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text
