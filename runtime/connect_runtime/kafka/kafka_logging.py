"""Logs what Kafka clients do: each call that a verb makes, and outages of a cluster.

Of a call: its name, its targets, duration and result; names and counts only, never record contents.
Tasks' own polling is not logged. Costs almost nothing while this is not logged.

Every client logs every failed connection and request: in a process of many clients, thousands of
lines that say the same. While outages are reported, these lines are counted instead, and an outage
is logged when it starts, once a minute, and when it ends.
"""

from __future__ import annotations

import functools
import inspect
import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sized
from dataclasses import dataclass
from typing import Any, Final, ParamSpec, TypeVar

from connect_specs.diagnostics import ConnectError
from connect_specs.plain_text import listed

P = ParamSpec("P")
T = TypeVar("T")

_requests_log = logging.getLogger("connect.requests.kafka")
_ADDRESS = "bootstrap.servers"
_NAMES_MAX = 5
_log = logging.getLogger("connect.kafka")

# The kinds of librdkafka's lines about failing connections, brokers and requests.
_FAILURES: Final = frozenset({"FAIL", "ERROR", "REQTMOUT", "SESSTMOUT", "TIMEOUT"})
# A Kafka that has just started loads what it knows of transactions; init_transactions has a limit
_START, _RETRIED = "GETPID", "retrying"
_LOG_EVERY_S: Final = 60.0
_CHECK_EVERY_S: Final = 1.0
_CHECK_MAX_S: Final = 8.0

_enabled = threading.Event()


def logged(action: str, *of: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Logs each call of a function, with the topics, groups or partitions in its parameters `of`.
    Of client properties only the address is logged."""

    def decorate(call: Callable[P, T]) -> Callable[P, T]:
        parameters = inspect.signature(call)
        assert parameters.parameters.keys() >= {*of}, f"{call} has no parameter of {of}"

        @functools.wraps(call)
        def wrapper(*args: P.args, **keywords: P.kwargs) -> T:
            if not _requests_log.isEnabledFor(logging.DEBUG):
                return call(*args, **keywords)
            arguments = parameters.bind(*args, **keywords).arguments
            subject = ", ".join(filter(None, (_names(arguments.get(name)) for name in of)))
            start = time.monotonic()
            try:
                answer = call(*args, **keywords)
            except Exception as error:
                reason = error if isinstance(error, ConnectError) else type(error).__name__
                _requests_log.debug(
                    "%s %s: failed after %s: %s", action, subject, _ms(start), reason
                )
                raise
            _requests_log.debug("%s %s: %s in %s", action, subject, _result(answer), _ms(start))
            return answer

        return wrapper

    return decorate


def _names(value: object) -> str:
    """Returns some of the value's names, and how many more there are. Does not consume
    iterators."""
    if isinstance(value, Mapping) and _ADDRESS in value:
        return str(value[_ADDRESS])
    if isinstance(value, str) or not isinstance(value, Collection):
        return "" if value is None else _name(value)
    return listed(dict.fromkeys(map(_name, value)), _NAMES_MAX)


def _name(value: object) -> str:
    match value:
        case str():
            return value
        case (str(topic), int(partition), *_):
            return f"{topic}-{partition}"
        case _:
            return str(getattr(value, "topic", getattr(value, "name", "")))


def _result(answer: object) -> str:
    if isinstance(answer, Sized) and not isinstance(answer, str | bytes):
        return f"{len(answer)} found"
    return "done"


def _ms(start: float) -> str:
    return f"{(time.monotonic() - start) * 1000:.0f} ms"


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

    def failed(self, now_s: float, text: str) -> str | None:
        """Records a failure; returns the line to log, if any."""
        if self.began is None:
            self.began, self.failures, self._is_logged = now_s, 0, False
        self.failures += 1
        self.newest, self._failed_at = text, now_s
        if self._is_logged or not self._may_log(now_s):
            return None
        self._is_logged, self._logged_at = True, now_s
        return f"Kafka at {self.address} cannot be reached: {text}"

    def checked(self, now_s: float, *, answers: bool) -> str | None:
        """Records whether Kafka answers; returns the line to log, if any."""
        if self.began is None:
            return None
        lasted = now_s - self.began
        if answers and now_s - self._failed_at >= _CHECK_EVERY_S:
            self.began = None
            if not self._is_logged:
                return None
            return f"Kafka at {self.address} answers again after {lasted:.0f} s; {self._count()}"
        if not self._may_log(now_s):
            return None
        self._is_logged, self._logged_at = True, now_s
        return (
            f"Kafka at {self.address} has been failing for {lasted:.0f} s; {self._count()}, "
            f"most recently: {self.newest}"
        )

    def _may_log(self, now_s: float) -> bool:
        return self._logged_at is None or now_s - self._logged_at >= _LOG_EVERY_S

    def _count(self) -> str:
        return f"{self.failures} connections or requests failed"


class OutageLog:
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
