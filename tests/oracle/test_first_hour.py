"""docs/first-hour.md on a real Kafka and a real Connect worker: what it shows is what happens.

After a change of what the command prints:

    CONNECT_WRITE_PAGES=1 .venv/bin/python -m pytest -q tests/oracle/test_first_hour.py

writes the page anew. Then read it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import http
from support.broker import BrokerAddress, create_topic
from support.oracle import Oracle
from support.pages import Page, holds
from support.wait import wait_until

pytestmark = [pytest.mark.oracle, pytest.mark.long]

PAGE = Path(__file__).parents[2] / "docs" / "first-hour.md"
STRING = "org.apache.kafka.connect.storage.StringConverter"
CONVERTERS = {"key.converter": STRING, "value.converter": STRING}


@pytest.fixture
def data() -> Iterator[Path]:
    """With a short path: a plan cuts long values."""
    with tempfile.TemporaryDirectory(prefix="data-") as folder:
        yield Path(folder)


@pytest.fixture
def worker(other_broker: BrokerAddress, data: Path, tmp_path: Path) -> Iterator[Oracle]:
    """Two connectors run on it, made by hand some time ago. On a Kafka where the page's names of
    topics and groups are nobody else's."""
    kafka = other_broker.bootstrap_servers
    create_topic(kafka, "orders")
    started = Oracle.start(tmp_path / "worker", kafka, group_id="connect-cluster")
    try:
        (data / "orders.txt").write_text("".join(f"order {n}\n" for n in range(100)))
        for name, config in {
            "orders-in": {
                "connector.class": "FileStreamSource",
                "file": f"{data}/orders.txt",
                "topic": "orders",
            },
            "orders-out": {
                "connector.class": "FileStreamSink",
                "file": f"{data}/out.txt",
                "topics": "orders",
            },
        }.items():
            create(started, name, {"tasks.max": "1", **CONVERTERS, **config})
        out = data / "out.txt"
        wait_until(
            lambda: out.exists() and len(out.read_text().splitlines()) == 100,
            what="a hundred orders",
            timeout_s=60,
        )
        yield started
    finally:
        started.kill()


def create(worker: Oracle, name: str, config: dict[str, str]) -> None:
    def created() -> bool:
        answer = http.put(f"{worker.url}/connectors/{name}/config", json=config, timeout=90)
        return answer.is_success

    def runs() -> bool:
        answer = http.get(f"{worker.url}/connectors/{name}/status", timeout=90)
        return answer.is_success and [t["state"] for t in answer.json()["tasks"]] == ["RUNNING"]

    wait_until(created, what=f"{name} to be created", timeout_s=60, every_s=0.3)
    wait_until(runs, what=f"{name} to run", timeout_s=60, every_s=0.3)


def test_what_the_page_shows_is_what_happens(
    other_broker: BrokerAddress, worker: Oracle, data: Path, tmp_path: Path
) -> None:
    address = worker.url.removeprefix("http://")
    real = {
        "localhost:8083": address,
        "localhost:9092": other_broker.bootstrap_servers,
        "/srv/data": str(data),
        "/home/me/connectors": str(tmp_path / "project"),
        "MkU3OEVBNTcwNTJENDM2Qg": other_broker.cluster_id,
    }
    (tmp_path / "project").mkdir()

    def followed(text: str) -> str:
        return Page(text, tmp_path / "project", real).followed()

    holds(PAGE, followed, write=bool(os.environ.get("CONNECT_WRITE_PAGES")))
