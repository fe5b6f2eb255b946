"""Asks a JVM that runs Java plugins over a socket, and takes what it sends.

Both sides send frames of JSON. docs/engine-protocol.md describes them.
"""

from __future__ import annotations

import logging
import queue
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeAlias

import orjson

from connect_runtime.api import ConnectorError
from connect_runtime.engine.jvm_log import log_event, log_left_out
from connect_runtime.traces import JavaError
from connect_runtime.waiting import TakesTooLong
from connect_specs.secrets import Redactor

_log = logging.getLogger(__name__)

_LENGTH: Final = struct.Struct(">I")
_LONGEST: Final = 256 << 20
_END_S: Final = 5.0
# After so long Apache's worker gives up a request
SLOW_S: Final = 90.0
# So long a JVM may take to read a request: one that is frozen must not hold up others
_PATIENCE: Final = struct.pack("ll", 30, 0)

Fields: TypeAlias = Mapping[str, Any]
OnEvent: TypeAlias = Callable[[str, Fields], None]
Answers: TypeAlias = Mapping[str, Callable[[Fields], Any]]


class JvmEnded(ConnectorError):
    """The JVM is gone. The text has the reason, as far as it is known."""


class JvmConnection:
    """A connection to a JVM. `on_event` gets events in order, on a thread of their own, and the
    last one, `ended`, with the reason; `answers` has the functions that answer its requests, each
    called on a thread of its own; `on_log` gets lines of its log. `worker` has secrets that are
    redacted."""

    def __init__(
        self,
        connected: socket.socket,
        worker: Mapping[str, str],
        on_event: OnEvent,
        answers: Answers,
        on_log: Callable[[Fields], None] = lambda line: None,
    ) -> None:
        self._on_event = on_event
        self._on_log = on_log
        self._answers = answers
        self._secrets: set[str] = set()
        self._redactor = Redactor.of_configs(worker, texts=self._secrets)
        self._worker = worker
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._waiting: dict[int, queue.SimpleQueue[Fields | None]] = {}
        self._last_id = 0
        self._ended: str | None = None
        self._killed = False
        self._over = threading.Event()
        # It could not build Connect's worker, which is no plugin's fault: Kafka may be away
        self.unusable = False
        self._socket = connected
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _PATIENCE)

    def _start_reading(self) -> None:
        threading.Thread(target=self._read, name="jvm_read", daemon=True).start()

    def _reason(self) -> tuple[str, bool]:
        """Returns why the JVM is gone, and whether a signal from outside ended it."""
        raise NotImplementedError

    # --- requests ---

    def call(
        self,
        name: str,
        timeout_s: float,
        *,
        on_slow: Callable[[], None] = lambda: None,
        **arguments: Any,
    ) -> Any:
        """Returns the result of a request. Raises JavaError, JvmEnded, and TakesTooLong after
        `timeout_s`; the JVM goes on then. Calls `on_slow` after `SLOW_S`."""
        answer: queue.SimpleQueue[Fields | None] = queue.SimpleQueue()
        with self._lock:
            if self._ended is not None:
                raise JvmEnded(self._ended)
            self._last_id += 1
            number = self._last_id
            self._waiting[number] = answer
        try:
            self._write({"id": number, "call": name, **arguments})
            frame = _taken(answer, timeout_s, on_slow)
        except queue.Empty:
            raise TakesTooLong from None
        finally:
            with self._lock:
                self._waiting.pop(number, None)
        if frame is None:
            raise JvmEnded(self._ended)
        if "error" in frame:
            raise self.error(frame["error"])
        return frame["result"]

    def error(self, failure: Fields) -> JavaError:
        """Returns an exception that the JVM sent, without secrets."""
        text, trace = (self.redact(failure[key] or "") for key in ("message", "trace"))
        return JavaError(failure["type"], text, failure["status"], trace)

    def hide(self, values: Iterable[str]) -> None:
        """Redacts these values from now on, too."""
        self._redact_also(values)

    def _redact_also(self, values: Iterable[str]) -> None:
        with self._lock:
            self._secrets.update(values)
            self._redactor = Redactor.of_configs(self._worker, texts=self._secrets)

    def redact(self, text: str) -> str:
        """Returns a text of the JVM without the secrets that it has named."""
        return self._redactor.redact(text)

    def _write(self, frame: Fields) -> None:
        content = framed(frame)
        try:
            with self._sending:
                self._socket.sendall(content)
        except OSError:  # also if it has read nothing for long
            self._shut()
            self._over.wait(_END_S)  # what it has sent before is read first
            self._end_waiting()
            raise JvmEnded(self._ended) from None

    # --- what arrives ---

    def _read(self) -> None:
        try:
            while True:
                (length,) = _LENGTH.unpack(self._receive(_LENGTH.size))
                self._take(orjson.loads(self._receive(length)))
        except (OSError, EOFError):
            pass
        except Exception as error:  # such as of a plugin that writes into the socket
            _log.exception("What a JVM sent cannot be read, and it is ended")
            reason = type(error).__name__
            self._ended = f"The JVM was ended, as what it sent cannot be read: {reason}"
            self._shut()
        self._end_waiting()
        self._on_event("ended", {"why": self._ended, "killed": self._killed})

    def _receive(self, count: int) -> bytes:
        if count > _LONGEST:
            raise ValueError(f"a frame of {count} bytes")
        content = bytearray()
        while len(content) < count:
            arrived = self._socket.recv(min(count - len(content), 1 << 20))
            if not arrived:
                raise EOFError
            content += arrived
        return bytes(content)

    def _take(self, frame: Fields) -> None:
        if "answer" in frame:
            with self._lock:
                waiting = self._waiting.get(frame["answer"])
            if waiting is not None:
                waiting.put(frame)
        elif "event" in frame:
            self._take_event(frame["event"], frame)
        else:
            threading.Thread(target=self._answer, args=(frame,), daemon=True).start()

    def _take_event(self, event: str, frame: Fields) -> None:
        match event:
            case "secrets":
                self._redact_also(frame["values"])
            case "unusable":
                error = self.error(frame["failure"])
                _log.error("Connect's worker cannot start in a JVM: %s", error.trace)
                self.unusable = True
                self._ended = f"Connect's worker cannot start: {error}"
            case "log":
                self._on_log(frame)
                log_event(frame, self.redact)
            case "log-lines-left-out":
                log_left_out(frame)
            case _:
                self._on_event(event, frame)

    def _answer(self, frame: Fields) -> None:
        answer: dict[str, Any] = {"answer": frame["id"]}
        try:
            answer["result"] = self._answers[frame["call"]](frame)
        except Exception as error:  # the JVM's thread waits for it
            _log.warning("A request of a JVM failed: %s", error)
            answer["error"] = str(error)
        try:
            self._write(answer)
        except JvmEnded:
            return

    # --- the end ---

    def end(self, patience_s: float = 0.0) -> None:
        """Ends the connection, and the JVM if it is this process's alone: after `patience_s` by
        SIGKILL."""
        self._shut()

    def _shut(self, how: int = socket.SHUT_RDWR) -> None:
        with suppress(OSError):  # it is closed, or the JVM has ended
            self._socket.shutdown(how)

    def _end_waiting(self) -> None:
        if self._over.is_set():
            return
        reason, killed = self._reason()
        with self._lock:
            self._ended = self._ended or reason
            self._killed = killed
            self._socket.close()
            waiting, self._waiting = list(self._waiting.values()), {}
        self._over.set()
        for answer in waiting:
            answer.put(None)


def framed(frame: Fields) -> bytes:
    """Returns a frame as it is sent."""
    content = orjson.dumps(frame)
    return _LENGTH.pack(len(content)) + content


def _taken(
    answer: queue.SimpleQueue[Fields | None], timeout_s: float, on_slow: Callable[[], None]
) -> Fields | None:
    """Returns the answer to a request, at once if its time is over. Raises queue.Empty."""
    if timeout_s > SLOW_S:
        with suppress(queue.Empty):
            return answer.get(timeout=SLOW_S)
        on_slow()
        timeout_s -= SLOW_S
    return answer.get(timeout=max(timeout_s, 0.0))
