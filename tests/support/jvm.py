"""A JVM with Connect's classes, for tests that compare us with Java."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from connect_runtime.kafka.jars import classpath
from connect_runtime.kafka.local_processes import find_java


@contextmanager
def running_jvm() -> Iterator[Any]:
    """Yields the JVM's view of its packages; skips the test without Java."""
    command = find_java()
    if command is None:
        pytest.skip("no Java")
    port, token, process = launch_gateway(
        classpath=classpath("connect"),
        java_path=str(command),
        enable_auth=True,
        return_proc=True,
        die_on_exit=True,
    )
    gateway = JavaGateway(
        gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True)
    )
    yield gateway.jvm
    gateway.shutdown()
    process.stdin.close()
    process.wait(timeout=20)
