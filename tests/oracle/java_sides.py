"""A connector on Apache's worker and on ours, asked alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connect_runtime.config_providers.registry import ConfigProviders
from connect_runtime.engine.catalog import JavaCatalog, use_catalog
from connect_runtime.plugins import registry
from connect_runtime.settings.worker_config import WorkerConfig, from_properties
from connect_runtime.validation.validate import validate
from support import http
from support.broker import BrokerAddress, read_to_end
from support.oracle import Oracle
from support.thread_cluster import ThreadCluster, thread_cluster
from support.wait import wait_until

START_S = 120


@dataclass(frozen=True, slots=True)
class Seen:
    """A status: the first letters of the states, the connector's first, and their traces."""

    letters: str
    traces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TheirSide:
    worker: Oracle
    kafka: str
    letter = "a"

    def put(self, config: Mapping[str, str]) -> None:
        self.worker.put(config)

    def status(self, name: str) -> Seen:
        answer = http.get(f"{self.worker.url}/connectors/{name}/status", timeout=60)
        if not answer.is_success:
            return Seen("", ())
        parts = [answer.json()["connector"], *answer.json()["tasks"]]
        letters = "".join(part["state"][0] for part in parts)
        return Seen(letters, tuple(part.get("trace") or "" for part in parts))

    def request(self, method: str, path: str) -> None:
        def accepted() -> bool:
            answer = http.request(method, f"{self.worker.url}/connectors/{path}", timeout=90)
            assert answer.is_success or answer.status_code in (409, 500), answer.text
            return answer.is_success

        wait_until(accepted, what=path, timeout_s=START_S)

    def pause(self, name: str) -> None:
        self.request("PUT", f"{name}/pause")

    def resume(self, name: str) -> None:
        self.request("PUT", f"{name}/resume")

    def stop(self, name: str) -> None:
        self.request("PUT", f"{name}/stop")

    def delete(self, name: str) -> None:
        self.request("DELETE", name)

    def errors(self, config: Mapping[str, str]) -> dict[str, list[str]]:
        """Returns the errors of a validation, by key."""
        path = f"/connector-plugins/{config['connector.class']}/config/validate"
        answer = http.put(f"{self.worker.url}{path}", json=dict(config), timeout=90).json()
        values = [info["value"] for info in answer["configs"]]
        return {value["name"]: value["errors"] for value in values if value["errors"]}

    def offsets(self, name: str) -> list[Any]:
        answer = http.get(f"{self.worker.url}/connectors/{name}/offsets", timeout=60)
        return sorted(answer.json().get("offsets", []), key=str)


@dataclass(frozen=True, slots=True)
class OurSide:
    worker: ThreadCluster
    kafka: str
    group: str
    config: WorkerConfig
    letter = "o"

    def put(self, config: Mapping[str, str]) -> None:
        self.worker.verbs.put_config(config["name"], dict(config))

    def status(self, name: str) -> Seen:
        view = self.worker.connect.herder.view.status
        if name not in view.connectors:
            return Seen("", ())
        status = self.worker.verbs.status(name)
        parts = [status.connector, *(status.tasks[task] for task in sorted(status.tasks))]
        return Seen(
            "".join(str(part.state)[0] for part in parts), tuple(part.trace or "" for part in parts)
        )

    def pause(self, name: str) -> None:
        self.worker.verbs.pause(name)

    def resume(self, name: str) -> None:
        self.worker.verbs.resume(name)

    def stop(self, name: str) -> None:
        self.worker.verbs.stop(name)

    def delete(self, name: str) -> None:
        self.worker.verbs.delete(name)

    def errors(self, config: Mapping[str, str]) -> dict[str, list[str]]:
        """Returns the errors of a validation, by key."""
        values = [info.value for info in validate(config, self.config).configs]
        return {v.name: [*v.errors] for v in values if v is not None and v.errors}

    def offsets(self, name: str) -> list[Any]:
        entries = self.worker.verbs.offsets(name)
        rows = [{"partition": e.partition, "offset": e.offset} for e in entries]
        return sorted(rows, key=str)


Side = TheirSide | OurSide


def reach(side: Side, name: str, letters: str, what: str = "") -> Seen:
    """Returns the status once its states have these letters, and its traces some text."""

    def reached() -> Seen | None:
        seen = side.status(name)
        is_there = seen.letters == letters and (not what or what in "".join(seen.traces))
        return seen if is_there else None

    text = f"{name} to be {letters}, not {side.status(name)}"
    return wait_until(reached, what=text, timeout_s=START_S)


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def wait_for_line(file: Path, line: str, count: int = 1) -> None:
    what = f"{line!r} {count} times in {file}"
    wait_until(lambda: lines(file).count(line) >= count, what=what, timeout_s=START_S)


def records(side: Side, topic: str, count: int) -> list[tuple[Any, Any, Any]]:
    """Returns key, value and headers of the records of a topic, once there are so many."""

    def read() -> list[tuple[Any, Any, Any]] | None:
        found = [(m.key(), m.value(), m.headers()) for m in read_to_end(side.kafka, topic)]
        return found if len(found) >= count else None

    return wait_until(read, what=f"{count} records in {topic}", timeout_s=START_S)


@contextmanager
def their_side(
    broker: BrokerAddress, folder: Path, settings: Mapping[str, str], *, exactly_once: bool
) -> Iterator[TheirSide]:
    servers = broker.bootstrap_servers
    worker = Oracle.start(
        folder, servers, group_id=folder.name, exactly_once=exactly_once, settings=settings
    )
    try:
        yield TheirSide(worker, servers)
    finally:
        worker.kill()


@contextmanager
def our_side(broker: BrokerAddress, group: str, settings: Mapping[str, str]) -> Iterator[OurSide]:
    """References in the worker's file are resolved as by a runtime."""
    servers = broker.bootstrap_servers
    names = {f"{kind}.storage.topic": f"{group}-{kind}" for kind in ("config", "offset", "status")}
    given = {"bootstrap.servers": servers, "group.id": group, **names, **settings}
    worker, _ = from_properties(given)
    providers = ConfigProviders(worker.properties)
    catalog = JavaCatalog(worker.properties, "ours:8083", providers)
    use_catalog(catalog)
    try:
        assert catalog.scan()
        registry.connector.cache_clear()
        with thread_cluster(servers, group, settings) as cluster:
            yield OurSide(cluster, servers, group, worker)
    finally:
        use_catalog(None)
        registry.connector.cache_clear()
        catalog.close()
        providers.close()
