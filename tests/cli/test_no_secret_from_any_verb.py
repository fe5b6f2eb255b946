"""Every verb in every form on a real Kafka: what it prints, writes and logs holds no secret."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from connect_reconciler.cli import entry
from connect_runtime import KAFKA_VERSION
from connect_runtime.kafka.log import KafkaLogs
from connect_runtime.storage import config_topic, status_topic
from connect_runtime.storage.snapshots import State, Status, TaskId
from connect_specs.names import ClusterTopics
from support.broker import BrokerAddress
from support.serving import serving

# In the middle of each secret, and in nothing else that is written here
MARK = "zq9"
CONFIG = {
    "connector.class": "FileStreamSource",
    "file": "/dev/null",
    "topic": "lines",
    "db.password": f"pa\"ss {MARK} \\word'",
    "connection.url": f"jdbc:db://me:{MARK}-url@host/x",
    "producer.override.sasl.jaas.config": f'x.Module required username="u" password="{MARK}j";',
    "internal.pin": f"{MARK}1",
    "vendor.x.y": f"{MARK}é2",
    "signing.pem": f"-----BEGIN PRIVATE KEY-----\n{MARK}\n-----END PRIVATE KEY-----\n",
    "http.headers": f"Accept: */*, Authorization: Bearer {MARK}-bearer, X-Vendor: {MARK}-vendor",
    "azblob.sas.key": f"{MARK}-sas",
    "s3.sse.customer.key": f"{MARK}-customer",
    "connection.pwd": f"{MARK}-pwd",
    "key.passphrase": f"{MARK}-passphrase",
    "oracle.url": f"jdbc:oracle:thin:scott/{MARK}-oracle@db:1521:orcl",
    "mongo": f"mongodb://me:{MARK}-mongo@db1:27017,db2:27017/x",
    "alerts": f"https://hooks.slack.com/services/T0/B0/{MARK}-slack-token",
    "alerts.webhook.url": f"https://alerts.acme/{MARK}-alerts",
    "storage": f"AccountName=a;AccountKey={MARK}-account==;EndpointSuffix=core.windows.net",
    "blob": f"https://x.blob.core.windows.net/c?sv=2020&sig={MARK}-sig",
    "identity": f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.{MARK}dozjgNryP4J3jVmNHl0w5N",
    "aws": f"AKIAIOSFODNN7EXAMPLE:{MARK}XUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
}
# With values/default.yaml
FROM_VALUES = {
    "greeting": "hello {{ vendor }} on {{ port }}",
    "query.address": "https://host/x?a=b&zz={{ api_token | upper | lower }}",
}
VERBS = (
    ("validate",),
    ("validate", "--json"),
    ("plan",),
    ("plan", "--json"),
    ("plan", "--markdown"),
    ("plan", "--out", "saved.plan", "--html", "plan.html"),
    ("show", "saved.plan"),
    ("show", "saved.plan", "--json"),
    ("drift",),
    ("drift", "--json"),
    ("drift", "--markdown"),
    ("status",),
    ("status", "--json"),
    ("history",),
    ("history", "--json"),
    ("doctor",),
    ("doctor", "--json"),
    ("offsets", "list", "a", "--json"),
    ("export",),
    ("export", "a", "--format", "properties"),
    ("export", "a", "--format", "strimzi", "--json"),
    ("export", "a", "--live"),
    ("import", "by-hand", "--json"),
    ("offsets", "reset", "a"),
    ("plugins", "list"),
    ("test",),
    ("test", "--against", "live"),
    ("test", "a", "--against", "live", "--markdown"),
)


class Watched:
    """The command in this process: each word that it says and each file that it leaves."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.specs: set[Path] = set()
        self._capture = capture

    def project(self, text: str) -> None:
        (self.folder / "connect.yaml").write_text(f"project: p\ncluster:\n{text}")
        (self.folder / "connectors").mkdir()

    def values(self, text: str) -> None:
        (self.folder / "values").mkdir()
        file = self.folder / "values" / "default.yaml"
        file.write_text(text)
        self.specs.add(file)

    def spec(self, name: str, config: dict[str, str], more: str = "") -> None:
        text = "".join(f"  {key}: {json.dumps(value)}\n" for key, value in config.items())
        text = f"name: {name}\nsensitive: [internal.pin, 'vendor.*']\n{more}config:\n{text}"
        file = self.folder / "connectors" / f"{name}.yaml"
        file.write_text(text)
        self.specs.add(file)

    def __call__(self, *words: str) -> tuple[int, str]:
        code = entry.run((*words, "--verbose", "--log-file", "asked.log"))
        said, told = self._capture.readouterr()
        assert MARK not in said + told, words
        assert "error[internal]" not in told, (words, told)
        for file in self.folder.rglob("*"):
            if file.is_file() and file not in self.specs and file.name != "connect.yaml":
                assert MARK.encode() not in file.read_bytes(), (words, file)
        return code, said


@pytest.fixture
def watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Watched:
    monkeypatch.setenv("CONNECT_FINGERPRINT_KEY", f"{MARK} a key of this test")
    monkeypatch.chdir(tmp_path)
    return Watched(tmp_path, capfd)


def test_of_our_own_runtime(watched: Watched, broker: BrokerAddress, unique: str) -> None:
    """No secret in what any verb says as text, JSON, Markdown or a page, nor in a saved plan."""
    kafka, topics = broker.bootstrap_servers, ClusterTopics.of(unique)
    # The password is of no use to this Kafka, and goes with every client
    properties = f"{{bootstrap.servers: '{kafka}', ssl.key.password: '{MARK}-login'}}"
    watched.project(f"  group.id: {unique}\n  kafka: {properties}\n")
    watched.values(f"sensitive: [vendor]\nvendor: {MARK}-value\napi_token: {MARK}token\nport: 8\n")
    watched.spec("a", CONFIG | FROM_VALUES, "state: stopped\n")
    watched.spec("b", CONFIG | {"file": "/x"}, "state: paused\n")
    assert watched("apply", "--yes")[0] == 0

    texts = (f"{MARK}-value", f"{MARK}token")
    quoted = "\n".join((json.dumps(CONFIG), *CONFIG.values(), *texts))
    failed = Status(State.FAILED, "w", 1, quoted)
    # A secret of values/ in a key that no spec has it in
    by_hand = (
        CONFIG
        | {"other.place": f"x {MARK}-value"}
        | {"db.password": f"{MARK}-other", "producer.override.linger.ms": "7"}
    )
    # What nothing names as secret is none
    nobodys = {
        key: text for key, text in CONFIG.items() if key not in ("internal.pin", "vendor.x.y")
    }
    logs = KafkaLogs({"bootstrap.servers": kafka})
    logs.writer(unique).write(
        [
            config_topic.connector_record(topics.config, "a", {"name": "a"} | by_hand),
            config_topic.connector_record(topics.config, "by-hand", {"name": "by-hand"} | nobodys),
            status_topic.connector_record(topics.status, "a", failed),
            status_topic.task_record(topics.status, TaskId("a", 0), failed),
        ]
    )
    for words in VERBS:
        watched(*words)
    new = {"db.password": f"{MARK}-new", "greeting": "none any more"}
    watched.spec("a", CONFIG | FROM_VALUES | new, "state: stopped\n")
    for words in (("plan",), ("plan", "--json"), ("drift",)):
        watched(*words)
    assert watched("apply", "saved.plan", "--yes")[0] == 5
    assert watched("apply", "--yes", "--json")[0] == 0
    listed = json.loads(watched("history", "--json")[1])["applies"]
    for words in (("history",), ("rollback", "--markdown"), ("rollback", "--json", "--yes")):
        watched(*words, listed[0]["apply_id"])
    # Written again as it is on the cluster: what its spec called sensitive stays so
    watched.specs = {watched.folder / "values" / "default.yaml"}
    assert watched("import", "a", "b", "--force")[0] == 0
    watched.specs |= set((watched.folder / "connectors").iterdir())
    asked = (watched.folder / "asked.log").read_text()
    for text in (
        f"read what there is of topic {topics.config}, ",
        f"write to topic {topics.ledger}",
    ):
        assert f"kafka {text}" in asked
    for records in (topics.ledger, topics.offsets):
        for record in logs.reader(records).read_to_end(10):
            assert MARK.encode() not in (record.key or b"") + (record.value or b"")
    logs.close()


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("a.yaml", "name: a\nconfig: {connector.class: C, db.password: 'zq9\n"),
        ("a.yaml", "name: a\nconfig:\n  connector.class: C\n\tdb.password: zq9\n"),
        ("a.yaml", "name: a\nconfig: {connector.class: C, p: zq91, p: zq92}\n"),
        ("a.yaml", "name: a\nconfig: {connector.class: C, p: [zq9], q: {r: zq9}, s: *zq9}\n"),
        ("a.yaml", "name: a\nconfig: {connector.class: C, p: !zq9 x}\noffsets: zq9\n"),
        ("a.yaml", "name: a\nconfig: {connector.class: C, db.password: '{{ zq8 + \"zq9\" }}'}\n"),
        ("a.yaml", "name: a\nconfig: {connector.class: C, p: '{{ db.zq8 }}{% zq9'}\n"),
        ("a.json", '{"name": "a", "config": {"connector.class": "C", "p": "zq9}\n'),
        ("a.properties", "name=a\nconnector.class=C\np=zq9\\u12\n"),
        ("a.properties", "name=a\nconnector.class=C\np=zq91\np=zq92\n"),
    ],
)
def test_of_a_spec_that_is_wrong(watched: Watched, file: str, text: str) -> None:
    """No secret in what is said about a mistake in its file."""
    watched.project("  group.id: g\n  kafka: {bootstrap.servers: 'localhost:1'}\n")
    (watched.folder / "values").mkdir()
    values = watched.folder / "values" / "default.yaml"
    values.write_text("db: {password: zq9, port: 1}\nzq8: 1\n")
    spec = watched.folder / "connectors" / file
    spec.write_text(text)
    watched.specs = {spec, values}
    for words in (("validate",), ("validate", "--json")):
        assert watched(*words)[0] == 2


@contextmanager
def careless(config: dict[str, str]) -> Iterator[str]:
    """A worker that has one connector, and says in each refusal all that it was given."""
    there = {"name": "a"} | config
    info = {"name": "a", "config": there, "tasks": [], "type": "source"}
    status = {
        "name": "a",
        "type": "source",
        "connector": {"state": "FAILED", "worker_id": "w", "trace": "; ".join(config.values())},
        "tasks": [],
    }
    answers = {
        ("GET", "/"): {"version": KAFKA_VERSION, "commit": "c", "kafka_cluster_id": "k"},
        ("GET", "/connector-plugins"): [],
        ("GET", "/connectors"): {"a": {"info": info, "status": status}},
        ("GET", "/connectors/a"): info,
        ("GET", "/connectors/a/config"): there,
        ("GET", "/connectors/a/status"): status,
        ("GET", "/connectors/a/offsets"): {"offsets": []},
    }

    async def answer(request: Request) -> Response:
        body = (await request.body()).decode()
        found = answers.get((request.method, request.url.path))
        if found is not None and request.url.path == "/connectors" and not request.url.query:
            found = ["a"]
        if found is not None:
            return JSONResponse(found)
        if request.method == "GET":
            return JSONResponse({"error_code": 404, "message": "not here"}, 404)
        said = f"no: {body}; {'; '.join(config.values())}; {json.dumps(config)}"
        return JSONResponse({"error_code": 400, "message": said}, 400)

    methods = ["GET", "POST", "PUT", "PATCH", "DELETE"]
    with serving(Starlette(routes=[Route("/{path:path}", answer, methods=methods)])) as address:
        yield address


def test_of_a_cluster_that_says_all_it_knows(watched: Watched) -> None:
    """No secret that a REST API's refusals and traces quote."""
    with careless(CONFIG) as address:
        target = f"  target: {{rest: 'http://{address}', user: u, password: '{MARK}-rest'}}\n"
        watched.project(f"  group.id: g\n{target}")
        watched.spec("a", CONFIG | {"db.password": f"{MARK}-new"})
        watched.spec("b", CONFIG)
        for words in (
            ("plan",),
            ("plan", "--json"),
            ("apply", "--yes"),
            ("apply", "--yes", "--json"),
            ("status", "--json"),
            ("drift", "--json"),
            ("doctor",),
            ("restart", "a"),
            ("restart", "--failed"),
            ("stop", "a"),
            ("delete", "a", "--yes"),
            ("offsets", "reset", "a"),
            ("import", "a", "--force"),
            ("export", "a", "--live"),
            ("plugins", "list"),
            ("plugins", "lock"),
        ):
            watched(*words)
    asked = (watched.folder / "asked.log").read_text()
    for text in ("GET http://127", "PUT http://127", ": 400 in ", '"connector.class":"FileStream'):
        assert text in asked
