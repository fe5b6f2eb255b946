"""The cluster port over a herder that this process leads.

Nothing runs beside it, so tasks do not run either: a connector that is resumed here starts when a
runtime does. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from connect_runtime.herder.errors import RequestError
from connect_runtime.herder.values import ConnectorStatus
from connect_runtime.herder.verbs import Verbs
from connect_runtime.kafka.errors import is_denied
from connect_specs.desired import OffsetEntry
from connect_specs.diagnostics import ConnectError
from connect_specs.states import TargetState

T = TypeVar("T")


class InProcessCluster:
    """Implements `Cluster`. `close` ends the herder's leadership."""

    def __init__(self, verbs: Verbs, close: Callable[[], None]) -> None:
        self._verbs = verbs
        self._close = close

    @property
    def runs_tasks(self) -> bool:
        return False

    def create(self, name: str, config: Mapping[str, str], state: TargetState) -> None:
        self._verbs.create(name, config, state)

    def update_config(self, name: str, config: Mapping[str, str]) -> None:
        self._verbs.put_config(name, config)

    def config(self, name: str) -> Mapping[str, str] | None:
        return _found(lambda: self._verbs.config(name))

    def status(self, name: str) -> ConnectorStatus | None:
        return _found(lambda: self._verbs.status(name))

    def stop(self, name: str) -> None:
        self._verbs.stop(name)

    def pause(self, name: str) -> None:
        self._verbs.pause(name)

    def resume(self, name: str) -> None:
        self._verbs.resume(name)

    def restart(self, name: str) -> None:
        self._verbs.restart(name, include_tasks=True, only_failed=True)

    def delete(self, name: str) -> None:
        self._verbs.delete(name)

    def offsets(self, name: str) -> Sequence[OffsetEntry]:
        return self._verbs.offsets(name)

    def alter_offsets(self, name: str, offsets: Sequence[OffsetEntry]) -> str:
        return _explained(lambda: self._verbs.alter_offsets(name, offsets))

    def reset_offsets(self, name: str) -> str:
        return _explained(lambda: self._verbs.reset_offsets(name))

    def close(self) -> None:
        self._close()


def _explained(ask: Callable[[], T]) -> T:
    """With the right that is missing, which Connect's text leaves out."""
    try:
        return ask()
    except RequestError as error:
        cause = error.__cause__
        if not isinstance(cause, ConnectError) or not is_denied(cause):
            raise
        why = f"{error.message}: {cause} ({cause.diagnostics[0].why})"
        raise RequestError(error.status, why) from cause


def _found(ask: Callable[[], T]) -> T | None:
    try:
        return ask()
    except RequestError as error:
        if error.status == 404:
            return None
        raise
