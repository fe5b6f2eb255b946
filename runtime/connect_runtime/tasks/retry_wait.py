"""Waits before retries of a record, and notices a stop meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from connect_runtime.tasks.control import Wanted
from connect_runtime.tasks.worker_topics import OrdersFollower

_LOOK_S: Final = 0.2


class RetryWait:
    """Waits for one task. `follow` says where a stop is seen; before, there is none."""

    def __init__(self) -> None:
        self._is_over: Callable[[float], bool] | None = None

    def follow(self, control: OrdersFollower, orphaned: Callable[[], bool]) -> None:
        """Notices stops from now on."""
        self._is_over = lambda wait_s: (
            control.wanted(wait_s) in (Wanted.STOP, Wanted.NOTHING) or orphaned()
        )

    def __call__(self, seconds: float) -> bool:
        """Waits. Returns False at once if the task is to end."""
        assert self._is_over is not None
        deadline = time.monotonic() + seconds
        while True:
            left_s = deadline - time.monotonic()
            if self._is_over(max(0.0, min(left_s, _LOOK_S))):
                return False
            if left_s <= 0:
                return True
