"""The port through which actions are performed; `apply.cluster_operations` implements it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from connect_specs.desired import OffsetEntry
from connect_specs.states import TargetState


class Operations(Protocol):
    """Changes of one connector, each of which returns when it has taken place.

    All raise RequestError for a refusal, Failed where the cluster does something else, and
    OutcomeUnknown when even reading back did not show the outcome.
    """

    def create(self, name: str, config: Mapping[str, str], state: TargetState) -> None: ...
    def update_config(
        self, name: str, config: Mapping[str, str], changed_keys: Collection[str]
    ) -> None: ...
    def stop(self, name: str) -> None:
        """Returns once its tasks are gone."""
        ...

    def set_target(self, name: str, target: TargetState) -> None: ...
    def restart_failed(self, name: str) -> None: ...
    def alter_offsets(self, name: str, entries: Sequence[OffsetEntry]) -> None: ...
    def reset_offsets(self, name: str) -> None: ...
    def copy_offsets(self, source: str, name: str) -> tuple[OffsetEntry, ...]:
        """Gives the connector the offsets of `source` and no others. Returns the changes."""
        ...

    def delete(self, name: str, *, reset_offsets: bool) -> None: ...
