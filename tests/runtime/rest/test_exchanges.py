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


BODY = "The request's body"
CONFIG = "a JSON object: the connector's config"
SCALAR = "it must be a string, a number, true, false or null"
CREATE = "a JSON object with the fields name, config, initial_state"
UNREADABLE = [
    ("POST", "/connectors", '{"name":', f"{BODY} is not JSON: Expecting value: line 1 column 9"),
    ("POST", "/connectors", '{"name": "a', f"{BODY} is not JSON: Unterminated string starting at"),
    ("POST", "/connectors", "{a", f"{BODY} is not JSON: Expecting property name"),
    ("POST", "/connectors", "what", f"{BODY} is not JSON: Expecting value: line 1 column 1"),
    ("POST", "/connectors", b'{"a\xff":1}', f"{BODY} is not JSON: 'utf-8' codec can't decode byte"),
    (
        "POST",
        "/connectors",
        '{"a":1}',
        f"{BODY} has an unknown field 'a'; it may have the fields name, config, initial_state",
    ),
    ("POST", "/connectors", "null", f"{BODY} is missing or null; it must be {CREATE}"),
    ("POST", "/connectors", '{"name":"x"}', f"'config' is missing or null; it must be {CONFIG}"),
    ("POST", "/connectors", "[]", f"{BODY} is an array; it must be {CREATE}"),
    ("POST", "/connectors", '"a"', f"{BODY} is a string; it must be {CREATE}"),
    (
        "POST",
        "/connectors",
        '{"name":"x","config":{},"initial_state":"gone"}',
        "'initial_state' is 'gone'; it must be one of RUNNING, PAUSED, STOPPED",
    ),
    ("PUT", "/connectors/fs/config", "null", f"{BODY} is missing or null; it must be {CONFIG}"),
    ("PUT", "/connectors/fs/config", "", f"{BODY} is missing or null; it must be {CONFIG}"),
    ("PUT", "/connectors/fs/config", "1.5", f"{BODY} is a number; it must be {CONFIG}"),
    ("PUT", "/connectors/fs/config", '{"a":{}}', f"The value of 'a' is an object; {SCALAR}"),
    ("PUT", "/connectors/fs/config", '{"a":NaN}', f"{BODY} is not JSON: NaN is not a number"),
    (
        "PATCH",
        "/connectors/fs/config",
        "null",
        f"{BODY} is missing or null; it must be a JSON object: the changes to the connector's",
    ),
    ("PATCH", "/connectors/fs/offsets", "null", f"{BODY} is missing or null; it must be a JSON"),
    ("PATCH", "/connectors/fs/offsets", '{"offsets":{}}', "'offsets' is an object; it must be a"),
    ("PATCH", "/connectors/fs/offsets", '{"offsets":[1]}', "An entry of 'offsets' is a number; it"),
    (
        "PATCH",
        "/connectors/fs/offsets",
        '{"offsets":[null]}',
        "An entry of 'offsets' is missing or null; it must be a JSON object with the fields",
    ),
    (
        "PATCH",
        "/connectors/fs/offsets",
        '{"offsets":[{"partition":1}]}',
        "'partition' is a number; it must be a JSON object or null",
    ),
    ("PATCH", "/connectors/fs/offsets", '{"key":[]}', f"{BODY} has an unknown field 'key'; it may"),
    (
        "PATCH",
        "/connectors/fs/offsets",
        f'{{"offsets":{"9" * 5000}}}',
        f"{BODY} holds a number with too many digits",
    ),
    ("PATCH", "/connectors/fs/offsets", "[" * 100_000, f"{BODY} has too many objects within"),
]


@pytest.mark.parametrize(("method", "path", "body", "text"), UNREADABLE)
def test_an_invalid_body_is_a_500_with_the_reason(
    method: str, path: str, body: str | bytes, text: str
) -> None:
    kind = {"content-type": "application/json"}
    found = client_of(running_source())(method, path, body, kind)
    assert found.status_code == found.json()["error_code"] == 500
    assert found.json()["message"].startswith(text)
