"""The JSON of requests and answers as JSON Schema: Connect's entities, and this runtime's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from connect_runtime.rest.wire import Json
from connect_runtime.storage.snapshots import State

_TEXT: Final[Json] = {"type": "string"}
_NULLABLE: Final[Json] = {"type": ["string", "null"]}
_INT: Final[Json] = {"type": "integer"}
_TRUTH: Final[Json] = {"type": "boolean"}
_TYPE: Final[Json] = {"enum": ["source", "sink", "unknown"]}


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _object(required: Mapping[str, Json], **optional: Json) -> Json:
    return {
        "type": "object",
        "required": list(required),
        "properties": {**required, **optional},
        "additionalProperties": False,
    }


def _list(items: Json) -> Json:
    return {"type": "array", "items": items}


def _map(values: Json) -> Json:
    return {"type": "object", "additionalProperties": values}


_STATUS: Final[Mapping[str, Json]] = {
    "state": {"enum": [state.value for state in State]},
    "worker_id": _TEXT,
}
_TASK_ID: Final = _object({"connector": _TEXT, "task": _INT})
_ANY_MAP: Final[Json] = {"type": ["object", "null"]}

SCHEMAS: Final[Mapping[str, Any]] = {
    "Error": _object({"error_code": _INT, "message": _NULLABLE}),
    "Message": _object({"message": _TEXT}),
    "Server": _object({"version": _TEXT, "commit": _TEXT, "kafka_cluster_id": _TEXT}),
    "Health": _object({"status": {"enum": ["healthy", "unhealthy", "starting"]}, "message": _TEXT}),
    "Runtime": _object(
        {
            "leader": _NULLABLE,
            "leading": _TRUTH,
            "term": _INT,
            "slots": _INT,
            "running": _INT,
            "waiting": _list(_TASK_ID),
            "problem": _NULLABLE,
            "paused_tasks_release_slots": _TRUTH,
            "not_confirmed": _list(_TASK_ID),
            "not_confirmed_since": _NULLABLE,
        }
    ),
    "Names": _list(_TEXT),
    "Config": {
        "type": "object",
        "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
        "description": "Numbers and booleans become the text that was sent.",
    },
    "NewConnector": _object(
        {"config": _ref("Config")},
        name=_TEXT,
        initial_state={
            "enum": ["RUNNING", "PAUSED", "STOPPED", None],
            "description": "In any case; RUNNING by default.",
        },
    ),
    "Connector": _object(
        {
            "name": _TEXT,
            "config": _map(_NULLABLE),
            "tasks": _list(_TASK_ID),
            "type": _TYPE,
        }
    ),
    "ConnectorStatus": _object(_STATUS, version=_NULLABLE, trace=_TEXT),
    "TaskStatus": _object({"id": _INT, **_STATUS}, version=_NULLABLE, trace=_TEXT),
    "Status": _object(
        {
            "name": _TEXT,
            "connector": _ref("ConnectorStatus"),
            "tasks": _list(_ref("TaskStatus")),
            "type": _TYPE,
        }
    ),
    "Connectors": {
        "oneOf": [
            _ref("Names"),
            _map(_object({}, info=_ref("Connector"), status=_ref("Status"))),
        ]
    },
    "Tasks": _list(_object({"id": _TASK_ID, "config": _map(_TEXT)})),
    "Topics": _map(_object({"topics": _list(_TEXT)})),
    "Offsets": _object(
        {"offsets": _list(_object({}, partition=_ANY_MAP, offset=_ANY_MAP))},
    ),
    "Plugins": _list(
        _object(
            {
                "class": _TEXT,
                "type": {
                    "enum": [
                        "sink",
                        "source",
                        "transformation",
                        "predicate",
                        "converter",
                        "header_converter",
                    ]
                },
            },
            version=_TEXT,
        )
    ),
    "Definition": _object(
        {
            "name": _TEXT,
            "type": _TEXT,
            "required": _TRUTH,
            "default_value": _NULLABLE,
            "importance": {"enum": ["HIGH", "MEDIUM", "LOW"]},
            "documentation": _NULLABLE,
            "group": _NULLABLE,
            "order_in_group": _INT,
            "width": {"enum": ["NONE", "SHORT", "MEDIUM", "LONG"]},
            "display_name": _TEXT,
            "dependents": _list(_TEXT),
        }
    ),
    "Definitions": _list(_ref("Definition")),
    "Validation": _object(
        {
            "name": _TEXT,
            "error_count": _INT,
            "groups": _list(_TEXT),
            "configs": _list(
                _object(
                    {
                        "definition": {"anyOf": [_ref("Definition"), {"type": "null"}]},
                        "value": {
                            "anyOf": [
                                _object(
                                    {
                                        "name": _TEXT,
                                        "value": _NULLABLE,
                                        "recommended_values": _list(_NULLABLE),
                                        "errors": _list(_TEXT),
                                        "visible": _TRUTH,
                                    }
                                ),
                                {"type": "null"},
                            ]
                        },
                    }
                )
            ),
        }
    ),
    "Logger": _object({"level": _TEXT, "last_modified": {"type": ["integer", "null"]}}),
    "Loggers": _map(_ref("Logger")),
    "Level": {
        "type": "object",
        "required": ["level"],
        "properties": {
            "level": {
                "enum": ["ALL", "TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF"],
                "description": "In any case.",
            }
        },
        "additionalProperties": _TEXT,
    },
    "OpenApi": {"type": "object"},
    "Text": _TEXT,
}
