"""Apicurio's schema registry, for a test: it keeps schemas in memory."""

from __future__ import annotations

import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from connect_runtime.kafka.local_processes import LOOPBACK, find_java, free_port
from support import http
from support.connect_jars import optional_files
from support.wait import wait_until

_START_S = 180


@contextmanager
def registry(folder: Path) -> Iterator[str]:
    """Runs one that is unpacked into this folder. Gives the address of its API."""
    java = find_java()
    assert java is not None, "Java not found"
    (archive,) = optional_files("apicurio")
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    (program,) = folder.rglob("*-runner.jar")
    port = free_port()
    options = (f"-Dquarkus.http.host={LOOPBACK}", f"-Dquarkus.http.port={port}", "-Xmx256m")
    with (folder / "registry.log").open("wb") as log:
        process = subprocess.Popen(
            [str(java), *options, "-jar", str(program)], stdout=log, stderr=subprocess.STDOUT
        )
    url = f"http://{LOOPBACK}:{port}/apis/registry/v2"

    def answers() -> bool:
        assert process.poll() is None, (folder / "registry.log").read_text()
        try:
            return http.get(f"{url}/system/info").is_success
        except httpx.TransportError:
            return False

    try:
        wait_until(answers, what="the registry", timeout_s=_START_S)
        yield url
    finally:
        process.kill()
        process.wait()
