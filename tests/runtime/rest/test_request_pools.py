"""Pools of requests: how many run, how many queue, and for how long."""

from __future__ import annotations

import asyncio
import threading

import pytest

from connect_runtime.rest.request_pools import Busy, Inline, RequestPool
from connect_runtime.waiting import WouldWait


def test_a_request_that_queues_for_too_long_is_refused() -> None:
    release = threading.Event()

    async def ask() -> None:
        pool = RequestPool(threads=1, queued=1, queue_s=0.05)
        running = asyncio.create_task(pool.run(lambda: release.wait(30)))
        await asyncio.sleep(0)
        with pytest.raises(Busy):
            await pool.run(lambda: True)
        release.set()
        assert await running
        # the thread is free again
        assert await pool.run(lambda: True)

    asyncio.run(ask())


def test_a_request_that_raises_frees_its_thread() -> None:
    async def ask() -> None:
        pool = RequestPool(threads=1, queued=0, queue_s=0.05)
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                await pool.run(lambda: 1 // 0)

    asyncio.run(ask())


def test_a_long_request_holds_up_no_other() -> None:
    """But only so many at once: each has a thread."""
    release = threading.Event()

    async def ask() -> None:
        pool = RequestPool(threads=1, queued=2, queue_s=5, long_s=0.01)
        hanging = [asyncio.create_task(pool.run(lambda: release.wait(30))) for _ in range(2)]
        await asyncio.sleep(0)
        assert await pool.run(lambda: True)
        hanging.append(asyncio.create_task(pool.run(lambda: release.wait(30))))
        await asyncio.sleep(0)
        pool._queue_s = 0.1
        with pytest.raises(Busy):
            await pool.run(lambda: True)
        release.set()
        assert await asyncio.gather(*hanging) == [True] * 3

    asyncio.run(ask())


def test_an_inline_request_takes_a_thread_only_to_wait() -> None:
    loops = threading.get_ident()
    ran_on: list[int] = []

    def waits() -> None:
        ran_on.append(threading.get_ident())
        if threading.get_ident() == loops:
            raise WouldWait

    async def ask() -> None:
        pool = Inline(threads=1, queued=0)
        assert await pool.run(threading.get_ident) == loops
        await pool.run(waits)

    asyncio.run(ask())
    first, second = ran_on
    assert first == loops != second
