"""Errors that connectors raise, and those that the runtime raises to them.

Messages of `ConfigError` are Connect's: users see the same text from either runtime.
"""

from __future__ import annotations

from typing import Any, ClassVar

from connect_runtime.java.scalars import java_text


class ConnectorError(Exception):
    """A permanent error: the task becomes FAILED and stays so until restarted.

    `java_class` is the name of Connect's class for it, which headers of a dead letter queue show.
    """

    java_class: ClassVar[str] = "org.apache.kafka.connect.errors.ConnectException"


class RetriableError(ConnectorError):
    """A temporary error; a retry may succeed.

    From `SinkTask.put`, the same batch is put again; from `SourceTask.poll`, it counts as "no
    records"; from a converter, it is retried within `errors.retry.timeout`.
    """

    java_class = "org.apache.kafka.connect.errors.RetriableException"


class DataError(ConnectorError):
    """A value does not fit its schema, or bytes are not what a converter expects."""

    java_class = "org.apache.kafka.connect.errors.DataException"


class ConfigError(ConnectorError):
    """An invalid configuration."""

    java_class = "org.apache.kafka.common.config.ConfigException"

    @classmethod
    def invalid(cls, name: str, value: Any, reason: str = "") -> ConfigError:
        """Returns an error for a value that is not allowed for the key `name`, in Connect's
        words."""
        text = f"Invalid value {java_text(value)} for configuration {name}"
        return cls(f"{text}: {reason}" if reason else text)

    @classmethod
    def missing(cls, name: str) -> ConfigError:
        """Returns the error for a required key that is not set, in Connect's words."""
        return cls(f'Missing required configuration "{name}" which has no default value.')
