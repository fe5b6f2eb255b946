"""Exchanges with the REST API, as a table: what is asked, and Connect's answer to it."""

from __future__ import annotations

from typing import Any

import pytest

from connect_runtime.kafka_version import KAFKA_VERSION
from runtime.rest.client import SOURCE, client_of, error, running_source

TASK = {"connector": "fs", "task": 0}
NO_TASK = "No status found for task fs-9"
OTHER_NAME = "Connector name configuration (x) doesn't match connector name in the URL (fs)"
STOPPED_FIRST = (
    "Connectors must be in the STOPPED state before their offsets can be modified. This can be done"
    " for the specified connector by issuing a 'PUT' request to the '/connectors/fs/stop' endpoint"
)
SOURCE_INFO = {
    "name": "fs",
    "config": {**SOURCE, "name": "fs"},
    "tasks": [TASK],
    "type": "source",
}
RUNNING = {"state": "RUNNING", "worker_id": "127.0.0.1:8083", "version": "1.0"}
STATUS = {"name": "fs", "connector": RUNNING, "tasks": [{"id": 0, **RUNNING}], "type": "source"}

ANSWERS: list[tuple[str, str, Any, int, Any]] = [
    (
        "GET",
        "/",
        None,
        200,
        {"version": KAFKA_VERSION, "commit": "abc", "kafka_cluster_id": "kafka-1"},
    ),
    ("GET", "/connectors", None, 200, ["fs"]),
    ("GET", "/connectors/", None, 200, ["fs"]),
    ("GET", "/connectors?expand=info", None, 200, {"fs": {"info": SOURCE_INFO}}),
    (
        "GET",
        "/connectors?expand=status&expand=info",
        None,
        200,
        {"fs": {"status": STATUS, "info": SOURCE_INFO}},
    ),
    ("GET", "/connectors?expand=other", None, 200, {"fs": {}}),
    ("GET", "/connectors/fs", None, 200, SOURCE_INFO),
    ("GET", "/connectors/fs/config", None, 200, SOURCE_INFO["config"]),
    ("GET", "/connectors/fs/status", None, 200, STATUS),
    (
        "GET",
        "/connectors/fs/tasks",
        None,
        200,
        [
            {
                "id": {"connector": "fs", "task": 0},
                "config": {**SOURCE, "name": "fs", "task.class": "T"},
            }
        ],
    ),
    ("GET", "/connectors/fs/tasks/0/status", None, 200, {"id": 0, **RUNNING}),
    ("GET", "/connectors/fs/topics", None, 200, {"fs": {"topics": ["orders"]}}),
    ("GET", "/connectors/nope/topics", None, 200, {"nope": {"topics": []}}),
    ("GET", "/connectors/fs/offsets", None, 200, {"offsets": []}),
    ("PUT", "/connectors/fs/config", SOURCE, 200, SOURCE_INFO),
    ("PUT", "/connectors/fs/pause", None, 202, None),
    ("PUT", "/connectors/fs/resume", None, 202, None),
    ("PUT", "/connectors/fs/stop", None, 204, None),
    ("POST", "/connectors/fs/restart", None, 204, None),
    ("POST", "/connectors/fs/restart?includeTasks=false", None, 204, None),
    ("POST", "/connectors/fs/restart?onlyFailed=true", None, 202, STATUS),
    ("POST", "/connectors/fs/tasks/0/restart", None, 204, None),
    ("DELETE", "/connectors/fs", None, 204, None),
    ("PUT", "/connectors/fs/topics/reset", None, 202, None),
    ("PUT", "/connectors/nope/topics/reset", None, 202, None),
    *(
        (method, f"/connectors/nope{path}", body, 404, error(404, message))
        for method, path, body, message in (
            ("GET", "", None, "Connector nope not found"),
            ("GET", "/config", None, "Connector nope not found"),
            ("GET", "/tasks", None, "Connector nope not found"),
            ("GET", "/offsets", None, "Connector nope not found"),
            ("DELETE", "", None, "Connector nope not found"),
            ("DELETE", "/offsets", None, "Connector nope not found"),
            ("PATCH", "/config", {}, "Connector nope not found"),
            ("PATCH", "/config", "null", "Connector nope not found"),
            ("PATCH", "/offsets", {"offsets": [{}]}, "Connector nope not found"),
            ("GET", "/status", None, "No status found for connector nope"),
            ("GET", "/tasks/3/status", None, "No status found for task nope-3"),
            ("PUT", "/pause", None, "Unknown connector nope"),
            ("PUT", "/resume", None, "Unknown connector nope"),
            ("PUT", "/stop", None, "Unknown connector nope"),
            ("POST", "/restart", None, "Unknown connector: nope"),
            ("POST", "/tasks/0/restart", None, "Unknown connector: nope"),
        )
    ),
    ("POST", "/connectors/fs/tasks/9/restart", None, 404, error(404, "Unknown task: fs-9")),
    (
        "GET",
        "/connectors/fs/tasks/9/status",
        None,
        404,
        error(404, "No status found for task fs-9"),
    ),
    ("GET", "/connectors/fs/tasks/x/status", None, 404, error(404, "HTTP 404 Not Found")),
    ("GET", "/nope", None, 404, error(404, "HTTP 404 Not Found")),
    ("DELETE", "/connectors", None, 405, error(405, "HTTP 405 Method Not Allowed")),
    ("GET", "/connectors/fs/pause", None, 405, error(405, "HTTP 405 Method Not Allowed")),
    (
        "POST",
        "/connectors/fs/tasks",
        [],
        400,
        error(400, "Internal request missing required signature"),
    ),
    (
        "POST",
        "/connectors",
        {"name": "fs", "config": SOURCE},
        409,
        error(409, "Connector fs already exists"),
    ),
    ("PUT", "/connectors/fs/config", {**SOURCE, "name": "x"}, 400, error(400, OTHER_NAME)),
    (
        "POST",
        "/connectors",
        {"name": " fs ", "config": {**SOURCE, "name": "x"}},
        400,
        error(400, OTHER_NAME),
    ),
    (
        "PATCH",
        "/connectors/fs/offsets",
        {"offsets": []},
        400,
        error(400, "Partitions / offsets need to be provided for an alter offsets request"),
    ),
    (
        "PATCH",
        "/connectors/fs/offsets",
        {"offsets": [{}]},
        400,
        error(400, STOPPED_FIRST),
    ),
    ("GET", "/connector-plugins/Bogus/config", None, 404, error(404, "Unknown plugin Bogus.")),
    (
        "PUT",
        "/connector-plugins/FileStreamSink/config/validate",
        SOURCE,
        400,
        error(
            400,
            "Included connector type FileStreamSource does not match request type FileStreamSink",
        ),
    ),
]


@pytest.mark.parametrize(("method", "path", "body", "status", "answer"), ANSWERS)
def test_answers_as_connect(method: str, path: str, body: Any, status: int, answer: Any) -> None:
    found = client_of(running_source())(method, path, body)
    assert (found.status_code, found.json() if found.content else None) == (status, answer)


UNREADABLE = [
    ("POST", "/connectors", '{"name":', "Unexpected end-of-input within/between Object entries"),
    ("POST", "/connectors", '{"name": "a', "Unexpected end-of-input"),
    ("POST", "/connectors", "{", "Unexpected end-of-input: expected close marker for Object"),
    (
        "POST",
        "/connectors",
        "{a",
        "Unexpected character ('a' (code 97)): was expecting double-quote",
    ),
    ("POST", "/connectors", "what", "Unrecognized token 'what': was expecting (JSON String"),
    ("POST", "/connectors", '{"a":1}', 'Unrecognized field "a" (class org.apache.kafka'),
    ("POST", "/connectors", "null", 'Cannot invoke "org.apache.kafka.connect.runtime.rest'),
    ("POST", "/connectors", '{"name":"x"}', 'Cannot invoke "java.util.Map.get(Object)" because'),
    ("POST", "/connectors", "[]", "Cannot deserialize value of type `org.apache.kafka"),
    ("POST", "/connectors", '"a"', "Cannot construct instance of `org.apache.kafka"),
    (
        "POST",
        "/connectors",
        '{"name":"x","config":{},"initial_state":"gone"}',
        "Cannot construct instance of `org.apache.kafka.connect.runtime.rest.entities."
        "CreateConnectorRequest$InitialState`, problem: No enum constant",
    ),
    ("PUT", "/connectors/fs/config", "null", 'Cannot invoke "java.util.Map.get(Object)" because'),
    ("PUT", "/connectors/fs/config", "", 'Cannot invoke "java.util.Map.get(Object)" because'),
    (
        "PUT",
        "/connectors/fs/config",
        '{"a":{}}',
        "Cannot deserialize value of type `java.lang.String` from Object value",
    ),
    ("PUT", "/connectors/fs/config", '{"a":NaN}', "Non-standard token 'NaN'"),
    ("PATCH", "/connectors/fs/config", "null", 'Cannot invoke "java.util.Map.forEach'),
    ("PATCH", "/connectors/fs/offsets", "null", 'Cannot invoke "org.apache.kafka'),
    ("PATCH", "/connectors/fs/offsets", '{"offsets":{}}', "Cannot deserialize value of type"),
    ("PATCH", "/connectors/fs/offsets", '{"offsets":[1]}', "Cannot construct instance of"),
    ("PATCH", "/connectors/fs/offsets", '{"offsets":[null]}', "Cannot invoke"),
    ("PATCH", "/connectors/fs/offsets", '{"key":[]}', 'Unrecognized field "key"'),
    ("PATCH", "/connectors/fs/offsets", f'{{"offsets":{"9" * 5000}}}', "Document nesting depth or"),
    ("PATCH", "/connectors/fs/offsets", "[" * 100_000, "Document nesting depth (1001) exceeds"),
]


@pytest.mark.parametrize(("method", "path", "body", "text"), UNREADABLE)
def test_what_cannot_be_read_is_a_500(method: str, path: str, body: str, text: str) -> None:
    found = client_of(running_source())(method, path, body)
    assert found.status_code == 500
    assert found.json()["message"].startswith(text)
