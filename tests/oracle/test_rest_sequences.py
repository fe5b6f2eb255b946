"""Sequences of requests: the answers, and the states that they leave, are those of a real worker.

`make test` plays the fixed ones on our herder without Kafka. `make chaos` plays them, and generated
ones, on an Apache worker and on our runtime.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from connect_runtime.rest.app import create_app
from connect_runtime.settings.worker_config import from_properties
from connect_runtime.validation.validate import check
from runtime.rest.client import WORKER
from support import http
from support.broker import BrokerAddress, create_topic, produce
from support.oracle import Oracle
from support.rest_worker import AsgiTransport, rest_worker
from support.thread_cluster import thread_cluster
from support.wait import wait_until

TABLE = yaml.safe_load(Path(__file__).with_name("rest_sequences.yaml").read_text())
SOURCE, SINK = TABLE["connectors"].values()
SEQUENCES: Mapping[str, list[list[Any]]] = TABLE["sequences"]
CREATE = "create"
_PASSING = re.compile(r"rebalance|stale configuration|tasks haven't stopped completely yet")


@dataclass(frozen=True, slots=True)
class Side:
    """One runtime. `values` are what bodies name in braces, `suffix` ends its connectors' names."""

    client: httpx.Client
    values: Mapping[str, str] = field(default_factory=dict)
    suffix: str = ""

    def ask(self, name: str, method: str, path: str, body: Any = None) -> tuple[int, str]:
        """The status and the text of the first answer that is more than "not now"."""
        name += self.suffix
        if path == CREATE:
            path, body = "/connectors", {"name": name, **body}
        else:
            path = f"/connectors/{name}{path}"
        content = body if isinstance(body, str | None) else json.dumps(body)
        for key, value in self.values.items():
            content = content and content.replace(f"{{{key}}}", value)
        kind = {} if content is None else {"content-type": "application/json"}

        def answer() -> httpx.Response | None:
            found = self.client.request(method, path, content=content, headers=kind)
            return None if _PASSING.search(found.text) else found

        found = wait_until(answer, what=f"an answer to {method} {path}", every_s=0.1)
        assert found is not None
        return found.status_code, found.text.replace(name, "<name>")

    def state(self, name: str) -> str:
        """As the sequences write it."""
        status, text = self.ask(name, "GET", "/status")
        names = self.client.get("/connectors").json()
        if status == 404:
            return "" if name + self.suffix not in names else "no status"
        found = json.loads(text)
        tasks = [task["state"] for task in found["tasks"]]
        shown = found["connector"]["state"]
        return f"{shown}: {' '.join(tasks)}" if tasks else shown

    def rest(self, name: str) -> dict[str, Any]:
        """What else there is to see of it, as far as it is settled at rest."""
        found: dict[str, Any] = {"state": self.state(name)}
        for path in ("/config", "/tasks", "/offsets"):
            status, text = self.ask(name, "GET", path)
            plain = re.sub(re.escape(self.values.get("file", "-")), "<file>", text)
            found[path] = status, json.loads(plain)
        version = json.loads(self.ask(name, "GET", "/status")[1]).get("connector", {})
        found["version"] = "version" in version and version["version"] is not None
        return found


def play(side: Side, name: str, sequence: str) -> None:
    for request_line, status, state, *body in SEQUENCES[sequence]:
        method, _, path = request_line.partition(" ")
        answer = side.ask(name, method, path, *body)
        assert answer[0] == status, (request_line, answer)
        wait_until(
            lambda state=state: side.state(name) == state,
            what=f"{name} to be {state or 'gone'} after {request_line}",
        )


@pytest.fixture(scope="module")
def in_memory() -> Iterator[Side]:
    """Our herder without Kafka."""
    worker, _ = from_properties(WORKER)
    with (
        rest_worker(check=lambda _, config: check(config, worker)) as running,
        httpx.Client(transport=running.transport, base_url="http://ours") as client,
    ):
        yield Side(client, {"topic": "t", "file": "/no/such/file"})


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_each_request_leaves_the_state_that_it_leaves_in_connect(
    in_memory: Side, sequence: str, unique: str
) -> None:
    play(in_memory, unique, sequence)


@pytest.fixture(scope="module")
def topic(broker: BrokerAddress, oracle: Oracle) -> str:
    """With three records that nobody adds to."""
    name = f"sequences-{oracle.group_id}"
    create_topic(broker.bootstrap_servers, name)
    produce(broker.bootstrap_servers, name, [(None, b'"a"')] * 3)
    return name


@pytest.fixture(scope="module")
def theirs(oracle: Oracle, topic: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    file = tmp_path_factory.mktemp("theirs") / "out.txt"
    with http.client(oracle.url, timeout_s=100) as client:
        yield Side(client, {"topic": topic, "file": str(file)}, "-theirs")


@pytest.fixture(scope="module")
def ours(
    broker: BrokerAddress, oracle: Oracle, topic: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Side]:
    """Our runtime on a broker, with tasks in threads."""
    file = tmp_path_factory.mktemp("ours") / "out.txt"
    group = f"ours-{oracle.group_id}"
    worker, _ = from_properties({**WORKER, "group.id": group})
    with thread_cluster(
        broker.bootstrap_servers, group, check=lambda _, config: check(config, worker)
    ) as cluster:
        app = create_app(lambda: cluster.verbs, {}, cluster_id=lambda: "k", commit="c")
        with httpx.Client(transport=AsgiTransport(app), base_url="http://ours") as client:
            yield Side(client, {"topic": topic, "file": str(file)}, "-ours")


@pytest.mark.long
@pytest.mark.oracle
@pytest.mark.parametrize("sequence", SEQUENCES)
def test_the_states_are_those_of_an_apache_worker(theirs: Side, sequence: str, unique: str) -> None:
    play(theirs, unique, sequence)


_EXAMPLES = count()
VERBS = st.sampled_from(
    [
        *(("POST", CREATE, {"config": SOURCE, "initial_state": s}) for s in ("RUNNING", "STOPPED")),
        ("POST", CREATE, {"config": SINK, "initial_state": "PAUSED"}),
        ("PUT", "/config", SOURCE),
        ("PUT", "/config", {**SOURCE, "batch.size": 7}),
        ("PUT", "/config", {**SOURCE, "tasks.max": 0}),
        ("PATCH", "/config", {"more": 1, "batch.size": None}),
        ("PUT", "/pause", None),
        ("PUT", "/resume", None),
        ("PUT", "/stop", None),
        ("POST", "/restart?includeTasks=true", None),
        ("POST", "/restart?onlyFailed=true", None),
        ("POST", "/tasks/9/restart", None),
        ("PUT", "/topics/reset", None),
        ("DELETE", "/offsets", None),
        (
            "PATCH",
            "/offsets",
            {"offsets": [{"partition": {"filename": "f"}, "offset": {"position": 3}}]},
        ),
        ("DELETE", "", None),
    ]
)


@pytest.mark.long
@pytest.mark.oracle
# a task's thread raises it once for the whole process
@pytest.mark.filterwarnings("ignore:The recursion limit will not be reset")
@given(steps=st.lists(st.tuples(st.sampled_from(["a", "b"]), VERBS), min_size=6, max_size=10))
@settings(
    max_examples=4, phases=[Phase.generate], suppress_health_check=list(HealthCheck), database=None
)
def test_any_sequence_leaves_the_same(
    ours: Side, theirs: Side, steps: list[tuple[str, tuple[str, str, Any]]]
) -> None:
    # offsets outlive connectors
    example = next(_EXAMPLES)
    done: list[str] = []
    for letter, (method, path, body) in [
        ("a", ("POST", CREATE, {"config": SOURCE, "initial_state": "RUNNING"})),
        ("b", ("POST", CREATE, {"config": SINK, "initial_state": "STOPPED"})),
        *steps,
    ]:
        name = f"{letter}{example}"
        done.append(f"{name}: {method} {path} {json.dumps(body)}")
        answers = [side.ask(name, method, path, body) for side in (ours, theirs)]
        assert answers[0][0] == answers[1][0], (done, answers)
        if answers[0][0] >= 400:
            assert answers[0] == answers[1], done
        _agree(ours, theirs, name, done)
    for side in (ours, theirs):
        for letter in ("a", "b"):
            side.ask(f"{letter}{example}", "DELETE", "")


def _agree(ours: Side, theirs: Side, name: str, done: list[str]) -> None:
    """Until both show the same at rest, and still do when asked again."""
    seen: list[tuple[Any, Any]] = []

    def agreed() -> bool:
        seen.append((ours.rest(name), theirs.rest(name)))
        last = seen[-2:]
        if len(last) < 2 or last[0] != last[1] or last[1][0] != last[1][1]:
            return False
        return not _is_reading(last[1][0])

    try:
        wait_until(agreed, what="both to agree", timeout_s=20, every_s=0.7)
    except AssertionError as error:
        raise AssertionError((done, *seen[-1])) from error


def _is_reading(found: Mapping[str, Any]) -> bool:
    """Whether it is a sink that has not yet committed what there is to read."""
    _, config = found["/config"]
    sink = config.get("connector.class") == SINK["connector.class"]
    return sink and found["state"] == "RUNNING: RUNNING" and not found["/offsets"][1]["offsets"]
