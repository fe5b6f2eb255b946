"""Several connectors at a time: what is done together, and whether anything new may begin."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence

from connect_specs.diagnostics import ConnectError

_LOOK_S = 0.2


class Course:
    """What the threads of one apply have in common. `ended_by` is what ended it first."""

    def __init__(self, stop: Callable[[], bool], *, fail_fast: bool) -> None:
        self._stop = stop
        self._fail_fast = fail_fast
        self._failed = False
        self.ended_by: ConnectError | None = None

    def end(self, error: ConnectError) -> None:
        """Nothing new begins on any connector."""
        if self.ended_by is None:
            self.ended_by = error

    def failed(self) -> None:
        """A connector failed."""
        self._failed = True

    def why_not(self, *, begun: bool) -> str:
        """Why the next action must not begin, or nothing. `begun`: its connector is under way, and
        a failure elsewhere is no reason to leave it in the middle."""
        if self.ended_by is not None:
            return "the apply ended before"
        if self._stop():
            return "interrupted"
        if self._fail_fast and self._failed and not begun:
            return "another connector failed before"
        return ""


def run_together(jobs: Sequence[Callable[[], None]], at_a_time: int) -> None:
    """Returns when all jobs have. What one raises is raised then, and no further job begins.

    On threads that do not keep the process alive: whoever presses Ctrl-C twice is not waited for.
    """
    if at_a_time == 1 or len(jobs) == 1:
        for job in jobs:
            job()
        return
    waiting: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
    for job in jobs:
        waiting.put(job)
    raised: list[BaseException] = []

    def work() -> None:
        while not raised:
            try:
                job = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                job()
            except BaseException as error:
                raised.append(error)

    threads = [
        threading.Thread(target=work, name=f"apply-{number}", daemon=True)
        for number in range(min(at_a_time, len(jobs)))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        # The kernel may give Ctrl-C to another thread, and Python's handler waits for this one
        while thread.is_alive():
            thread.join(_LOOK_S)
    if raised:
        raise raised[0]
