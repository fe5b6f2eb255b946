"""Defines converters between a connector's values and Kafka's bytes, a column at a time.

A converter is configured once per task and then returns a function over columns, so options are
evaluated before the first record.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from connect_runtime.api.configdef import ConfigDef
from connect_runtime.api.schema import Schema


@dataclass(frozen=True, slots=True)
class Column:
    """Values with one schema for all of them, or with one for each in `schemas`."""

    values: Sequence[Any]
    schema: Schema | None = None
    schemas: Sequence[Schema | None] | None = None

    def each_schema(self) -> Sequence[Schema | None]:
        """The schema of each value."""
        return [self.schema] * len(self.values) if self.schemas is None else self.schemas


Write: TypeAlias = Callable[[Sequence[Any], Schema | None], list[bytes | None]]
Read: TypeAlias = Callable[[Sequence[bytes | None]], Column]


class Converter(ABC):
    """Converts keys or values. `DataError` says that a value or bytes cannot be converted."""

    def version(self) -> str:
        """The version to show in listings."""
        return "undefined"

    @abstractmethod
    def config(self) -> ConfigDef:
        """The options of this converter, without prefix."""

    @abstractmethod
    def configure(self, options: Mapping[str, str], *, is_key: bool) -> None:
        """Receives the options, without prefix. Called once, before the others."""

    @abstractmethod
    def writer(self) -> Write:
        """Returns a function from values of one schema to bytes."""

    @abstractmethod
    def reader(self) -> Read:
        """Returns a function from bytes to values."""

    @property
    def reads_anything(self) -> bool:
        """Whether reading cannot fail. Then a column that is never used is never converted."""
        return False
