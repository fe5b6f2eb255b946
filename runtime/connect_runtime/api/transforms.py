"""Defines transformations of single records, and the predicates that choose records for them.

Sources transform before converting to bytes, sinks after converting from bytes (the manual's
"Transformations").
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TypeAlias, TypeVar

from connect_runtime.api.configdef import ConfigDef
from connect_runtime.api.records import SinkRecord, SourceRecord

ConnectRecord: TypeAlias = SourceRecord | SinkRecord
R = TypeVar("R", SourceRecord, SinkRecord)


class _Configured(ABC):
    def version(self) -> str:
        """The version to show in listings."""
        return "undefined"

    @abstractmethod
    def config(self) -> ConfigDef:
        """The options, without prefix."""

    @abstractmethod
    def configure(self, options: Mapping[str, str]) -> None:
        """Receives the options, without prefix; called once, before records. Raises ConfigError."""

    def close(self) -> None:  # noqa: B027
        """Releases what `configure` acquired; called once, also after a failure."""


class Transformation(_Configured):
    """Changes records one by one. Belongs to one task."""

    @abstractmethod
    def apply(self, record: R) -> R | None:
        """Returns the record as it is to be, or None to drop it. Never changes `record` itself,
        nor a value in it: another part may still need them. Raises DataError."""


class Predicate(_Configured):
    """Decides for which records a transformation is applied (KIP-585)."""

    @abstractmethod
    def test(self, record: ConnectRecord) -> bool:
        """Whether the predicate is true of the record."""
