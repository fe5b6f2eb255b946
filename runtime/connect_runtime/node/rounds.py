"""Answers requests in rounds: what was asked while a round ran is answered together in the next.

So a hundred tasks that start at once cost a few requests to Kafka, and one that starts alone does
not wait.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol

from confluent_kafka import KafkaException

from connect_runtime.node.asking import Asking, file_of
from connect_specs.diagnostics import ConnectError

_log = logging.getLogger(__name__)

_UNUSED_S: Final = 60.0


class Answers(Protocol):
    """The work of a round, with a client of Kafka. Raises ConnectError or KafkaException if it
    cannot answer."""

    def of(self, requests: Sequence[Any]) -> Iterable[bytes]:
        """Returns the answers in the order of the requests, which differ, as of now or later."""
        ...

    def close(self) -> None: ...


class Rounds:
    """Implements Service with the answers of `make`, which is called again after they failed.
    A task without an answer asks Kafka by itself, and reports why Kafka does not answer."""

    def __init__(self, name: str, make: Callable[[], Answers]) -> None:
        self._name = name
        self._make = make
        self._answers: Answers | None = None
        self._asked = threading.Condition()
        self._waiting: dict[Asking, Any] = {}
        self._in_round: dict[Asking, Any] = {}
        self.over = False

    def start(self) -> None:
        threading.Thread(target=self._run, name=self._name, daemon=True).start()

    def add(self, asking: Asking, request: Any) -> bool:
        with self._asked:
            if self.over:
                return False
            self._waiting[asking] = request
            self._asked.notify()
            return True

    def remove(self, asking: Asking) -> None:
        with self._asked:
            self._waiting.pop(asking, None)
            self._in_round.pop(asking, None)

    def tell_alive(self) -> None:
        with self._asked:
            for asking in (*self._waiting, *self._in_round):
                asking.send(b".")

    def _run(self) -> None:
        try:
            while requests := self._next():
                self._round(requests)
        except Exception:
            _log.exception("Tasks of this node are not served any more: %s", self._name)
        finally:
            with self._asked:
                self.over = True
                for asking in (*self._waiting, *self._in_round):
                    asking.end()
            self._close()

    def _next(self) -> dict[Asking, Any]:
        """Returns what was asked since the last round; nothing if none came for a while."""
        with self._asked:
            self._asked.wait_for(lambda: self._waiting, _UNUSED_S)
            self._in_round, self._waiting = self._waiting, {}
            self.over = not self._in_round
            return dict(self._in_round)

    def _round(self, requests: dict[Asking, Any]) -> None:
        # all tasks of a connector ask for the same
        equal: dict[Any, list[Asking]] = {}
        for asking, request in requests.items():
            equal.setdefault(request, []).append(asking)
        for tasks, content in zip(equal.values(), self._contents(list(equal)), strict=False):
            # one file at a time, and not made under the lock: it may be large
            with file_of(content) as file, self._asked:
                for asking in tasks:
                    if self._in_round.pop(asking, None) is not None:
                        asking.answer(file)
        with self._asked:
            for asking in self._in_round:
                asking.end()
            self._in_round = {}

    def _contents(self, requests: Sequence[Any]) -> Iterable[bytes]:
        """Returns nothing if they cannot be answered."""
        try:
            if self._answers is None:
                self._answers = self._make()
            return self._answers.of(requests)
        except (ConnectError, KafkaException) as error:
            _log.info("%s: tasks do so by themselves: %s", self._name, error)
            self._close()
            return ()

    def _close(self) -> None:
        answers, self._answers = self._answers, None
        if answers is not None:
            answers.close()
