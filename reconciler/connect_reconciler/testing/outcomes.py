"""Says what became of one record: values that rendering and comparing share. Pure.

`Json` is None, bool, int, float, str, list or dict, as in `connect_specs.record_input`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from connect_specs.record_input import Json


@dataclass(frozen=True, slots=True)
class Part:
    """A key, a value or a header as JSON, with its schema as JsonConverter writes it.

    In Kafka there are only bytes: `raw`, and no schema.
    """

    json: Json = None
    schema: Json = None
    raw: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class ShownRecord:
    """A record, as it can be shown. `timestamp` is in epoch milliseconds."""

    topic: str
    partition: int | None
    offset: int | None
    timestamp: int | None
    key: Part
    value: Part
    headers: tuple[tuple[str, Part], ...] = ()


@dataclass(frozen=True, slots=True)
class Delivered:
    """What a sink's task gets, or what a source's transformations made; `written` is then what
    Kafka gets."""

    record: ShownRecord
    written: ShownRecord | None = None


@dataclass(frozen=True, slots=True)
class Dropped:
    """A transformation dropped the record."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The record failed in `stage`, while `class_name` ran. `error` is Connect's class; `message`
    may quote values."""

    stage: str
    class_name: str
    error: str
    message: str


Outcome: TypeAlias = Delivered | Dropped | Failed


@dataclass(frozen=True, slots=True)
class Run:
    """One record's way. `given` is the record in Kafka, for a sink; `before` is what the
    transformations get, None where converting failed."""

    outcome: Outcome
    before: ShownRecord | None = None
    given: ShownRecord | None = None

    @property
    def origin(self) -> ShownRecord | None:
        """The record to name the run by."""
        return self.given or self.before
