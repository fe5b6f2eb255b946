"""Ports are given once, also to several processes that are about to start servers."""

import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from connect_runtime.kafka import local_processes
from connect_runtime.kafka.local_processes import LOOPBACK, free_port, is_free


def test_a_port_is_not_given_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_processes, "_CANDIDATES", range(20000, 20500))
    monkeypatch.setattr(
        local_processes.random, "sample", lambda candidates, count: list(candidates)
    )
    with ThreadPoolExecutor(8) as threads:
        given = [port.result() for port in [threads.submit(free_port) for _ in range(40)]]
    assert len(set(given)) == 40


def test_a_server_can_listen_on_it() -> None:
    port = free_port()
    assert is_free(port)
    with socket.create_server((LOOPBACK, port)):
        assert not is_free(port)
