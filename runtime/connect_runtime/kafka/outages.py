"""Logs an outage of a Kafka cluster when it starts, once a minute, and when it ends.

Every client logs every failed connection and request: in a process of many clients, thousands of
lines that say the same. While outages are reported, these lines are counted instead.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

_log = logging.getLogger("connect.kafka")

# The kinds of librdkafka's lines about failing connections, brokers and requests.
_FAILURES: Final = frozenset({"FAIL", "ERROR", "REQTMOUT", "SESSTMOUT", "TIMEOUT"})
# A Kafka that has just started loads what it knows of transactions; init_transactions has a limit
_START, _RETRIED = "GETPID", "retrying"
_LOG_EVERY_S: Final = 60.0
_CHECK_EVERY_S: Final = 1.0
_CHECK_MAX_S: Final = 8.0

_enabled = threading.Event()


def log_outages() -> None:
    """Makes this process log outages instead of each client's failures."""
    _enabled.set()


@dataclass(slots=True)
class Outage:
    """Decides what to log about one cluster's successive outages, and when. No I/O, no clock.

    After a line, the next start is not logged for a minute, so a single broker that comes and goes
    logs no more than a cluster that is down.
    """

    address: str
    began: float | None = None
    failures: int = 0
    newest: str = ""
    _failed_at: float = 0.0
    _logged_at: float | None = None
    _is_logged: bool = False

    def failed(self, now: float, text: str) -> str | None:
        """Records a failure; returns the line to log, if any."""
        if self.began is None:
            self.began, self.failures, self._is_logged = now, 0, False
        self.failures += 1
        self.newest, self._failed_at = text, now
        if self._is_logged or not self._may_log(now):
            return None
        self._is_logged, self._logged_at = True, now
        return f"Kafka at {self.address} cannot be reached: {text}"

    def checked(self, now: float, *, answers: bool) -> str | None:
        """Records whether Kafka answers; returns the line to log, if any."""
        if self.began is None:
            return None
        lasted = now - self.began
        if answers and now - self._failed_at >= _CHECK_EVERY_S:
            self.began = None
            if not self._is_logged:
                return None
            return f"Kafka at {self.address} answers again after {lasted:.0f} s; {self._count()}"
        if not self._may_log(now):
            return None
        self._is_logged, self._logged_at = True, now
        return (
            f"Kafka at {self.address} has been failing for {lasted:.0f} s; {self._count()}, "
            f"most recently: {self.newest}"
        )

    def _may_log(self, now: float) -> bool:
        return self._logged_at is None or now - self._logged_at >= _LOG_EVERY_S

    def _count(self) -> str:
        return f"{self.failures} connections or requests failed"


class ClusterLog:
    """The logger of all clients of one cluster.

    `answers` asks the cluster; it is called in a thread that lives as long as an outage.
    """

    def __init__(self, address: str, answers: Callable[[], bool]) -> None:
        self._answers = answers
        self._lock = threading.Lock()
        self._outage = Outage(address)
        self._watching = False

    def log(self, level: int, text: str, *args: Any) -> None:
        """Logs like a logger. librdkafka passes a line's kind, its client's name and its text."""
        if args and args[0] == _START and str(args[-1]).endswith(_RETRIED):
            _log.debug(text, *args)
            return
        if not (_enabled.is_set() and args and args[0] in _FAILURES):
            _log.log(level, text, *args)
            return
        if level < logging.WARNING:
            # An idle connection was closed; while Kafka is down, hundreds a second
            _log.debug(text, *args)
            return
        with self._lock:
            line = self._outage.failed(time.monotonic(), str(args[-1]))
            starts, self._watching = not self._watching, True
        if line:
            _log.warning("%s", line)
        if starts:
            threading.Thread(target=self._watch, name="kafka-outage", daemon=True).start()

    def _watch(self) -> None:
        over = False
        pause_s = _CHECK_EVERY_S
        while not over:
            time.sleep(pause_s)
            # each of many processes asks
            pause_s = min(2 * pause_s, _CHECK_MAX_S)
            answers = self._answers()
            with self._lock:
                line = self._outage.checked(time.monotonic(), answers=answers)
                over = self._outage.began is None
                self._watching = not over
            if line:
                _log.warning("%s", line)
