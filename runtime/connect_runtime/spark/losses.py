"""Says why an attempt was lost, from what Spark raises or knows of its job."""

from __future__ import annotations

from typing import Any


def failure_cause(error: Exception) -> str:
    """Returns the cause of Spark's stage failure in a line or two."""
    thrown: Any = getattr(error, "java_exception", None)
    if thrown is None:
        return f"{type(error).__name__}: {error}"
    try:
        message = (thrown.getCause() or thrown).getMessage()
    except Exception:
        return str(error)
    return str(message).split("Consider setting")[0].split("\nDriver stacktrace")[0].strip()
