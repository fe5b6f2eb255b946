"""Errors of transformations that Connect raises as Java's own exceptions.

Nothing handles them differently from a `DataError`; a dead letter queue shows their Java names.
"""

from __future__ import annotations

from connect_runtime.api import ConnectorError, DataError


class InvalidArgument(DataError):
    """Java's IllegalArgumentException."""

    java_class = "java.lang.IllegalArgumentException"


class WrongClass(DataError):
    """Java's ClassCastException."""

    java_class = "java.lang.ClassCastException"


class MissingField(DataError):
    """Java's NullPointerException, for a field that a schema lacks."""

    java_class = "java.lang.NullPointerException"


class NoSuchGroup(DataError):
    """Java's IndexOutOfBoundsException, for a group that a regular expression lacks."""

    java_class = "java.lang.IndexOutOfBoundsException"


class UnknownTimestampType(ConnectorError):
    """Connect's ConnectException, for a schema that is no timestamp."""
