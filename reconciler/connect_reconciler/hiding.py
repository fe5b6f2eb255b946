"""Texts from elsewhere, errors and traces, without the secrets that they may quote. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from connect_reconciler.plan.secrets.sensitive import Veil
from connect_specs.redaction import Redactor, secrets_in

HIDDEN = "(hidden)"


def hide(text: str, cover: Veil, *configs: Mapping[str, str]) -> str:
    """`text`, such as an error or a trace, without the secrets of these configs."""
    secrets = (secret for config in configs for secret in secrets_in(config, cover.named))
    return Redactor((*cover.texts, *secrets), mask=HIDDEN, shortest=1).redact(text)
