"""Connectors whose every method does what their config says, for tests of the herder.

`tasks` is how many tasks they answer with; `fail` names methods that throw, split by commas;
`alter` is what `alter_offsets` does: true, false, refuse, unsupported, break.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from connect_runtime.api import (
    ConfigDef,
    ConnectorError,
    SinkBatch,
    SinkConnector,
    SinkTask,
    SourceBatch,
    SourceConnector,
    SourceTask,
)

SOURCE = f"{__name__}.ObedientSource"
SINK = f"{__name__}.ObedientSink"


def source(**more: str) -> dict[str, str]:
    """Returns the config of a source `c`."""
    return {"name": "c", "connector.class": SOURCE, "tasks.max": "3", **more}


def sink(**more: str) -> dict[str, str]:
    """Returns the config of a sink `c`."""
    return {"name": "c", "connector.class": SINK, "tasks.max": "3", "topics": "t", **more}


class _Obedient:
    """What source and sink share. `seen` counts calls by connector name and method."""

    seen: ClassVar[list[tuple[str, str]]] = []
    # What a test wants to happen inside `alter_offsets`, by connector name.
    hooks: ClassVar[dict[str, Callable[[Any], object]]] = {}
    contexts: ClassVar[dict[str, Any]] = {}
    context: Any

    def version(self) -> str:
        return "1"

    def config(self) -> ConfigDef:
        return ConfigDef()

    def start(self, props: Mapping[str, str]) -> None:
        self.props = dict(props)
        self.contexts[props["name"]] = self.context
        self._act("start")

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        self._act("task_configs")
        count = int(self.props.get("tasks", "1"))
        return [{**self.props, "number": str(number)} for number in range(count)]

    def stop(self) -> None:
        self._act("stop")

    def _act(self, method: str) -> None:
        self.seen.append((self.props["name"], method))
        if method in self.props.get("fail", "").split(","):
            raise ConnectorError(f"{method} throws")

    def _alter(self, config: Mapping[str, str], offsets: Any) -> bool:
        hook = self.hooks.get(config["name"])
        if hook is not None:
            hook(offsets)
        match config.get("alter", "true"):
            case "refuse":
                raise ConnectorError("not these offsets")
            case "unsupported":
                raise NotImplementedError
            case "break":
                raise ValueError("broken")
            case answer:
                return answer == "true"


class ObedientSource(_Obedient, SourceConnector):
    """A source of numbered lines, or of nothing where no `topic` is given."""

    def task_class(self) -> type[SourceTask]:
        return ObedientSourceTask

    def alter_offsets(self, config: Mapping[str, str], offsets: Any) -> bool:
        return self._alter(config, offsets)


class ObedientSink(_Obedient, SinkConnector):
    """A sink that keeps what it got in `ObedientSinkTask.got`."""

    def task_class(self) -> type[SinkTask]:
        return ObedientSinkTask

    def alter_offsets(self, config: Mapping[str, str], offsets: Any) -> bool:
        return self._alter(config, offsets)


class ObedientSourceTask(SourceTask):
    """Emits numbers up to `last`, two a poll, from where it left off. Its partition has two fields,
    in an order that is not Connect's."""

    def __init__(self) -> None:
        self._idle = threading.Event()

    def version(self) -> str:
        return "1"

    def start(self, props: Mapping[str, str]) -> None:
        self._topic = props["topic"]
        self._last = int(props.get("last", "10"))
        self._partition = partition(props["number"])
        offset = self.context.offset_storage_reader.offset(self._partition)
        self._next = int((offset or {}).get("position") or 0)

    def poll(self) -> SourceBatch | None:
        numbers = range(self._next, min(self._next + 2, self._last))
        if not numbers:
            self._idle.wait(0.02)
            return None
        self._next = numbers.stop
        return SourceBatch(
            topic=self._topic,
            source_partition=self._partition,
            source_offset={"position": self._next},
            values=[str(number) for number in numbers],
        )

    def stop(self) -> None:
        pass


def partition(number: str) -> dict[str, str]:
    """The source partition of a task."""
    return {"table": f"t{number}", "schema": "s"}


class ObedientSinkTask(SinkTask):
    """Keeps values by connector name."""

    got: ClassVar[dict[str, list[Any]]] = {}

    def version(self) -> str:
        return "1"

    def start(self, props: Mapping[str, str]) -> None:
        self._got = self.got.setdefault(props["name"], [])

    def put(self, records: SinkBatch) -> None:
        self._got.extend(record.value for record in records)

    def stop(self) -> None:
        pass
