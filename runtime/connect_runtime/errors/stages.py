"""Names the steps of a record's way at which it can fail, as Connect does."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any


class Stage(Enum):
    """A step. Its name is part of logs and of a dead letter queue's headers."""

    TRANSFORMATION = "TRANSFORMATION"
    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    KAFKA_PRODUCE = "KAFKA_PRODUCE"
    TASK_PUT = "TASK_PUT"

    @property
    def tolerates_any_error(self) -> bool:
        """Whether `errors.tolerance=all` is about each error here; else only about temporary
        ones."""
        return self in (
            Stage.TRANSFORMATION,
            Stage.KEY_CONVERTER,
            Stage.VALUE_CONVERTER,
            Stage.HEADER_CONVERTER,
        )


@dataclass(frozen=True, slots=True)
class Failure:
    """A record that failed. `class_name` is the class that was executing; `record` is the message
    that a sink read, or the `SourceRecord` that a source returned."""

    stage: Stage
    class_name: str
    error: Exception
    record: Any
