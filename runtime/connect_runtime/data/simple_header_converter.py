"""SimpleHeaderConverter, the default: headers as text, whose types are inferred when read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connect_runtime.api import BYTES, ConfigDef, HeaderConverter, Schema
from connect_runtime.api.java_utf8 import java_utf8
from connect_runtime.data.literal_text import literal_text
from connect_runtime.data.literals import parse_literal
from connect_runtime.kafka_version import KAFKA_VERSION

CONFIG = ConfigDef()


class SimpleHeaderConverter(HeaderConverter):
    """Writes any value as text, and reads texts as what they look like."""

    def version(self) -> str:
        return KAFKA_VERSION

    def config(self) -> ConfigDef:
        return CONFIG

    def configure(self, options: Mapping[str, str]) -> None:
        pass

    def from_connect(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        # half of a surrogate pair is a question mark, as in Java
        return None if value is None else literal_text(value, schema).encode("utf-8", "replace")

    def to_connect(self, topic: str, key: str, data: bytes | None) -> tuple[Schema | None, Any]:
        if data is None:
            return None, None
        try:
            return parse_literal(java_utf8(data))
        except Exception:  # such as lists within lists, deeper than the stack; as in Connect
            return BYTES, data

    @property
    def reads_anything(self) -> bool:
        return True
