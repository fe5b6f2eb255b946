"""A Connect cluster over REST whose config topic can be read: what REST accepted counts when the
topic holds it.

Else the workers that were asked are those of another cluster, which nothing told before: this ends
the apply, before more goes there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from connect_reconciler.cluster.readback import Found, ReadBack
from connect_reconciler.cluster.rest_alone import UnkeyedCluster
from connect_reconciler.cluster.rest_client import RestClient
from connect_reconciler.plan.reserved import without_reserved
from connect_reconciler.plan.secrets.masked import same_config
from connect_runtime.herder.errors import RequestError
from connect_specs.diagnostics import Diagnostic, Unreachable
from connect_specs.states import TargetState

# A leader answers once it has written
_ARRIVES_S = 15.0
_EVERY_S = 0.05
_NOT_FOUND = 404


class NotArrived(Unreachable):
    """REST accepted a change that the config topic does not show."""


class ConfirmedCluster(UnkeyedCluster):
    """`read_back` reads `topic`, the config topic. All changes raise NotArrived, Unreachable."""

    def __init__(
        self,
        client: RestClient,
        read_back: ReadBack,
        topic: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(client)
        self._read_back = read_back
        self._topic = topic
        self._clock = clock
        self._sleep = sleep

    def create(self, name: str, config: Mapping[str, str], state: TargetState) -> None:
        before = self._read_back(name)
        super().create(name, config, state)
        self._confirm(name, before, lambda now: _has(now, config) and _is(now, state))

    def update_config(self, name: str, config: Mapping[str, str]) -> None:
        before = self._read_back(name)
        super().update_config(name, config)
        self._confirm(name, before, lambda now: _has(now, config))

    def stop(self, name: str) -> None:
        before = self._read_back(name)
        super().stop(name)
        self._confirm(name, before, lambda now: _is(now, TargetState.STOPPED))

    def pause(self, name: str) -> None:
        before = self._read_back(name)
        super().pause(name)
        self._confirm(name, before, lambda now: _is(now, TargetState.PAUSED))

    def resume(self, name: str) -> None:
        before = self._read_back(name)
        super().resume(name)
        self._confirm(name, before, lambda now: _is(now, TargetState.RUNNING))

    def delete(self, name: str) -> None:
        before = self._read_back(name)
        try:
            super().delete(name)
        except RequestError as error:
            if error.status == _NOT_FOUND:
                # That nothing was there to delete must be true of this cluster
                self._confirm(name, before, lambda now: now is None, said="knows no such connector")
            raise
        self._confirm(name, before, lambda now: now is None)

    def _confirm(
        self,
        name: str,
        before: Found | None,
        arrived: Callable[[Found | None], bool],
        *,
        said: str = "has accepted a change",
    ) -> None:
        """Waits for it, or for what somebody else wrote over it."""
        deadline = self._clock() + _ARRIVES_S
        while True:
            now = self._read_back(name)
            if arrived(now) or not _same(now, before):
                return
            if self._clock() >= deadline:
                raise self._not_arrived(name, said)
            self._sleep(_EVERY_S)

    def _not_arrived(self, name: str, said: str) -> NotArrived:
        what = f"the REST API {said}, and topic {self._topic} does not show that"
        why = f"it did not come within {_ARRIVES_S:.0f} s: these workers are of another cluster"
        hint = (
            f"look for {name} on those workers, and undo what was changed there; "
            "then correct cluster.target or cluster.group.id in connect.yaml"
        )
        return NotArrived(Diagnostic("cluster.not-arrived", what, name, why, hint))


def _has(now: Found | None, config: Mapping[str, str]) -> bool:
    if now is None:
        return False
    found, wanted = without_reserved(now.config), without_reserved(config)
    name = {"name": ""}
    return same_config(found | name, wanted | name)


def _is(now: Found | None, state: TargetState) -> bool:
    return now is not None and now.target is state


def _same(now: Found | None, before: Found | None) -> bool:
    """Whether nothing was written since; that tasks come and go is no change of anybody's."""
    if now is None or before is None:
        return now is before
    return now.config == before.config and now.target is before.target
