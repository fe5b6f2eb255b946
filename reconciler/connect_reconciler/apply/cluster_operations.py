"""Asks the cluster for one change, and waits until it has taken place.

If the answer to a request never came, the cluster is read before the request counts as failed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from connect_reconciler.apply.context import MoveRefused, Waiter
from connect_reconciler.apply.health import anything_left, still_running, tasks_left
from connect_reconciler.backend.backend import Cluster, ReadConnector
from connect_reconciler.backend.rest.client import OutcomeUnknown
from connect_reconciler.backend.rest.refusals import group_is_active, not_written, timed_out
from connect_reconciler.model.offsets import Offsets
from connect_reconciler.model.secrets import masked_keys, same_spec
from connect_runtime.herder.verbs import ConnectorStatus, RequestError
from connect_specs.desired import OffsetEntry, TargetState
from connect_specs.diagnostics import Diagnostic, Failed, Unreachable

_NOT_FOUND = 404
# Deleted by another client before; or a Connect from before 3.5, where only a delete ends tasks
_NO_STOP = (_NOT_FOUND, 405)


@dataclass(frozen=True, slots=True)
class ClusterOperations:
    """Performs actions on the cluster (implements `actions.base.Operations`). `waiting` is called
    with a connector and the condition that it waits for."""

    cluster: Cluster
    read_back: ReadConnector
    patience: Waiter
    waiting: Callable[[str, str], None]

    def create(self, name: str, config: Mapping[str, str], state: TargetState) -> None:
        self._ask(
            lambda: self.cluster.create(name, config, state),
            lambda: self._has(name, config) and self._is(name, state),
        )

    def update_config(
        self, name: str, config: Mapping[str, str], changed_keys: Collection[str]
    ) -> None:
        self._ask(
            lambda: self.cluster.update_config(name, config),
            lambda: self._has(name, config, changed_keys),
        )

    def stop(self, name: str) -> None:
        """Returns once its tasks are gone."""
        self._stop(name)
        self._wait_for_tasks(name, still_running)

    def set_target(self, name: str, target: TargetState) -> None:
        self._ask(lambda: self.cluster.set_target(name, target), lambda: self._is(name, target))

    def restart_failed(self, name: str) -> None:
        # Nothing shows whether a restart took place
        self._ask(lambda: self.cluster.restart(name, only_failed=True), lambda: False)

    def alter_offsets(self, name: str, entries: Sequence[OffsetEntry]) -> None:
        if entries:
            self._once_idle(
                name,
                lambda: self.cluster.alter_offsets(name, entries),
                lambda: self._offsets(name).hold(entries),
            )

    def reset_offsets(self, name: str) -> None:
        self._once_idle(
            name,
            lambda: self.cluster.reset_offsets(name),
            lambda: not self._offsets(name),
        )

    def copy_offsets(self, source: str, name: str) -> tuple[OffsetEntry, ...]:
        """Gives the connector the offsets of `source` and no others. Returns the changes."""
        # Written as they are, because a change of offsets first fences tasks of the source's name
        # that may still run
        self.alter_offsets(source, tuple(self._offsets(source)))
        offsets = self._offsets(source)
        surplus = (
            entry for entry in self._offsets(name).removed() if entry.partition not in offsets
        )
        entries = (*offsets, *surplus)
        if not self._offsets(name).hold(entries):
            self.alter_offsets(name, entries)
        if not self._offsets(name).hold(entries):
            message = f"the offsets of {name} are not those that {source} has"
            hint = "run apply again: it carries them anew"
            raise Failed(Diagnostic("apply.not-carried", message, name, hint=hint))
        return entries

    def delete(self, name: str, *, reset_offsets: bool) -> None:
        """Returns once its tasks are gone, and its status."""
        self._end_tasks(name)
        # A connector may refuse to reset offsets that it does not have
        if reset_offsets and self.read_back(name) is not None and self._offsets(name):
            self.reset_offsets(name)
        try:
            self._ask(lambda: self.cluster.delete(name), lambda: self.read_back(name) is None)
        except RequestError as error:
            if error.status != _NOT_FOUND:
                raise
        self._wait_until_ended(name, anything_left, "it is gone", "deleted")

    def _offsets(self, name: str) -> Offsets:
        return Offsets(self.cluster.offsets(name))

    def _end_tasks(self, name: str) -> None:
        """Stops a connector that is to be deleted: its tasks may hold what the next connector
        needs, such as a replication slot."""
        if self.read_back(name) is None or not self.cluster.runs_tasks:
            return
        try:
            self._stop(name)
        except RequestError as error:
            if error.status not in _NO_STOP:
                raise
            return
        self._wait_for_tasks(name, tasks_left)

    def _wait_for_tasks(self, name: str, unended: Callable[[ConnectorStatus | None], str]) -> None:
        """Waits until the tasks of a connector that was asked to stop are gone, and asks again now
        and then: a worker of Apache that gave up on a slow task leaves its status unchanged until
        the workers rebalance, which each request makes them do."""
        clock, every_s = self.patience.clock, self.patience.limits.stop_again_s
        due = clock.now() + every_s

        def nudged(status: ConnectorStatus | None) -> str:
            nonlocal due
            tasks = unended(status)
            if tasks and clock.now() >= due:
                due = clock.now() + every_s
                with suppress(RequestError, OutcomeUnknown):
                    self.cluster.set_target(name, TargetState.STOPPED)
            return tasks

        self._wait_until_ended(name, nudged, "its tasks end", "asked to stop")

    def _once_idle(
        self, name: str, request: Callable[[], object], took_place: Callable[[], bool]
    ) -> None:
        """Repeats the request while a stopped task is still in the consumer group."""
        refused: list[RequestError] = []
        offsets = self._offsets(name)

        def accepted() -> bool:
            try:
                self._ask(request, took_place)
                return True
            except RequestError as error:
                if not group_is_active(error):
                    raise
                if not refused:
                    self.waiting(name, "its last task has not left the consumer group")
                refused.append(error)
                return False

        if not self.patience.until(accepted, self.patience.limits.group_s):
            if refused and self._offsets(name) == offsets:
                raise MoveRefused(_still_active(name, refused[-1]))
            raise refused[-1]

    def _ask(self, request: Callable[[], object], took_place: Callable[[], bool]) -> None:
        """Sends the request. Raises its refusal, or OutcomeUnknown if it did not take place in time
        after a request whose answer does not show whether it did."""
        try:
            request()
            return
        except OutcomeUnknown as error:
            unknown = error
        except RequestError as error:
            if not_written(error):
                self._judge(error, took_place)
                return
            if not timed_out(error):
                raise
            message = "the cluster took too long to answer, and may still do what it was asked"
            unknown = OutcomeUnknown(Diagnostic("apply.no-answer", message, why=error.message))

        def is_answered() -> bool:
            try:
                return took_place()
            except (Unreachable, OutcomeUnknown, RequestError):
                return False

        if not self.patience.until(is_answered, self.patience.limits.unknown_s):
            raise unknown

    def _judge(self, refusal: RequestError, took_place: Callable[[], bool]) -> None:
        """Raises the refusal, unless the request took effect all the same."""
        try:
            if took_place():
                return
        except (Unreachable, OutcomeUnknown, RequestError) as error:
            message = "the cluster broke off, and what it did cannot be read"
            reason = f"{refusal.message}; {error}"
            raise OutcomeUnknown(Diagnostic("apply.no-answer", message, why=reason)) from error
        raise refusal

    def _has(self, name: str, config: Mapping[str, str], changed: Collection[str] = ()) -> bool:
        """Returns True if the config is there. The values of `changed` keys must be visible: a mask
        looks the same before and after."""
        connector = self.read_back(name)
        if connector is None or not masked_keys(connector.config).isdisjoint(changed):
            return False
        # Keys that were in neither config are added by the cluster
        items = connector.config.items()
        return same_spec({k: v for k, v in items if k in config or k in changed}, config)

    def _stop(self, name: str) -> None:
        """Stops it unless it is stopped already. Apache's workers count a source that is stopped
        again among those whose zombies are to be fenced, and then alter its offsets only once."""
        if not self._is(name, TargetState.STOPPED):
            self.set_target(name, TargetState.STOPPED)

    def _is(self, name: str, target: TargetState) -> bool:
        connector = self.read_back(name)
        return connector is not None and connector.target is target

    def _wait_until_ended(
        self, name: str, unended: Callable[[ConnectorStatus | None], str], until: str, was: str
    ) -> None:
        """Waits until `unended` finds nothing in the connector's status that has not ended."""
        if not self.cluster.runs_tasks:
            return
        running = unended(self.cluster.status(name))
        if not running:
            return
        self.waiting(name, until)

        def ended() -> bool:
            nonlocal running
            running = unended(self.cluster.status(name))
            return not running

        if not self.patience.until(ended, self.patience.limits.stop_s):
            message = f"it was {was} and has not ended: {running}"
            hint = "run apply again when it has"
            raise Failed(Diagnostic("apply.not-stopped", message, name, hint=hint))


def _still_active(name: str, refusal: RequestError) -> Diagnostic:
    message = "its consumer group still has members, and Kafka moves no offsets while it has"
    hint = (
        "end what reads with the group, which may be no connector of this cluster, then apply again"
    )
    return Diagnostic("apply.group-in-use", message, name, refusal.message, hint)
