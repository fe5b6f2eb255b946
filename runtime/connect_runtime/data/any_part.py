"""Defines what Connect's own converters share: each converts keys, values and headers alike, and
none depends on topic or headers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from connect_runtime.api import Converter, HeaderConverter, Read, Schema, Write
from connect_runtime.kafka_version import KAFKA_VERSION


class AnyPartConverter(Converter, HeaderConverter):
    """A converter whose headers are written and read as its values are.

    `configure` gets no `is_key` for headers; `converter.type` says it, too.
    """

    @abstractmethod
    def configure(self, options: Mapping[str, str], *, is_key: bool = False) -> None: ...

    def version(self) -> str:
        return KAFKA_VERSION

    @property
    def ignores_context(self) -> bool:
        return True

    def from_connect(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        return self._write(topic, None, schema, [value])[0]

    def to_connect(self, topic: str, key: str, data: bytes | None) -> tuple[Schema | None, Any]:
        column = self._read(topic, None, [data])
        return column.each_schema()[0], column.values[0]

    @cached_property
    def _write(self) -> Write:
        return self.writer()

    @cached_property
    def _read(self) -> Read:
        return self.reader()
