"""The exchanges that both runtimes are asked, and the places where ours is meant to differ.

Paths and bodies may hold `{topic}`, `{missing}` and `{group}`. All of them can be asked in any
order: they change nothing, or nothing that another one looks at.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request. `body` text is sent as it is, anything else as JSON; None is no body. `differs`
    says why the answer's body is meant to be another one, and `status` which status ours has then,
    if that is another one, too."""

    method: str
    path: str
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    differs: str = ""
    status: int | None = None

    @property
    def content(self) -> str | None:
        """The body as sent."""
        if self.body is None or isinstance(self.body, str):
            return self.body
        return json.dumps(self.body)

    def __str__(self) -> str:
        shown = (self.content or "")[:70]
        return f"{self.method} {self.path} {shown}".strip()


_SOURCE = {"connector.class": "FileStreamSource", "topic": "{topic}", "file": "{missing}"}
_SINK = {"connector.class": "FileStreamSink", "topics": "{topic}", "file": "{missing}"}
_OVERRIDES = {
    "producer.override.": "x",
    "producer.override.acks": " 1 ",
    "producer.override.linger.ms": "5",
    "producer.override.ssl.key.password": "x",
    "producer.override.key.serializer": "java.lang.String",
    "consumer.override.max.poll.records": "5",
    "consumer.override.isolation.level": "read_committed",
    "consumer.override.ssl.key.password": "x",
    "consumer.override.group.id": " g ",
    "consumer.override.bogus": " x ",
    "admin.override.retries": "007",
    "admin.override.security.protocol": "plaintext",
}


def _ask(method: str, path: str, body: Any = None, **headers: str) -> Exchange:
    return Exchange(method, path, body, {k.replace("_", "-"): v for k, v in headers.items()})


def _refused(plugin: str, body: Any) -> Exchange:
    """A body that cannot be validated."""
    path, why = f"/connector-plugins/{plugin}/config/validate", "it is the client's error"
    return Exchange("PUT", path, body, differs=why, status=400)


def _create(config: Mapping[str, Any], name: str = "new") -> Exchange:
    return _ask("POST", "/connectors", {"name": name, "config": config})


def _alter(name: str, *entries: Any) -> Exchange:
    return _ask("PATCH", f"/connectors/{name}/offsets", {"offsets": list(entries)})


def _signed(signature: str, algorithm: str = "HmacSHA256") -> dict[str, str]:
    return {
        "X_Connect_Authorization": signature,
        "X_Connect_Request_Signature_Algorithm": algorithm,
    }


def _partition(topic: Any = "{topic}", number: Any = 0) -> dict[str, Any]:
    return {"kafka_topic": topic, "kafka_partition": number}


READS = (
    Exchange("GET", "/", differs="the commit is this distribution's"),
    _ask("GET", "/health"),
    _ask("GET", "/connectors"),
    _ask("GET", "/connectors/"),
    _ask("GET", "/connectors?expand=info"),
    _ask("GET", "/connectors?expand=status&expand=info"),
    _ask("GET", "/connectors?expand=bogus"),
    _ask("GET", "/connectors/src"),
    _ask("GET", "/connectors/src/config"),
    _ask("GET", "/connectors/src/status"),
    _ask("GET", "/connectors/src/tasks"),
    _ask("GET", "/connectors/src/tasks/0/status"),
    _ask("GET", "/connectors/src/topics"),
    _ask("GET", "/connectors/src/offsets"),
    _ask("GET", "/connectors/snk"),
    _ask("GET", "/connectors/snk/status"),
    _ask("GET", "/connectors/snk/tasks"),
    _ask("GET", "/connectors/idle"),
    _ask("GET", "/connectors/idle/status"),
    _ask("GET", "/connectors/idle/tasks"),
    _ask("GET", "/connectors/idle/offsets"),
    _ask("GET", "/connector-plugins"),
    *(
        _ask("GET", f"/connector-plugins?connectorsOnly={value}")
        for value in ("false", "", "%20", "TRUE", "%20true")
    ),
    _ask("GET", "/connector-plugins/FileStreamSource/config"),
    _ask("GET", "/connector-plugins/FileStreamSink/config"),
    _ask("GET", "/connector-plugins/StringConverter/config"),
    _ask("GET", "/connector-plugins/org.apache.kafka.connect.json.JsonConverter/config"),
    _ask("GET", "/connector-plugins/ByteArrayConverter/config"),
    _ask(
        "GET",
        "/connector-plugins/org.apache.kafka.connect.file.FileStreamSourceConnector/config",
    ),
)

UNKNOWN = (
    *(
        _ask(method, f"/connectors/nope{rest}", body)
        for method, rest, body in (
            ("GET", "", None),
            ("GET", "/config", None),
            ("GET", "/status", None),
            ("GET", "/tasks", None),
            ("GET", "/tasks/0/status", None),
            ("GET", "/topics", None),
            ("GET", "/offsets", None),
            ("DELETE", "", None),
            ("DELETE", "/offsets", None),
            ("PATCH", "/offsets", {"offsets": [{"partition": {}, "offset": None}]}),
            ("PATCH", "/config", {"a": "b"}),
            ("PATCH", "/config", "null"),
            ("PUT", "/pause", None),
            ("PUT", "/resume", None),
            ("PUT", "/stop", None),
            ("POST", "/restart", None),
            ("POST", "/restart?includeTasks=true", None),
            ("POST", "/tasks/0/restart", None),
            ("PUT", "/topics/reset", None),
        )
    ),
    _ask("PUT", "/connectors/idle/topics/reset"),
    _ask("GET", "/connectors/idle/topics/reset"),
    _ask("GET", "/connectors/src/tasks/7/status"),
    _ask("POST", "/connectors/src/tasks/7/restart"),
    _ask("GET", "/connectors/src/tasks/x/status"),
    _ask("GET", "/nope"),
    _ask("GET", "/connectors/src/nope"),
    _ask("GET", "/connectors/a%2Fb"),
    _ask("GET", "/connectors/a%20b"),
    _ask("PUT", "/connectors"),
    _ask("DELETE", "/connectors"),
    _ask("POST", "/connectors/src"),
    _ask("GET", "/connectors/src/pause"),
    _ask("POST", "/connectors/src/tasks", []),
    _ask("PUT", "/connectors/src/fence"),
    _ask("GET", "/connector-plugins/Bogus/config"),
    _refused("Bogus", {"connector.class": "Bogus"}),
    _refused("FileStreamSink", {}),
    _refused("FileStreamSink", {"connector.class": None}),
    _refused(
        "FileStreamSink", {"connector.class": "FileStreamSink", "connector.plugin.version": "[["}
    ),
    _ask("PUT", "/connector-plugins/FileStreamSink/config/validate", _SOURCE),
    _ask("PUT", "/connector-plugins/Connector/config/validate", _SOURCE),
)

# What Jetty and Jersey answer, before any resource
HTTP = (
    *(
        _ask("OPTIONS", path)
        for path in (
            "/",
            "/health",
            "/connectors",
            "/connectors/src",
            "/connectors/src/config",
            "/connectors/src/offsets",
            "/connectors/src/restart",
            "/connectors/src/tasks",
            "/connectors/src/topics/reset",
            "/connectors/src/fence",
            "/connector-plugins",
            "/admin/loggers",
            "/admin/loggers/root",
            "/nope",
        )
    ),
    *(_ask("HEAD", path) for path in ("/", "/connectors", "/connectors/src", "/connectors/nope")),
    *(
        _ask("GET", "/connectors", accept=accept)
        for accept in (
            "text/html",
            "application/*",
            "*",
            "text/html, */*;q=0.1",
            "application/json;q=0",
            "bogus",
        )
    ),
    _ask("GET", "/health", accept="text/html"),
    _ask("GET", "/connectors/nope", accept="text/html"),
    _ask("PUT", "/connectors/src/pause", accept="text/html"),
    _ask("GET", "/nope", accept="text/html"),
    _ask("FOO", "/connectors", accept="text/html"),
    _ask("PATCH", "/connectors"),
    _ask("GET", "/connectors/src/restart"),
    *(
        _ask(method, path, content_type="text/plain")
        for method, path in (
            ("GET", "/connectors"),
            ("GET", "/connector-plugins"),
            ("GET", "/health"),
            ("GET", "/nope"),
            ("PUT", "/connectors/src/resume"),
            ("POST", "/connectors"),
        )
    ),
    _ask("POST", "/connectors", "{}", content_type="application/json;"),
    _ask("POST", "/connectors", "{}", content_type="APPLICATION/JSON"),
    _ask("POST", "/connectors", "{}", content_type="text/plain", accept="text/html"),
    _ask("POST", "/connectors", "{}", content_type="bogus"),
    *(
        _ask("GET", f"/connectors/src/tasks/{number}/status")
        for number in ("-1", "+0", "00", "%30", "2147483647", "2147483648", "%200")
    ),
    _ask("POST", "/connectors/src/tasks/-1/restart"),
    _ask("POST", "/connectors/src/tasks/99999999999/restart"),
    *(
        _ask("GET", path)
        for path in (
            "/connectors/src/",
            "/connectors/src;x=1",
            "/connectors;x/src",
            "/connectors/src/status;a=b",
            "/connectors/a%3Bb",
            "/connectors/.",
            "/connectors/s%72c",
            "/%63onnectors",
            "/connectors?expand=STATUS",
            "/connectors?expand=info,status",
            "/connectors?forward=bogus",
            "/connectors/src?forward=false",
        )
    ),
    *(
        _ask("GET", path)
        for path in (
            "/connectors//src",
            "/connectors/src//",
            "/connectors/%2e%2e",
            "/connectors/a%0Ab",
            "/connectors/a%zz",
            "/connectors/%FF",
        )
    ),
    _ask("POST", "/connectors/src/tasks", "[]"),
    _ask("POST", "/connectors/src/tasks", ""),
    *(
        _ask("PUT", f"/connectors/{name}/fence", **_signed(*signature))
        for name, *signature in (
            ("src", "eA=="),
            ("snk", "eA=="),
            ("nope", "eA=="),
            ("src", "%"),
            ("src", "%%%%"),
            ("src", "eA="),
            ("src", "eA==", "bogus"),
            ("src", "eA==", "HmacSHA1"),
        )
    ),
    _ask("POST", "/connectors/src/tasks", "[]", **_signed("eA==")),
)

LOGGERS = (
    _ask("GET", "/admin"),
    _ask("GET", "/admin/loggers/no.such.logger"),
    _ask("POST", "/admin/loggers", {}),
    _ask("DELETE", "/admin/loggers/root"),
    _ask("PUT", "/admin/loggers/", {"level": "INFO"}),
    *(
        _ask("PUT", f"/admin/loggers/no.such.logger{scope}", body)
        for scope in ("", "?scope=cluster")
        for body in ({}, {"level": None}, {"level": "bogus"}, {"level": 1}, {"level": ""}, "null")
    ),
    _ask("PUT", "/admin/loggers/no.such.logger", ""),
    _ask("PUT", "/admin/loggers/no.such.logger", "[]"),
    _ask("PUT", "/admin/loggers/only.this", {"level": "debug"}),
    _ask("PUT", "/admin/loggers/only.blanks", {"level": " debug "}),
    _ask("PUT", "/admin/loggers/only.blanks", {"level": "\u00a0info"}),
    _ask("PUT", "/admin/loggers/only.that?scope=bogus", {"level": "DEBUG", "more": "x"}),
    _ask("PUT", "/admin/loggers/all.workers?scope=cluster", {"level": "debug"}),
)

BODIES = (
    _ask("POST", "/connectors", '{"name":"new","config":'),
    _ask("POST", "/connectors", "{name}"),
    _ask("POST", "/connectors", "[]"),
    _ask("POST", "/connectors", '"text"'),
    _ask("POST", "/connectors", "null"),
    _ask("POST", "/connectors", {"name": "new"}),
    _ask("POST", "/connectors", {"name": "new", "config": None}),
    _ask("POST", "/connectors", {"name": "new", "config": {}, "bogus": 1}),
    _ask("POST", "/connectors", {"name": "new", "config": {"a": {"b": 1}}}),
    _ask("POST", "/connectors", {"name": "new", "config": {"a": [1]}}),
    _ask("POST", "/connectors", {"name": "new", "config": []}),
    _ask("POST", "/connectors", {"name": "new", "config": _SOURCE, "initial_state": "bogus"}),
    _ask("POST", "/connectors", "{}", content_type="text/plain"),
    _ask("PUT", "/connectors/src/config", "null"),
    *(
        _ask("PUT", "/connectors/src/config", "{}" + more)
        for more in (" {}", " []", ' "x"', " 1", " 1.5", " true", " null", " x", " ]", " }", " ,")
    ),
    _ask("POST", "/connectors", "{} {}"),
    _ask("POST", "/connectors", "[] {}"),
    _ask("PATCH", "/connectors/src/offsets", "{} {}"),
    *(
        _ask("PUT", "/connectors/src/config", body)
        for body in (
            '"text"',
            '""',
            "1",
            "1.5",
            "true",
            '{"a":"b" "c":1}',
            '{"a" "b"}',
            '{"a":"b",}',
            '{"a":"b\n"}',
            '{"a":"\\x"}',
            '{"a":}',
            '{"a":.5}',
            '{"a":-Infinity}',
            '{"a',
            '{"a"',
            '{"a":"b',
            '{"a":1',
        )
    ),
    _ask("POST", "/connectors", {"name": "new", "config": '{"a":"b"}'}),
    _ask("PATCH", "/connectors/src/offsets", {"offsets": "text"}),
    _ask("PATCH", "/connectors/src/offsets", {"offsets": [{"partition": 1}]}),
    _ask("PATCH", "/connectors/nope/config", "{"),
    _ask("PATCH", "/connectors/nope/offsets", "{"),
    _ask("PUT", "/connectors/src/config", "\ufeff{}"),
    _ask("PUT", "/connectors/src/config", "{"),
    _ask("PUT", "/connectors/src/config", _SOURCE, content_type="application/xml"),
    _ask("PATCH", "/connectors/src/config", "null"),
    _ask("PATCH", "/connectors/src/config", {"connector.class": None}),
    _ask("PUT", "/connectors/src/config", {**_SOURCE, "name": "other"}),
    *(
        _refused("FileStreamSource", body)
        for body in ("null", "[]", '"text"', "1", "{", '{"a":{}}', '{"a":[]}', "{}{}")
    ),
)

CONFIGS = (
    _create({}),
    _create({"topic": "{topic}"}),
    _create({"connector.class": "FileStreamSource"}),
    _create(_SOURCE, name="src"),
    _create({"connector.class": "FileStreamSource"}, name="src"),
    _create({**_SOURCE, "name": "other"}),
    _create(_SOURCE, name=" "),
    _create(_SOURCE, name="a\u0001b"),
    *(_create({**_SOURCE, "tasks.max": 0}, name=name) for name in ("\u0001", "\u00a0", "\u2003x")),
    _create({**_SOURCE, "name": "x"}, name="\u0001x\u00a0"),
    _create({**_SOURCE, "tasks.max": " 1_0 "}),
    _create({**_SOURCE, "tasks.max": "\u00a05"}),
    _create({**_SOURCE, "tasks.max.enforce": " maybe "}),
    _create({**_SOURCE, "tasks.max": 0}),
    _create({**_SOURCE, "tasks.max": "x"}),
    _create({**_SOURCE, "tasks.max": None}),
    _create({**_SOURCE, "bogus": None}),
    _create({**_SOURCE, "errors.retry.timeout": "x"}),
    _create({**_SOURCE, "errors.tolerance": "some"}),
    _create({**_SOURCE, "config.action.reload": "x"}),
    _create({**_SOURCE, "key.converter": "bogus"}),
    _create(
        {
            **_SOURCE,
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "maybe",
        }
    ),
    _create({**_SOURCE, "transforms": "a,a", "transforms.a.type": "x"}),
    _create({**_SOURCE, "transforms": "a"}),
    _create({**_SOURCE, "transforms": "a", "transforms.a.type": "bogus"}),
    _create({**_SOURCE, "exactly.once.support": "maybe"}),
    _create({**_SOURCE, "transaction.boundary": "connector"}),
    _create({**_SOURCE, "transaction.boundary.interval.ms": "-1"}),
    _create(
        {"connector.class": "FileStreamSource", "topic": "t", "exactly.once.support": "required"}
    ),
    _create({**_SOURCE, "topic": ""}),
    _create({**_SOURCE, "batch.size": "many"}),
    _create({"connector.class": "FileStreamSink"}),
    _create({**_SINK, "topics.regex": "a.*"}),
    _create({**_SINK, "topics": "a\u00a0, b", "errors.deadletterqueue.topic.name": " b "}),
    _create({**_SINK, "topics": "a\u00a0, a", "errors.deadletterqueue.topic.name": "a\u00a0"}),
    _create({"connector.class": "FileStreamSink", "topics.regex": "["}),
    _create({**_SINK, "errors.deadletterqueue.topic.name": "{topic}"}),
    _create(
        {
            "connector.class": "FileStreamSink",
            "topics.regex": "d.*",
            "errors.deadletterqueue.topic.name": "dlq",
        }
    ),
    _create({**_SINK, "consumer.override.group.id": "{group}"}),
    _ask("PUT", "/connector-plugins/FileStreamSource/config/validate", _SOURCE),
    _ask("PUT", "/connector-plugins/FileStreamSource/config/validate", {**_SOURCE, "name": "new"}),
    *(
        _ask(
            "PUT",
            "/connector-plugins/FileStreamSource/config/validate",
            {**_SOURCE, "name": "new", key: None},
        )
        for key in (
            "file",
            "topic",
            "batch.size",
            "tasks.max",
            "name",
            "errors.tolerance",
            "header.converter",
            "transforms",
            "exactly.once.support",
        )
    ),
    _ask("PUT", "/connector-plugins/FileStreamSourceConnector/config/validate", _SOURCE),
    _ask("PUT", "/connector-plugins/FileStreamSink/config/validate", {**_SINK, "x": None}),
    *(
        _ask("PUT", f"/connector-plugins/{kind}/config/validate", {**config, "name": "new", **more})
        for kind, config, more in (
            ("FileStreamSource", _SOURCE, _OVERRIDES),
            ("FileStreamSink", _SINK, _OVERRIDES),
            ("FileStreamSink", _SINK, {**_OVERRIDES, "errors.deadletterqueue.topic.name": "d"}),
        )
    ),
    _ask(
        "PUT",
        "/connector-plugins/FileStreamSink/config/validate",
        {
            **_SINK,
            "name": "new",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        },
    ),
    _ask(
        "PUT",
        "/connector-plugins/FileStreamSource/config/validate",
        {
            **_SOURCE,
            "name": "new",
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "key.converter.schemas.enable": "maybe",
            "key.converter.decimal.format": "x",
        },
    ),
)

OFFSETS = (
    _ask("PATCH", "/connectors/src/offsets", {}),
    _ask("PATCH", "/connectors/src/offsets", {"offsets": None}),
    _ask("PATCH", "/connectors/src/offsets", {"offsets": []}),
    _ask("PATCH", "/connectors/src/offsets", {"offsets": {}}),
    _ask("PATCH", "/connectors/src/offsets", {"offsets": [123]}),
    _ask("PATCH", "/connectors/src/offsets", {"offsets": [{"key": "value"}]}),
    _ask("PATCH", "/connectors/src/offsets", {"offsets": [None]}),
    _ask("PATCH", "/connectors/src/offsets", "[]"),
    _ask("PATCH", "/connectors/src/offsets", "null"),
    _ask("PATCH", "/connectors/src/offsets", {"key": []}),
    _alter("src", {"partition": {"filename": "x"}, "offset": {"position": 1}}),
    _ask("DELETE", "/connectors/src/offsets"),
    _alter("still", {"offset": {"kafka_offset": 1}}),
    _alter("still", {"partition": {"kafka_topic": "t"}, "offset": None}),
    _alter("still", {"partition": _partition(topic=None), "offset": None}),
    _alter("still", {"partition": _partition(number=None), "offset": None}),
    _alter("still", {"partition": _partition(number="x"), "offset": None}),
    _alter("still", {"partition": _partition(number=1.0), "offset": None}),
    *(
        _alter("still", {"partition": _partition(number=number), "offset": None})
        for number in (2**31, True, [1], {"a": 1})
    ),
    _alter("still", {"partition": _partition(number=-1), "offset": {"kafka_offset": 1}}),
    _alter("still", {"partition": _partition(topic=True), "offset": {"kafka_offset": 1}}),
    _alter("still", {"partition": _partition(), "offset": {"kafka_offset": 2**63}}),
    _alter("still", {"partition": _partition(), "offset": {"kafka_offset": False}}),
    _alter("still", {"partition": _partition(), "offset": {}}),
    _alter("still", {"partition": _partition(), "offset": {"kafka_offset": None}}),
    _alter("still", {"partition": _partition(), "offset": {"kafka_offset": "x"}}),
    _alter("still", {"partition": _partition(), "offset": {"kafka_offset": 1.5}}),
    _alter("still", {"partition": _partition(), "offset": {"kafka_offset": -1}}),
    _alter("still", {"partition": _partition(topic="{missing}"), "offset": {"kafka_offset": 1}}),
    _alter("still", {"partition": _partition(number="0"), "offset": {"kafka_offset": "1"}}),
    _alter("still", {"partition": _partition(), "offset": None}),
    _alter("idle", {"partition": None, "offset": {"position": 1}}),
    _alter("idle", {"partition": {"filename": "x"}, "offset": {"position": [1]}}),
    _alter("idle", {"partition": {"filename": "x"}, "offset": {"position": 2**63}}),
    _alter("idle", {"partition": {"filename": {"a": 1}}, "offset": {"position": 1}}),
    _alter("idle", {"partition": {"filename": "x"}, "offset": {"position": "text"}}),
    _alter("idle", {"partition": {"filename": "x"}, "offset": {"position": 5}}),
    _alter("idle", {"partition": {"filename": "x"}, "offset": None}),
    _ask("DELETE", "/connectors/still/offsets"),
)
