"""The `Cluster` port: Connect's verbs as apply uses them.

Two adapters hold one contract suite: `in_process` asks the herder that this process leads with,
`http` a Connect REST API. Neither decides anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from connect_runtime.herder.values import ConnectorStatus
from connect_specs.desired import OffsetEntry
from connect_specs.diagnostics import Failed
from connect_specs.states import TargetState


class OutcomeUnknown(Failed):
    """A change was asked for and no answer came: it may have taken place, or may still."""


class Cluster(Protocol):
    """What apply can do to a cluster. All raise RequestError with Connect's status and text.

    An HTTP call whose answer never came raises `OutcomeUnknown`; one that was never sent, and a
    read without an answer, raises `Unreachable`.
    """

    @property
    def runs_tasks(self) -> bool:
        """Whether tasks run while this cluster is used; if not, waits for health are skipped."""
        ...

    def create(self, name: str, config: Mapping[str, str], state: TargetState) -> None: ...
    def update_config(self, name: str, config: Mapping[str, str]) -> None: ...
    def config(self, name: str) -> Mapping[str, str] | None: ...
    def status(self, name: str) -> ConnectorStatus | None: ...
    def stop(self, name: str) -> None: ...
    def pause(self, name: str) -> None: ...
    def resume(self, name: str) -> None: ...
    def restart(self, name: str) -> None:
        """The connector and its tasks, the failed ones only."""
        ...

    def delete(self, name: str) -> None: ...
    def offsets(self, name: str) -> Sequence[OffsetEntry]: ...
    def alter_offsets(self, name: str, offsets: Sequence[OffsetEntry]) -> str: ...
    def reset_offsets(self, name: str) -> str: ...
    def close(self) -> None: ...
