"""Keeps what a transformation makes for a schema, mostly another schema.

Equal schemas give the same instance, because converters recognize schemas by identity. Schemas seen
before are found by identity; others are compared, which takes much longer.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from connect_runtime.api import Schema

T = TypeVar("T")
# Connect's `LRUCache<>(16)`
_SIZE: Final = 16


class SchemaCache(Generic[T]):
    """Calls `make` once for each of the last 16 different schemas."""

    def __init__(self, make: Callable[[Schema], T]) -> None:
        self._make = make
        # the schema is kept, so that nothing else gets its id
        self._by_id: OrderedDict[int, tuple[Schema, T]] = OrderedDict()
        self._by_value: OrderedDict[Schema, T] = OrderedDict()

    def __call__(self, schema: Schema) -> T:
        """Returns what belongs to `schema`. Raises what `make` raises, each time."""
        found = self._by_id.get(id(schema))
        return self._look_up(schema) if found is None else found[1]

    def _look_up(self, schema: Schema) -> T:
        made = self._by_value.pop(schema, None)
        if made is None:
            made = self._make(schema)
        self._by_value[schema] = made
        self._by_id[id(schema)] = (schema, made)
        for entries in (self._by_value, self._by_id):
            if len(entries) > _SIZE:
                entries.popitem(last=False)
        return made
