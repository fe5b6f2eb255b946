"""A request of an apply that was killed takes effect while the next one is on its way."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import http
from support.broker import BrokerAddress, create_topic
from support.command import CONNECT, Command
from support.losing import LosingProxy, losing
from support.oracle import Oracle
from support.wait import wait_until

pytestmark = [pytest.mark.oracle, pytest.mark.long]


@pytest.fixture
def proxy(oracle: Oracle) -> Iterator[LosingProxy]:
    with losing(oracle.url) as found:
        yield found
        found.go.set()


def start(connect: Command) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*CONNECT, "apply", "--yes"],
        cwd=connect.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_second_apply_converges_although_the_first_ones_change_comes_late(
    oracle: Oracle, proxy: LosingProxy, broker: BrokerAddress, unique: str, tmp_path: Path
) -> None:
    """The trap: it is refused as stale, and only the third one converges."""
    connect, topic = Command(tmp_path / "project"), f"{unique}-in"
    create_topic(broker.bootstrap_servers, topic)

    def spec(file: str) -> None:
        connect.write(
            "connectors/a.yaml",
            f"name: {unique}\nconfig:\n  connector.class: FileStreamSink\n"
            f"  topics: {topic}\n  file: {tmp_path / file}\n",
        )

    connect.write(
        "connect.yaml",
        f"project: {unique}\ncluster: {{group.id: {oracle.group_id},"
        f" target: {{rest: '{proxy.url}'}},"
        f" kafka: {{bootstrap.servers: '{broker.bootstrap_servers}'}}}}\n",
    )
    spec("one.txt")
    try:
        made = connect("apply", "--yes")
        assert made.returncode == 0, made.stderr
        spec("two.txt")
        proxy.lose["PUT /config"] = "late"
        first = start(connect)
        wait_until(lambda: proxy.lost, what="the change to be on its way")
        first.kill()
        first.communicate()

        second = start(connect)
        assert second.stdout is not None
        shown = next((line for line in second.stdout if "two.txt" in line), "")
        assert shown, "it does not plan the change"
        # Planned with the old config; the lease of the first one is not free yet
        proxy.go.set()
        out, told = second.communicate(timeout=90)
        assert second.returncode == 0, out + told
        stored = http.get(f"{oracle.url}/connectors/{unique}/config", timeout=30).json()
        assert stored["file"] == str(tmp_path / "two.txt")
        assert proxy.passed.count(f"PUT /connectors/{unique}/config") == 1
        again = connect("plan", "--detailed-exitcode")
        assert again.returncode == 0, again.stdout
    finally:
        http.delete(f"{oracle.url}/connectors/{unique}", timeout=30)
