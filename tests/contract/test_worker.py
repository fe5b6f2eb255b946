"""A Connect worker's REST API as plans and applies use it: the fake, our own runtime, the same with
a Spark cluster, and Apache's.

What Apache Kafka Connect answers is the contract. `FakeWorker` stands for it in tests of an
apply over REST, `FakeVerbs` for our own runtime in tests of the REST API's own code.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from connect_runtime.rest.app import create_app
from runtime.rest.fake_verbs import FakeVerbs
from support import http
from support.broker import BrokerAddress
from support.distributed import start_runtime
from support.fake_worker import FakeWorker
from support.rest_worker import AsgiTransport, rest_worker
from support.rig import Rig
from support.spark_cluster import spark_cluster
from support.wait import wait_until

URL = "http://connect:8083"
STOPPED_FIRST = (
    "Connectors must be in the STOPPED state before their offsets can be modified. This can be done"
    " for the specified connector by issuing a 'PUT' request to the '/connectors/{}/stop' endpoint"
)
NO_OFFSETS = "Partitions / offsets need to be provided for an alter offsets request"


@pytest.fixture(scope="module")
def on_a_cluster(broker: BrokerAddress, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a runtime whose tasks run on a Spark cluster."""
    folder, kafka = tmp_path_factory.mktemp("contract"), broker.bootstrap_servers
    with spark_cluster(folder / "spark") as spark:
        rig = Rig(folder / "project", f"on-{os.getpid()}", f"{{bootstrap.servers: '{kafka}'}}")
        of_spark = spark.settings | {"spark.master": spark.url}
        runtime = start_runtime(rig, kafka, rig.folder, of_spark)
        try:
            wait_until(lambda: runtime.at.get("/health"), what="its health", timeout_s=120)
            yield runtime.at.url
        finally:
            runtime.command.send_signal(signal.SIGTERM)
            runtime.command.wait(60)
            assert rig.end() == []


@pytest.fixture(
    params=[
        "fake",
        "fake-verbs",
        "ours",
        pytest.param("cluster", marks=[pytest.mark.spark, pytest.mark.long]),
        pytest.param("apache", marks=pytest.mark.oracle),
    ]
)
def client(request: pytest.FixtureRequest) -> Iterator[httpx.Client]:
    match request.param:
        case "fake":
            with httpx.Client(base_url=URL, transport=FakeWorker().transport) as found:
                yield found
        case "fake-verbs":
            verbs = FakeVerbs()
            app = create_app(lambda: verbs, {}, cluster_id=lambda: "kafka-1", commit="abc")
            with httpx.Client(base_url=URL, transport=AsgiTransport(app)) as found:
                yield found
        case "ours":
            with (
                rest_worker() as worker,
                httpx.Client(base_url=URL, transport=worker.transport) as found,
            ):
                yield found
        case "cluster":
            with http.client(request.getfixturevalue("on_a_cluster"), timeout_s=90) as found:
                yield found
        case _:
            oracle = request.getfixturevalue("oracle")
            with http.client(oracle.url, timeout_s=30) as found:
                yield found


@pytest.fixture
def name(client: httpx.Client, unique: str) -> Iterator[str]:
    """A connector's name; the connector goes with the test."""
    yield unique
    ask(client, "DELETE", f"/connectors/{unique}")


def ask(client: httpx.Client, method: str, path: str, body: Any = None) -> httpx.Response:
    """The first answer that is more than "not now, the workers rebalance"."""

    def answer() -> httpx.Response | None:
        found = client.request(method, path, json=body)
        passing = found.status_code >= 409 and (
            "rebalance" in found.text or "stale configuration" in found.text
        )
        return None if passing else found

    found = wait_until(answer, what=f"an answer to {method} {path}", every_s=0.1)
    assert found is not None
    return found


def source(name: str) -> dict[str, str]:
    return {
        "connector.class": "FileStreamSource",
        "topic": name,
        "file": "/nowhere",
        "tasks.max": "1",
        "name": name,
    }


def sink(name: str) -> dict[str, str]:
    return {**source(name), "connector.class": "FileStreamSink", "topics": name}


def create(client: httpx.Client, config: dict[str, str], state: str = "RUNNING") -> httpx.Response:
    body = {"name": config["name"], "config": config, "initial_state": state}
    return ask(client, "POST", "/connectors", body)


def state_of(client: httpx.Client, name: str) -> tuple[str, list[str]]:
    """The connector's state and its tasks'; nothing while there is no status."""
    found = ask(client, "GET", f"/connectors/{name}/status")
    if found.status_code == 404:
        return "", []
    status = found.json()
    return status["connector"]["state"], [task["state"] for task in status["tasks"]]


def wait_for(client: httpx.Client, name: str, state: str, *tasks: str) -> None:
    wait_until(
        lambda: state_of(client, name) == (state, [*tasks]), what=f"{name} to be {state} {tasks}"
    )


def offsets_of(client: httpx.Client, name: str) -> Any:
    found = ask(client, "GET", f"/connectors/{name}/offsets")
    assert found.status_code == 200
    return found.json()["offsets"]


def wait_for_offsets(client: httpx.Client, name: str, offsets: list[Any]) -> None:
    """Ours answers a change once it can be read; Apache's worker before Kafka has ended its
    transaction in the topic."""
    assert offsets_of(client, name) == offsets or _is_apaches(client)
    wait_until(lambda: offsets_of(client, name) == offsets, what=f"offsets {offsets}", timeout_s=15)


def _is_apaches(client: httpx.Client) -> bool:
    return ask(client, "GET", "/runtime").status_code == 404


def test_it_says_what_it_is(client: httpx.Client) -> None:
    found = ask(client, "GET", "/")
    assert found.status_code == 200
    assert found.json().keys() == {"version", "commit", "kafka_cluster_id"}


@pytest.mark.parametrize(
    ("method", "path", "body", "message"),
    [
        ("GET", "", None, "Connector nope not found"),
        ("GET", "/config", None, "Connector nope not found"),
        ("GET", "/offsets", None, "Connector nope not found"),
        ("GET", "/status", None, "No status found for connector nope"),
        ("PUT", "/pause", None, "Unknown connector nope"),
        ("PUT", "/resume", None, "Unknown connector nope"),
        ("PUT", "/stop", None, "Unknown connector nope"),
        ("POST", "/restart", None, "Unknown connector: nope"),
        ("DELETE", "", None, "Connector nope not found"),
        ("DELETE", "/offsets", None, "Connector nope not found"),
        ("PATCH", "/config", {"a": "1"}, "Connector nope not found"),
        (
            "PATCH",
            "/offsets",
            {"offsets": [{"partition": {"filename": "f"}, "offset": None}]},
            "Connector nope not found",
        ),
    ],
)
def test_a_connector_that_is_not_there(
    client: httpx.Client, method: str, path: str, body: Any, message: str
) -> None:
    found = ask(client, method, f"/connectors/nope{path}", body)
    assert (found.status_code, found.json()) == (404, {"error_code": 404, "message": message})


def test_created_once(client: httpx.Client, name: str) -> None:
    found = create(client, source(name))
    assert found.status_code == 201
    assert found.json()["config"] == source(name)
    assert (found.json()["name"], found.json()["type"]) == (name, "source")
    again = create(client, source(name))
    assert (again.status_code, again.json()["message"]) == (
        409,
        f"Connector {name} already exists",
    )
    assert name in ask(client, "GET", "/connectors").json()


@pytest.mark.parametrize("state", ["STOPPED", "PAUSED"])
def test_created_in_a_state(client: httpx.Client, name: str, state: str) -> None:
    """A connector that never ran has not said what its tasks are."""
    assert create(client, source(name), state).status_code == 201
    wait_for(client, name, state)


def test_put_config_creates_and_replaces_the_whole(client: httpx.Client, name: str) -> None:
    first, second = source(name), {**source(name), "batch.size": "7"}
    for config in (first, second):
        del config["name"]
    path = f"/connectors/{name}/config"
    assert ask(client, "PUT", path, first).status_code == 201
    assert ask(client, "PUT", path, second).status_code == 200
    assert ask(client, "GET", path).json() == {**second, "name": name}
    found = ask(client, "PUT", path, first)
    assert (found.status_code, found.json()["config"]) == (200, {**first, "name": name})
    assert ask(client, "GET", path).json() == {**first, "name": name}


def test_patch_config_merges_and_removes(client: httpx.Client, name: str) -> None:
    assert create(client, {**source(name), "batch.size": "7"}).status_code == 201
    path = f"/connectors/{name}/config"
    found = ask(client, "PATCH", path, {"batch.size": None, "tasks.max": "2"})
    assert found.status_code == 200
    assert ask(client, "GET", path).json() == {**source(name), "tasks.max": "2"}


def test_states_are_asked_for_and_followed(client: httpx.Client, name: str) -> None:
    """Stop is answered with 204, pause and resume with 202; none has a body."""
    create(client, source(name))
    wait_for(client, name, "RUNNING", "RUNNING")
    for verb, status, state, tasks in (
        ("pause", 202, "PAUSED", ["PAUSED"]),
        ("stop", 204, "STOPPED", []),
        ("resume", 202, "RUNNING", ["RUNNING"]),
    ):
        found = ask(client, "PUT", f"/connectors/{name}/{verb}")
        assert (found.status_code, found.content) == (status, b"")
        wait_for(client, name, state, *tasks)
    found = ask(client, "POST", f"/connectors/{name}/restart")
    assert (found.status_code, found.content) == (204, b"")


def test_a_deleted_connector_is_gone(client: httpx.Client, name: str) -> None:
    create(client, source(name), "STOPPED")
    found = ask(client, "DELETE", f"/connectors/{name}")
    assert (found.status_code, found.content) == (204, b"")
    wait_until(
        lambda: ask(client, "GET", f"/connectors/{name}").status_code == 404, what="it to be gone"
    )


def test_connectors_are_listed_with_their_info_and_status(client: httpx.Client, name: str) -> None:
    create(client, sink(name), "STOPPED")
    wait_for(client, name, "STOPPED")
    for what in ("info", "status"):
        found = ask(client, "GET", f"/connectors?expand={what}").json()[name]
        assert found.keys() == {what}
    both = ask(client, "GET", "/connectors?expand=info&expand=status").json()[name]
    assert both["info"]["config"] == sink(name)
    assert (both["info"]["type"], both["info"]["tasks"]) == ("sink", [])
    assert both["status"]["connector"]["state"] == "STOPPED"
    assert both["status"]["tasks"] == []


def test_source_offsets(client: httpx.Client, name: str) -> None:
    create(client, source(name), "STOPPED")
    wait_for(client, name, "STOPPED")
    path = f"/connectors/{name}/offsets"
    entry = {"partition": {"filename": "/nowhere"}, "offset": {"position": 7}}
    assert offsets_of(client, name) == []
    found = ask(client, "PATCH", path, {"offsets": [entry]})
    assert found.status_code == 200, found.text
    assert "altered successfully" in found.json()["message"]
    wait_for_offsets(client, name, [entry])
    found = ask(client, "PATCH", path, {"offsets": [{**entry, "offset": None}]})
    assert found.status_code == 200, found.text
    wait_for_offsets(client, name, [])
    ask(client, "PATCH", path, {"offsets": [entry]})
    wait_for_offsets(client, name, [entry])
    found = ask(client, "DELETE", path)
    assert found.status_code == 200
    assert "reset successfully" in found.json()["message"]
    wait_for_offsets(client, name, [])


def test_offsets_move_only_while_stopped(client: httpx.Client, name: str) -> None:
    create(client, source(name), "PAUSED")
    entry = {"partition": {"filename": "/nowhere"}, "offset": {"position": 7}}
    for method, body in (("PATCH", {"offsets": [entry]}), ("DELETE", None)):
        found = ask(client, method, f"/connectors/{name}/offsets", body)
        assert (found.status_code, found.json()["message"]) == (400, STOPPED_FIRST.format(name))


@pytest.mark.parametrize("body", [{}, {"offsets": None}, {"offsets": []}])
def test_no_offsets_are_refused(client: httpx.Client, name: str, body: Any) -> None:
    create(client, source(name), "STOPPED")
    found = ask(client, "PATCH", f"/connectors/{name}/offsets", body)
    assert (found.status_code, found.json()["message"]) == (400, NO_OFFSETS)
