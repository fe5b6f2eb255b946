"""A task's connection to a JVM that it shares with others of its node, whose agent owns it."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable
from typing import Final

from connect_runtime.agent.client import AgentClient
from connect_runtime.agent.messages import JoinJvm, jvm_end_of, own_jvm_of
from connect_runtime.engine.jvm_connection import Answers, JvmConnection, OnEvent
from connect_runtime.tasks.kafka_failures import Interrupted

# A JVM that starts scans its plugins
_JOIN_S: Final = 100.0
# The agent hears of the end of its JVM at about the same time, and of its last lines a second later
_REASON_S: Final = 5.0
_HIDE_S: Final = 30.0
# Longer than the JVM waits for a task
_SLACK_S: Final = 2.0
_RETRY_S: Final = 0.1
_CHUNK: Final = 65_536


class SharedJvm(JvmConnection):
    """A place in the JVM. Its end ends this task only. `own_jvm`: the trace of a task that has
    ended a JVM, and has one to itself since."""

    def __init__(
        self, agent: AgentClient, request: JoinJvm, on_event: OnEvent, answers: Answers
    ) -> None:
        """Waits until the JVM can be asked. Raises Interrupted if there is none."""
        self._ending = False
        self._end_s = request.graceful_s + _SLACK_S
        self._agent = _begun(agent, request)
        try:
            joined = self._joined(_JOIN_S + request.graceful_s)
        except BaseException:
            self._agent.close()
            raise
        super().__init__(joined, request.worker, on_event, answers)
        self._start_reading()

    def _joined(self, limit_s: float) -> socket.socket:
        self._agent.settimeout(limit_s)
        try:
            line, descriptors, _, _ = socket.recv_fds(self._agent, _CHUNK, 1)
        except OSError as error:
            raise Interrupted(f"There is no JVM for this task: {error}") from error
        if not descriptors:
            reason, killed = self._end_line(limit_s, line)
            raise Interrupted(reason, killed=killed)
        self.own_jvm = own_jvm_of(line)
        return socket.socket(fileno=descriptors[0])

    def _end_line(self, limit_s: float, line: bytes = b"") -> tuple[str, bool]:
        """Returns why the JVM has ended, from what the agent sends last."""
        try:
            self._agent.settimeout(limit_s)
            while chunk := self._agent.recv(_CHUNK):
                line += chunk
        except OSError:  # this side has closed it, or nothing comes
            pass
        if not line.endswith(b"\n"):
            return "The JVM has ended with this node's agent", False
        return jvm_end_of(line)

    def hide(self, values: Iterable[str]) -> None:
        """Redacts these values from now on, here and in the log of the JVM. Raises JvmEnded."""
        secrets = [*values]
        self._redact_also(secrets)
        self.call("hide", _HIDE_S, values=secrets)

    def _reason(self) -> tuple[str, bool]:
        if self._ended is not None:
            return self._ended, False
        if self._ending:
            return "The task has ended", False
        return self._end_line(_REASON_S)

    def end(self, patience_s: float = 0.0) -> None:
        """Ends what runs of the task in the JVM, and waits for that as long as Connect does."""
        self._ending = True
        self._shut(socket.SHUT_WR)
        self._over.wait(self._end_s)
        self._shut()
        self._agent.close()


def _begun(agent: AgentClient, request: JoinJvm) -> socket.socket:
    """Returns the connection for a request; waits for a place in the agent's door. Raises
    Interrupted."""
    deadline = time.monotonic() + _JOIN_S
    while True:
        try:
            return agent.begin(request)
        except OSError as error:  # many tasks start at once
            if time.monotonic() > deadline:
                raise Interrupted(f"There is no JVM for this task: {error}") from error
            time.sleep(_RETRY_S)
