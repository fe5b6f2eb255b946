"""Renders an exception as text for statuses and logs, with secrets redacted."""

from __future__ import annotations

import traceback

from connect_specs.redaction import Redactor


def trace_text(error: BaseException, redactor: Redactor) -> str:
    """Returns the traceback with causes and contexts, redacted."""
    return redactor.redact("".join(traceback.format_exception(error)).rstrip())
