"""Headers of records, as values with schemas (Connect's `Headers`).

Only header converters see the bytes that Kafka keeps. Headers are immutable: whatever changes a
record's headers makes a new tuple.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from connect_runtime.api.schema import Schema


class Header(NamedTuple):
    """One header. Several of a record may have the same key; their order is kept.

    Without a schema (None) the header converter decides how to write the value.
    """

    key: str
    value: Any = None
    schema: Schema | None = None


Headers: TypeAlias = tuple[Header, ...]
