"""Whoever waits is told of an exchange that takes long, once."""

from __future__ import annotations

import threading

import httpx
import pytest

from connect_reconciler.backend.rest import exchange_log
from connect_reconciler.backend.rest.answers import TargetRequest
from connect_reconciler.backend.rest.exchange_log import exchanged
from connect_specs.desired import RestTarget
from support.wait import wait_until

TARGET = RestTarget("http://connect.test")
SLOW = [TargetRequest(TARGET, "GET", "/one"), TargetRequest(TARGET, "PUT", "/two")]
TEXTS = [f"waiting for the answer to {each}" for each in SLOW]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is told; an exchange takes long from 50 ms on."""
    monkeypatch.setattr(exchange_log, "_SLOW_S", 0.05)
    said: list[str] = []
    monkeypatch.setattr(exchange_log._waits, "warning", lambda text, *of: said.append(text % of))
    return said


def test_slow_ones_are_told_once_whatever_else_is_exchanged(told: list[str]) -> None:
    def slow() -> httpx.Response:
        for number in range(30):
            quick = TargetRequest(TARGET, "GET", f"/{number}")
            exchanged(quick, lambda: httpx.Response(200))
        wait_until(lambda: {*TEXTS} <= {*told}, what="both to be told")
        return httpx.Response(200)

    threads = [threading.Thread(target=exchanged, args=(each, slow)) for each in SLOW]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(text for text in told if text in TEXTS) == sorted(TEXTS)


def test_it_is_told_again_after_a_time_without_exchanges(told: list[str]) -> None:
    def slow() -> httpx.Response:
        wait_until(lambda: told, what="it to be told")
        return httpx.Response(200)

    for _ in range(2):
        exchanged(SLOW[0], slow)
        wait_until(
            lambda: "waits" not in {each.name for each in threading.enumerate()},
            what="the thread to end",
        )
        assert told == TEXTS[:1]
        told.clear()
