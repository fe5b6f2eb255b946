"""File sources that hold a moment for as long as a test likes: until the file `gate` is there."""

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from connect_runtime.api import ConnectorError, SourceBatch, SourceTask
from connect_runtime.connectors.file_source import FileStreamSourceConnector, FileStreamSourceTask

_EVERY_S = 0.05


class SlowToStart(FileStreamSourceConnector):
    """Between its config and the launch of its tasks: it does not say what they are."""

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """Waits for the gate."""
        _wait_for(self._props["gate"])
        return super().task_configs(max_tasks)


class SlowToStop(FileStreamSourceConnector):
    """Between a stop and the end of its task: that does not return from `stop`."""

    def task_class(self) -> type[SourceTask]:
        """The one that waits."""
        return SlowToStopTask


class SlowToStopTask(FileStreamSourceTask):
    """Its runtime waits for it for 5 s."""

    def start(self, props: Mapping[str, str]) -> None:
        """Keeps where the gate is."""
        self._gate = props["gate"]
        super().start(props)

    def stop(self) -> None:
        """Waits for the gate."""
        _wait_for(self._gate)
        super().stop()


class BreaksLate(FileStreamSourceConnector):
    """Between its start and the end of its first poll, which then throws."""

    def task_class(self) -> type[SourceTask]:
        """The one that throws."""
        return BreaksLateTask


class BreaksLateTask(FileStreamSourceTask):
    """Polls for as long as its database does not answer."""

    def start(self, props: Mapping[str, str]) -> None:
        """Keeps where the gate is."""
        self._gate = props["gate"]
        super().start(props)

    def poll(self) -> SourceBatch | None:
        """Waits for the gate."""
        _wait_for(self._gate)
        raise ConnectorError("the database refuses the login")


def _wait_for(gate: str) -> None:
    never = threading.Event()
    while not Path(gate).exists():
        never.wait(_EVERY_S)
