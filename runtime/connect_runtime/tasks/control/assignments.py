"""Follows in the assignments topic what an attempt must do: it runs only while the newest record of
its task names it."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Final

from connect_runtime.agent.client import LineReader
from connect_runtime.agent.messages import Follow, records_of
from connect_runtime.storage import assignments_topic
from connect_runtime.storage.log import LogRecord
from connect_runtime.storage.snapshots import AssignmentSnapshot
from connect_runtime.tasks.kafka_failures import Interrupted
from connect_runtime.tasks.launch import AttemptEnd
from connect_runtime.tasks.task_setup import TaskSetup
from connect_specs.desired import TargetState

_RETRY_S: Final = 0.5
# So many in a row take as long as a task waits for a silent Kafka
_MOST_FAILURES: Final = 150
# A connection that was served for so long was no failure
_SERVED_S: Final = 5.0
_STOP_CHECK_S: Final = 0.2


class DesiredTaskState(Enum):
    """The state that an attempt is to have."""

    RUN = "run"
    PAUSE = "pause"
    STOP = "stop"
    SUPERSEDED = "superseded"  # another attempt has the task: do not even clean up in Kafka
    ORPHANED = "orphaned"  # the runtime that launched the attempt is gone

    @property
    def end(self) -> AttemptEnd | None:
        """Returns the end that the attempt must come to; None if it goes on."""
        # a table would hash an enum at each look of an idle task
        match self:
            case DesiredTaskState.STOP:
                return AttemptEnd.STOPPED
            case DesiredTaskState.SUPERSEDED:
                return AttemptEnd.SUPERSEDED
            case DesiredTaskState.ORPHANED:
                return AttemptEnd.ORPHANED
            case DesiredTaskState.RUN | DesiredTaskState.PAUSE:
                return None


class AttemptAssignment:
    """Reduces assignment records to the desired state of one attempt, by the newest of them.

    Once `orphaned()`, that is the state. `repeated` is called for each further record that names
    the attempt. `offset` is the next one to read.
    """

    def __init__(
        self,
        setup: TaskSetup,
        orphaned: Callable[[], bool] = lambda: False,
        repeated: Callable[[], None] = lambda: None,
    ) -> None:
        self._id = setup.id
        self._attempt = setup.attempt
        self._key = str(setup.id).encode()
        self._snapshot = AssignmentSnapshot()
        self._was_named = False
        self._orphaned = orphaned
        self._repeated = repeated
        self._newest = DesiredTaskState.SUPERSEDED
        self.offset = setup.assignments_offset

    @property
    def desired(self) -> DesiredTaskState:
        """Returns the state that the attempt is to have now."""
        return DesiredTaskState.ORPHANED if self._orphaned() else self._newest

    def apply(self, records: Iterable[LogRecord]) -> DesiredTaskState:
        """Applies further records of the assignments topic."""
        for record in records:
            self.offset = record.offset + 1
            if record.key != self._key:
                continue
            self._snapshot = assignments_topic.reduce_all(self._snapshot, (record,))
            was_named, self._was_named = self._was_named, True
            self._newest = self._wanted_by_leader()
            if was_named and self._newest.end is None:
                self._repeated()
        return self.desired

    def apply_unread(self, records: Iterable[LogRecord]) -> DesiredTaskState:
        """Applies those of these records that are at or after `offset`."""
        return self.apply(record for record in records if record.offset >= self.offset)

    def _wanted_by_leader(self) -> DesiredTaskState:
        assignment = self._snapshot.tasks.get(self._id)
        if assignment is None:
            return DesiredTaskState.STOP
        if assignment.attempt != self._attempt:
            return DesiredTaskState.SUPERSEDED
        match assignment.state:
            case TargetState.RUNNING:
                return DesiredTaskState.RUN
            case TargetState.PAUSED:
                return DesiredTaskState.PAUSE
            case TargetState.STOPPED:
                return DesiredTaskState.STOP


class AssignmentFollower:
    """Follows the desired state of an attempt from the position of `assignment`, as the agent
    passes it on. While the agent is replaced, the state stays. Bytes on `woken` end a wait.
    Raises Interrupted if there is no agent any more."""

    def __init__(
        self,
        setup: TaskSetup,
        assignment: AttemptAssignment,
        woken: socket.socket | None = None,
    ) -> None:
        self._assignment = assignment
        self._woken = woken
        self._topic = setup.topics.assignments
        self._key = str(setup.id)
        self._agent = setup.agent("assignments")
        self._lines: LineReader | None = None
        self._failures = 0
        self._retry_at = self._connected_at = 0.0
        self._connect(0.0)

    def desired(self, wait_s: float = 0.0) -> DesiredTaskState:
        """Returns the newest state; waits up to `wait_s` for records if there are none."""
        line = self._line(wait_s)
        while line is not None:
            self._assignment.apply(records_of(line))
            line = self._line(0.0)
        return self._assignment.desired

    def _line(self, wait_s: float) -> bytes | None:
        if self._lines is None and not self._connect(wait_s):
            return None
        assert self._lines is not None, "it is connected"
        try:
            line = self._lines.receive(wait_s)
        except (OSError, EOFError):
            # an agent that cannot follow takes requests, too, and ends them at once
            if time.monotonic() - self._connected_at > _SERVED_S:
                self._failures = 0
            self.close()
            return None
        return line

    def _connect(self, wait_s: float) -> bool:
        """Returns whether there is a connection; waits for the next try."""
        pause_s = self._retry_at - time.monotonic()
        if pause_s > 0:
            time.sleep(min(pause_s, wait_s))
            if pause_s > wait_s:
                return False
        self._retry_at = time.monotonic() + _RETRY_S
        self._failures += 1
        if self._failures > _MOST_FAILURES:
            raise Interrupted("Nothing serves this task's assignments: its agent refuses it")
        try:
            connected = self._agent.begin(Follow(self._topic, self._key, self._assignment.offset))
        except OSError:
            return False
        self._lines, self._connected_at = (
            LineReader(connected, self._woken),
            time.monotonic(),
        )
        return True

    def close(self) -> None:
        """Ends the connection."""
        if self._lines is not None:
            self._lines.close()
            self._lines = None


class RetryWait:
    """Waits before retries of a record, and notices when the attempt is to end.

    `follow` sets where that is seen; before, nothing waits.
    """

    def __init__(self) -> None:
        self._ends: Callable[[float], bool] | None = None

    def follow(self, follower: AssignmentFollower) -> None:
        """Notices from now on that the attempt is to end."""
        self._ends = lambda wait_s: follower.desired(wait_s).end is not None

    def __call__(self, seconds: float) -> bool:
        """Waits. Returns False at once if the task is to end."""
        assert self._ends is not None
        deadline = time.monotonic() + seconds
        while True:
            left_s = deadline - time.monotonic()
            if self._ends(max(0.0, min(left_s, _STOP_CHECK_S))):
                return False
            if left_s <= 0:
                return True
