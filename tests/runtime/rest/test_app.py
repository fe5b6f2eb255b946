"""What an exchange does besides its answer: headers, what reaches the verbs, who is asked.

The cases are in requests.yaml.
"""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import yaml

from connect_runtime import KAFKA_VERSION
from connect_runtime.rest.access import path_problem, without_parameters
from connect_runtime.rest.app import create_app
from connect_runtime.rest.exchange import error_reply, response
from connect_runtime.rest.rest_settings import RestSettings
from connect_runtime.settings.worker_config import from_properties
from connect_specs.desired import OffsetEntry
from runtime.rest.client import SOURCE, WORKER, Client, client_of, error, running_source
from runtime.rest.fake_verbs import FakeVerbs
from support.rest_worker import AsgiTransport, rest_worker

CASES = yaml.safe_load(Path(__file__).with_name("requests.yaml").read_text())
FIELDS = frozenset("case request body bodies headers given fails status json".split()) | {
    *("json has", "message", "answer headers", "new", "target of new", "target of fs", "connectors")
}


@pytest.fixture
def verbs() -> FakeVerbs:
    return running_source()


@pytest.fixture
def client(verbs: FakeVerbs) -> Client:
    return client_of(verbs)


@pytest.mark.parametrize("case", CASES, ids=[case["case"] for case in CASES])
def test_requests(case: dict[str, Any]) -> None:
    assert case.keys() <= FIELDS
    requests = case["request"] if isinstance(case["request"], list) else [case["request"]]
    for request, body in product(requests, case.get("bodies", [case.get("body")])):
        verbs = running_source()
        for name, value in case.get("given", {}).items():
            setattr(verbs, name, value)
        if "fails" in case:
            verbs.fail("fs", case["fails"])
        method, path = request.split(" ", 1)
        sent = [] if body is None and method == "POST" else body
        found = client_of(verbs)(method, path, sent, case.get("headers"))
        assert found.status_code == case["status"], found.text
        is_page = found.headers.get("content-type", "").startswith("text/html")
        answer = found.json() if found.content and not is_page else {}
        assert answer == case.get("json", answer)
        assert answer.items() >= case.get("json has", {}).items()
        assert "message" not in case or answer["error_code"] == found.status_code
        assert "message" not in case or answer["message"].startswith(case["message"])
        assert found.headers.items() >= case.get("answer headers", {}).items()
        known = verbs.known.get("new")
        assert "new" not in case or (known and known.config) == case["new"]
        for name, connector in verbs.known.items():
            assert connector.target.name == case.get(f"target of {name}", connector.target.name)
        assert list(verbs.known) == case.get("connectors", list(verbs.known))


@pytest.mark.parametrize("text", [r"\ud800", r"\uDC00", r"\udc00\ud800", r"\ud800x"])
def test_half_of_a_surrogate_pair_is_refused(client: Client, verbs: FakeVerbs, text: str) -> None:
    config = json.dumps(SOURCE)
    for method, path, body in (
        ("PUT", "/connectors/new/config", f'{{"x":"{text}"}}'),
        ("PUT", "/connectors/new/config", f'{{"{text}":"x"}}'),
        ("POST", "/connectors", f'{{"name":"a{text}","config":{config}}}'),
        ("PATCH", "/connectors/fs/config", f'{{"x":"{text}"}}'),
        ("PATCH", "/connectors/fs/offsets", f'{{"offsets":[{{"partition":{{"a":"{text}"}}}}]}}'),
        ("PUT", "/connector-plugins/FileStreamSource/config/validate", f'{{"x":"{text}"}}'),
        ("PUT", "/admin/loggers/root", f'{{"level":"{text}"}}'),
    ):
        found = client(method, path, body)
        assert found.status_code == 400
        assert "surrogate pair" in found.json()["message"]
    assert list(verbs.known) == ["fs"]


def test_half_of_a_surrogate_pair_in_an_answer_is_a_question_mark() -> None:
    """As in Java; a plugin's error may hold it."""
    found = response(error_reply(500, "half \ud800 of \U0001f600"))
    assert found.body.decode() == '{"error_code":500,"message":"half ? of \U0001f600"}'


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_the_first_bytes_of_a_body_tell_its_encoding(
    client: Client, verbs: FakeVerbs, encoding: str
) -> None:
    """As Jackson does: files that Windows PowerShell writes are in UTF-16."""
    body = json.dumps({**SOURCE, "topic": "\u00e9"}, ensure_ascii=False).encode(encoding)
    kind = {"content-type": "application/json"}
    assert client("PUT", "/connectors/new/config", body, kind).status_code == 201
    assert verbs.config("new")["topic"] == "\u00e9"


def test_nulls_are_stored_and_shown_and_patch_keeps_them() -> None:
    with (
        rest_worker() as worker,
        httpx.Client(transport=worker.transport, base_url="http://connect") as real,
    ):
        given = {**SOURCE, "file": None, "name": "fs"}
        body = {"name": "fs", "config": given, "initial_state": "STOPPED"}
        assert real.post("/connectors", json=body).json()["config"] == given
        patched = real.patch("/connectors/fs/config", json={"a": 1, "topic": None})
        without_topic = {key: value for key, value in given.items() if key != "topic"}
        assert patched.json()["config"] == {**without_topic, "a": "1"}
        assert real.patch("/connectors/fs/config", json={"file": "x"}).status_code == 200
        assert real.get("/connectors/fs/config").json() == {**without_topic, "a": "1", "file": "x"}
        put = real.put("/connectors/fs/config", json=given)
        assert (put.status_code, put.json()["config"]) == (200, given)
        assert real.get("/connectors?expand=info").json()["fs"]["info"]["config"] == given


def test_offsets_keep_their_types(client: Client, verbs: FakeVerbs) -> None:
    verbs.stop("fs")
    body = (
        '{"offsets":[{"partition":{"a":"1"},"offset":{"n":9007199254740993,"d":1.0,"b":true}},{}]}'
    )
    found = client("PATCH", "/connectors/fs/offsets", body)
    assert found.json() == {
        "message": "The offsets for this connector have been altered successfully"
    }
    first, second = verbs.altered
    assert first == OffsetEntry({"a": "1"}, {"n": 9007199254740993, "d": 1.0, "b": True})
    assert (second.partition, second.offset) == (None, None)


def test_a_connector_without_status_is_left_out_of_expand_status(
    client: Client, verbs: FakeVerbs
) -> None:
    verbs.known["fs"].status = None
    assert client("GET", "/connectors?expand=status").json() == {}
    assert list(client("GET", "/connectors?expand=info").json()) == ["fs"]


def test_a_body_without_a_content_type_is_refused_only_where_it_is_read(verbs: FakeVerbs) -> None:
    verbs.stop("fs")
    app = client_of(verbs).app
    with httpx.Client(base_url="http://connect", transport=AsgiTransport(app)) as client:
        found = client.put("/connectors/fs/config", content="{}")
        assert found.json() == error(415, "HTTP 415 Unsupported Media Type")
        assert found.headers["content-type"] == "application/json"
        assert client.put("/connectors/fs/resume", content="{}").status_code == 202


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("//", "a segment is empty"),
        ("/connectors//fs", "a segment is empty"),
        ("/connectors/fs//", "a segment is empty"),
        ("/connectors/%2e%2e", "dots are encoded or have parameters"),
        ("/connectors/a%0Ab", "a control character"),
        ("/connectors/a%7Fb", "a control character"),
        ("/connectors/a%00b", "an invalid escape"),
        ("/connectors/a%zz", "an invalid escape"),
        ("/connectors/%FF", "is not UTF-8"),
        ("/connectors/a%C0%80", "is not UTF-8"),
        ("/connectors/src%u0041", "an invalid escape"),
        ("/connectors/a|b", "a character that must be encoded"),
        ("/connectors/{a}", "a character that must be encoded"),
        ("/..", "leads out of the root"),
        ("/connectors/../../admin", "leads out of the root"),
        ("/..;/connectors", "leads out of the root"),
        ("/.%2e/connectors", "leads out of the root"),
        ("/../%u0041", "leads out of the root"),
        ("/connectors/%2E%2e;/fs", "dots are encoded or have parameters"),
        ("/connectors/..;/fs", "dots are encoded or have parameters"),
        ("/connectors/fs/.;a", "dots are encoded or have parameters"),
        ("/connectors/.", None),
        ("/connectors/..", None),
        ("/connectors/src/../fs", None),
        ("/connectors/..a;b/...;", None),
        ("/connectors/a%2Eb%20c%C3%BC%25%3B", None),
    ],
)
def test_the_paths_that_jetty_refuses_are_refused(path: str, problem: str | None) -> None:
    found = path_problem(path)
    assert found is None if problem is None else problem in (found or "")


def test_a_fragment_is_ignored() -> None:
    assert without_parameters("/connectors;x/fs;y#/z;") == "/connectors/fs"
    assert path_problem("/connectors/fs#//") is None


def test_a_task_number_of_thousands_of_digits_is_no_task(client: Client) -> None:
    found = client("GET", f"/connectors/fs/tasks/{'9' * 5000}/status")
    assert found.json() == error(404, "HTTP 404 Not Found")


@pytest.mark.parametrize("name", ["a/b", "/", "a/", "/connectors/fs", "a%2Fb/ü c"])
def test_a_name_with_a_slash_that_is_there_already_can_be_used(
    client: Client, verbs: FakeVerbs, name: str
) -> None:
    """Apache's workers create such a connector."""
    verbs.create(name, {**SOURCE, "name": name}, None)
    path = f"/connectors/{quote(name, safe='')}"
    assert client("GET", path).json()["name"] == name
    assert client("GET", f"{path}/status/").json()["name"] == name
    assert client("PUT", f"{path}/stop").status_code == 204
    assert client("PUT", f"{path}/config", {**SOURCE, "a": "b"}).status_code == 200
    assert client("DELETE", path).status_code == 204
    assert list(verbs.known) == ["fs"]


def test_before_there_is_a_herder() -> None:
    client = client_of(None)
    assert client("GET", "/health").status_code == 503
    assert client("GET", "/connectors").status_code == 503
    assert client("GET", "/connector-plugins").status_code == 200


def test_a_bug_is_a_500_in_connects_shape(
    verbs: FakeVerbs, caplog: pytest.LogCaptureFixture
) -> None:
    del verbs.known["fs"].config["connector.class"]
    found = client_of(verbs)("GET", "/connectors/fs")
    assert found.status_code == 500
    assert found.json()["error_code"] == 500
    assert "A request failed" in caplog.text


@pytest.mark.parametrize("thrown", [ValueError, SystemExit])
def test_an_unexpected_error_shows_no_value_of_a_config(
    verbs: FakeVerbs,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    thrown: type[BaseException],
) -> None:
    password = "hunter2"

    def fail(name: str) -> None:
        raise thrown(f"cannot parse {password}")

    monkeypatch.setattr(verbs, "info", fail)
    found = client_of(verbs)("GET", "/connectors/fs/config")
    text = f"Unexpected {thrown.__name__}; the worker's log says where"
    assert found.json() == error(500, text)
    assert "in fail" in caplog.text
    assert password not in caplog.text


def _with_metrics(*, enabled: bool) -> Client:
    app = create_app(
        lambda: None,
        {},
        cluster_id=lambda: "k",
        commit="c",
        settings=RestSettings(metrics=enabled),
        metrics=lambda: "a_total 1\n",
    )
    return Client(app)


def test_metrics_are_text_for_prometheus() -> None:
    accept = {"accept": "text/plain;version=0.0.4"}
    found = _with_metrics(enabled=True)("GET", "/metrics", headers=accept)
    assert (found.status_code, found.text) == (200, "a_total 1\n")
    assert found.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"


def test_metrics_that_are_turned_off_are_not_found() -> None:
    found = _with_metrics(enabled=False)("GET", "/metrics")
    assert (found.status_code, found.json()) == (404, error(404, "HTTP 404 Not Found"))


def test_a_worker_property_turns_metrics_off() -> None:
    on, _ = from_properties(WORKER)
    off, _ = from_properties({**WORKER, "rest.metrics.enable": "false"})
    assert (on.rest.metrics, off.rest.metrics) == (True, False)


def test_built_ins_have_the_version_of_kafka(client: Client) -> None:
    path = "/connector-plugins/FileStreamSource/config?version="
    assert client("GET", f"{path}{KAFKA_VERSION}").status_code == 200
    assert client("GET", f"{path}0.1.0").status_code == 400
    listed = client("GET", "/connector-plugins?connectorsOnly=false").json()
    versions = {each["class"]: each["version"] for each in listed}
    kafka = {v for name, v in versions.items() if name.startswith("org.apache.kafka.")}
    assert kafka == {KAFKA_VERSION}
    assert versions["io.debezium.transforms.ExtractNewRecordState"] != KAFKA_VERSION
