"""Describes the REST API as an OpenAPI document, made from the routes that are served.

Every route needs an entry in `OPERATIONS`; `SCHEMAS` holds the JSON of requests and answers:
Connect's entities, and this runtime's own. Connect documents parts of them nowhere: they follow the
answers of its workers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from connect_runtime.metrics.page import CONTENT_TYPE
from connect_runtime.rest.exchange import JSON
from connect_runtime.rest.wire import Json
from connect_runtime.storage.snapshots import State

PATH: Final = "/openapi.json"
_VERSION: Final = "3.1.0"

_PARAMETER = re.compile(r"\{(\w+)\}")
_PARAMETERS: Final[Mapping[str, tuple[str, str]]] = {
    "name": ("string", "A connector's name."),
    "task": ("integer", "A task's number, from 0."),
    "plugin": ("string", "A plugin's class, or its short name, such as FileStreamSource."),
    "logger": ("string", "A logger's name, or root."),
}
# Answers of any request: of its path, headers, login, origin and size
_ERRORS: Final = {
    "400": "The request is not valid.",
    "401": "The login is missing or wrong.",
    "403": "It is not allowed.",
    "404": "There is no such connector, task, plugin or logger.",
    "408": "The body did not arrive in time.",
    "409": "Another change is in progress, or no leader is known.",
    "413": "The body is too large.",
    "500": "It failed, or the body is not what Connect can read.",
    "503": "The worker is starting, ending or busy.",
}
_WITHOUT_CONTENT_TYPE: Final = {
    "406": "The client does not accept JSON. The body is an Error, without a content type.",
    "415": "The body is not JSON. The body is an Error, without a content type.",
}


@dataclass(frozen=True, slots=True)
class Operation:
    """The description of a route. `answers` by status: the schema's name, or None for no body.
    `query` by parameter: its schema and meaning. `text`: the content type of answers that are no
    JSON."""

    summary: str
    answers: Mapping[int, str | None]
    body: str | None = None
    query: Mapping[str, tuple[Json, str]] | None = None
    text: str | None = None


_FLAG: Final[Json] = {"type": "boolean", "default": False}
_RESTART: Final = {
    "includeTasks": (_FLAG, "Restart the tasks, too."),
    "onlyFailed": (_FLAG, "Restart only what failed."),
}
_EXPAND: Final = {
    "expand": (
        {"type": "array", "items": {"type": "string"}},
        "status, info or both: answers an object instead of a list.",
    )
}
_PLUGIN_VERSION: Final = {
    "version": ({"type": "string"}, "A version or a range of versions; latest by default.")
}
_CONNECTORS_ONLY: Final = {
    "connectorsOnly": (
        {"type": "boolean", "default": True},
        "Whether to leave out transformations, predicates and converters.",
    )
}
_SCOPE: Final = {
    "scope": (
        {"type": "string", "default": "worker"},
        "worker, or cluster: set it on all workers, and answer 204.",
    )
}

_ONE: Final = "/connectors/{name}"
OPERATIONS: Final[Mapping[tuple[str, str], Operation]] = {
    ("GET", "/"): Operation("The versions of Connect and of this program", {200: "Server"}),
    ("GET", "/health"): Operation(
        "Whether the worker is ready", {200: "Health", 500: "Health", 503: "Health"}
    ),
    ("GET", "/runtime"): Operation("This runtime: its leader and its slots", {200: "Runtime"}),
    ("GET", "/connectors"): Operation(
        "The connectors' names, or the connectors", {200: "Connectors"}, query=_EXPAND
    ),
    ("POST", "/connectors"): Operation(
        "Create a connector", {201: "Connector"}, body="NewConnector"
    ),
    ("GET", _ONE): Operation("A connector with its config", {200: "Connector"}),
    ("DELETE", _ONE): Operation("Delete a connector", {204: None}),
    ("GET", f"{_ONE}/config"): Operation("A connector's config", {200: "Config"}),
    ("PUT", f"{_ONE}/config"): Operation(
        "Create a connector, or replace its config",
        {200: "Connector", 201: "Connector"},
        body="Config",
    ),
    ("PATCH", f"{_ONE}/config"): Operation(
        "Change keys of a config; null removes one", {200: "Connector"}, body="Config"
    ),
    ("GET", f"{_ONE}/status"): Operation(
        "The states of a connector and its tasks", {200: "Status"}
    ),
    ("PUT", f"{_ONE}/pause"): Operation("Pause a connector and its tasks", {202: None}),
    ("PUT", f"{_ONE}/resume"): Operation("Let a connector and its tasks run", {202: None}),
    ("PUT", f"{_ONE}/stop"): Operation("Stop a connector and end its tasks", {204: None}),
    ("POST", f"{_ONE}/restart"): Operation(
        "Restart a connector, and its tasks if asked",
        {202: "Status", 204: None},
        query=_RESTART,
    ),
    ("GET", f"{_ONE}/tasks"): Operation("The tasks with their configs", {200: "Tasks"}),
    ("POST", f"{_ONE}/tasks"): Operation("Internal to Apache's workers: refused", {}),
    ("PUT", f"{_ONE}/fence"): Operation("Internal to Apache's workers: refused", {}),
    ("GET", _ONE + "/tasks/{task}/status"): Operation("A task's state", {200: "TaskStatus"}),
    ("POST", _ONE + "/tasks/{task}/restart"): Operation("Restart a task", {204: None}),
    ("GET", f"{_ONE}/topics"): Operation("The topics that a connector uses", {200: "Topics"}),
    ("PUT", f"{_ONE}/topics/reset"): Operation("Forget the topics that it used", {202: None}),
    ("GET", f"{_ONE}/offsets"): Operation("A connector's offsets", {200: "Offsets"}),
    ("PATCH", f"{_ONE}/offsets"): Operation(
        "Change offsets of a stopped connector; null resets one", {200: "Message"}, body="Offsets"
    ),
    ("DELETE", f"{_ONE}/offsets"): Operation(
        "Reset all offsets of a stopped connector", {200: "Message"}
    ),
    ("GET", "/connector-plugins"): Operation(
        "The installed plugins", {200: "Plugins"}, query=_CONNECTORS_ONLY
    ),
    ("GET", "/connector-plugins/{plugin}/config"): Operation(
        "The keys of a plugin", {200: "Definitions"}, query=_PLUGIN_VERSION
    ),
    ("PUT", "/connector-plugins/{plugin}/config/validate"): Operation(
        "Validate a config", {200: "Validation"}, body="Config"
    ),
    ("GET", "/admin/loggers"): Operation("The levels of loggers", {200: "Loggers"}),
    ("GET", "/admin/loggers/{logger}"): Operation("A logger's level", {200: "Logger"}),
    ("PUT", "/admin/loggers/{logger}"): Operation(
        "Set the level of a logger and those below it; answers those that changed",
        {200: "Names", 204: None},
        body="Level",
        query=_SCOPE,
    ),
    ("GET", "/metrics"): Operation(
        "Metrics for Prometheus, if the worker serves them", {200: "Text"}, text=CONTENT_TYPE
    ),
    ("GET", PATH): Operation("This document", {200: "OpenApi"}),
}


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _object(optional: Mapping[str, Json] | None = None, /, **required: Json) -> Json:
    return {
        "type": "object",
        "required": list(required),
        "properties": {**required, **(optional or {})},
        "additionalProperties": False,
    }


def _list(items: Json) -> Json:
    return {"type": "array", "items": items}


def _map(values: Json) -> Json:
    return {"type": "object", "additionalProperties": values}


def _enum(*values: str) -> Json:
    return {"enum": list(values)}


_TEXT: Final[Json] = {"type": "string"}
_NULLABLE: Final[Json] = {"type": ["string", "null"]}
_INT: Final[Json] = {"type": "integer"}
_TRUTH: Final[Json] = {"type": "boolean"}
_NULL: Final[Json] = {"type": "null"}
_ANY_MAP: Final[Json] = {"type": ["object", "null"]}
_KIND: Final = _enum("source", "sink", "unknown")
_PLUGIN: Final = _enum(
    "sink", "source", "transformation", "predicate", "converter", "header_converter"
)
_STATE: Final[Mapping[str, Json]] = {
    "state": _enum(*(state.value for state in State)),
    "worker_id": _TEXT,
}
_VERSION_AND_TRACE: Final[Mapping[str, Json]] = {"version": _NULLABLE, "trace": _TEXT}
_TASK_ID: Final = _object(connector=_TEXT, task=_INT)
_VALUE: Final = _object(
    name=_TEXT,
    value=_NULLABLE,
    recommended_values=_list(_NULLABLE),
    errors=_list(_TEXT),
    visible=_TRUTH,
)

SCHEMAS: Final[Mapping[str, Any]] = {
    "Error": _object(error_code=_INT, message=_NULLABLE),
    "Message": _object(message=_TEXT),
    "Server": _object(version=_TEXT, commit=_TEXT, kafka_cluster_id=_TEXT),
    "Health": _object(status=_enum("healthy", "unhealthy", "starting"), message=_TEXT),
    "Runtime": _object(
        leader=_NULLABLE,
        leading=_TRUTH,
        term=_INT,
        slots=_INT,
        running=_INT,
        waiting=_list(_TASK_ID),
        problem=_NULLABLE,
        paused_tasks_release_slots=_TRUTH,
        not_confirmed=_list(_TASK_ID),
        not_confirmed_since=_NULLABLE,
    ),
    "Names": _list(_TEXT),
    "Config": {
        "type": "object",
        "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
        "description": "Numbers and booleans become the text that was sent.",
    },
    "NewConnector": _object(
        {
            "name": _TEXT,
            "initial_state": {
                "enum": ["RUNNING", "PAUSED", "STOPPED", None],
                "description": "In any case; RUNNING by default.",
            },
        },
        config=_ref("Config"),
    ),
    "Connector": _object(name=_TEXT, config=_map(_NULLABLE), tasks=_list(_TASK_ID), type=_KIND),
    "ConnectorStatus": _object(_VERSION_AND_TRACE, **_STATE),
    "TaskStatus": _object(_VERSION_AND_TRACE, id=_INT, **_STATE),
    "Status": _object(
        name=_TEXT,
        connector=_ref("ConnectorStatus"),
        tasks=_list(_ref("TaskStatus")),
        type=_KIND,
    ),
    "Connectors": {
        "oneOf": [
            _ref("Names"),
            _map(_object({"info": _ref("Connector"), "status": _ref("Status")})),
        ]
    },
    "Tasks": _list(_object(id=_TASK_ID, config=_map(_TEXT))),
    "Topics": _map(_object(topics=_list(_TEXT))),
    "Offsets": _object(offsets=_list(_object({"partition": _ANY_MAP, "offset": _ANY_MAP}))),
    "Plugins": _list(_object({"version": _TEXT}, **{"class": _TEXT, "type": _PLUGIN})),
    "Definition": _object(
        name=_TEXT,
        type=_TEXT,
        required=_TRUTH,
        default_value=_NULLABLE,
        importance=_enum("HIGH", "MEDIUM", "LOW"),
        documentation=_NULLABLE,
        group=_NULLABLE,
        order_in_group=_INT,
        width=_enum("NONE", "SHORT", "MEDIUM", "LONG"),
        display_name=_TEXT,
        dependents=_list(_TEXT),
    ),
    "Definitions": _list(_ref("Definition")),
    "Validation": _object(
        name=_TEXT,
        error_count=_INT,
        groups=_list(_TEXT),
        configs=_list(
            _object(
                definition={"anyOf": [_ref("Definition"), _NULL]},
                value={"anyOf": [_VALUE, _NULL]},
            )
        ),
    ),
    "Logger": _object(level=_TEXT, last_modified={"type": ["integer", "null"]}),
    "Loggers": _map(_ref("Logger")),
    "Level": {
        "type": "object",
        "required": ["level"],
        "properties": {
            "level": {
                **_enum("ALL", "TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF"),
                "description": "In any case.",
            }
        },
        "additionalProperties": _TEXT,
    },
    "OpenApi": {"type": "object"},
    "Text": _TEXT,
}


def document(routes: Iterable[tuple[str, str]], version: str) -> Json:
    """Returns the OpenAPI document of these routes (method and path). Raises KeyError for a route
    that has no entry in `OPERATIONS`."""
    paths: dict[str, Json] = {}
    for method, path in routes:
        paths.setdefault(path, {})[method.lower()] = _operation(path, OPERATIONS[method, path])
    return {
        "openapi": _VERSION,
        "info": {
            "title": "Kafka Connect REST API",
            "version": version,
            "description": "Apache Kafka Connect's REST API, and what this runtime adds to it.",
        },
        "security": [{}, {"basic": []}],
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "responses": _errors(),
            "securitySchemes": {"basic": {"type": "http", "scheme": "basic"}},
        },
    }


def _operation(path: str, operation: Operation) -> Json:
    description: Json = {"summary": operation.summary}
    parameters = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": _PARAMETERS[name][1],
            "schema": {"type": _PARAMETERS[name][0]},
        }
        for name in _PARAMETER.findall(path)
    ] + [
        {"name": name, "in": "query", "description": meaning, "schema": schema}
        for name, (schema, meaning) in (operation.query or {}).items()
    ]
    if parameters:
        description["parameters"] = parameters
    if operation.body is not None:
        description["requestBody"] = {"required": True, "content": _content(operation.body)}
    description["responses"] = _responses(operation)
    return description


def _responses(operation: Operation) -> Json:
    responses: dict[str, Any] = {}
    for status, schema in operation.answers.items():
        responses[str(status)] = {"description": operation.summary}
        if schema is not None:
            responses[str(status)]["content"] = _content(schema, operation.text or JSON)
    for code in (*_ERRORS, *_WITHOUT_CONTENT_TYPE):
        responses.setdefault(code, {"$ref": f"#/components/responses/{code}"})
    return dict(sorted(responses.items()))


def _errors() -> Json:
    errors: dict[str, Any] = {
        code: {"description": description, "content": _content("Error")}
        for code, description in _ERRORS.items()
    }
    # for paths and content types that are not understood
    errors["400"]["content"]["text/html"] = {"schema": {"type": "string"}}
    return errors | {code: {"description": text} for code, text in _WITHOUT_CONTENT_TYPE.items()}


def _content(schema: str, content_type: str = JSON) -> Json:
    return {content_type: {"schema": _ref(schema)}}
