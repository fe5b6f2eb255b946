"""What is said about configs that are to be written: by whom, where, and without secrets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import orjson
import pytest

from connect_reconciler.backend import open_backend
from connect_reconciler.backend.plugins import RestPlugins
from connect_reconciler.backend.rest.client import RestClient
from connect_reconciler.backend.rest.refusals import Retries
from connect_reconciler.backend.rest_only import RestOnlyBackend
from connect_reconciler.backend.runtime import RuntimeBackend
from connect_reconciler.model.live import Live, LiveConnector
from connect_reconciler.validation.configs import check_specs, checked
from connect_reconciler.validation.judges import ask_cluster
from connect_specs.desired import Desired, Project, RestTarget, TargetState
from connect_specs.diagnostics import Diagnostic, Invalid, Location, by_severity
from connect_specs.plugin_definitions import KeyDefinition, PluginDefinition, PluginSet
from connect_specs.plugins_lock import (
    PLUGINS_LOCK,
    LockedArtifact,
    LockedPlugin,
    PluginOrigin,
    lock_text,
)
from support.projects import project_of
from support.spec_files import load_connectors

TARGET = RestTarget("http://connect.test")
SPEC = """\
name: a
config:
  connector.class: com.example.OrdersSink
  topics: orders
  tasks.max: many
  conection.pin: s3cret-pin
  connection.pin: s3cret-pin
"""
KEYS = {
    key: KeyDefinition(key, kind, required)
    for key, kind, required in (
        ("name", "STRING", True),
        ("connector.class", "STRING", True),
        ("topics", "LIST", False),
        ("tasks.max", "INT", False),
        ("connection.pin", "PASSWORD", False),
        ("connection.host", "STRING", True),
    )
}
PLUGIN = PluginDefinition("com.example.OrdersSink", "sink", "1.0", KEYS)
NO_INT = "a: Invalid value many for configuration tasks.max: Not a number of type INT"
NO_HOST = 'a: Missing required configuration "connection.host" which has no default value.'


def project(folder: Path, target: RestTarget | None = TARGET) -> Project:
    return project_of(
        name="p", kafka={"bootstrap.servers": "127.0.0.1:1"}, target=target, folder=folder
    )


def desired(folder: Path, text: str = SPEC) -> Desired:
    file = folder / "a.yaml"
    file.write_text(text)
    return Desired("p", load_connectors([file], folder))


def lock(folder: Path, *plugins: PluginDefinition) -> None:
    (folder / PLUGINS_LOCK).write_text(lock_text(PluginSet(plugins)))


def said(found: tuple[Diagnostic, ...], code: str = "config.refused") -> list[tuple[str, str]]:
    return [(str(each.where), each.what) for each in found if each.code == code]


class Worker:
    """A Connect worker's plugin resources. `problems` by key; None: it does not answer."""

    def __init__(self, problems: Mapping[str, list[str]] | None, **more: Any) -> None:
        self.problems = problems
        self.more = more
        self.asked: list[dict[str, str]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if self.problems is None:
            raise httpx.ReadTimeout("too long")
        if request.method == "GET":
            return httpx.Response(404, json={"error_code": 404, "message": "Unknown plugin"})
        config = orjson.loads(request.content)
        self.asked.append(config)
        if "status" in self.more:
            body = {"error_code": self.more["status"], "message": self.more["message"]}
            return httpx.Response(self.more["status"], json=body, headers=self.more.get("headers"))
        body = {"configs": [self._info(key, config) for key in KEYS]}
        return httpx.Response(200, json=body, headers=self.more.get("headers"))

    def _info(self, key: str, config: Mapping[str, str]) -> dict[str, Any]:
        definition = {
            "name": key,
            "type": KEYS[key].type,
            "required": KEYS[key].required,
            "default_value": None,
            "importance": "LOW",
            "dependents": [],
        }
        value = self.more.get("values", {}).get(key, config.get(key))
        errors = (self.problems or {}).get(key, [])
        recommended = self.more.get("recommended", {}).get(key, [])
        shown = {
            "name": key,
            "value": value,
            "errors": errors,
            "recommended_values": recommended,
            "visible": True,
        }
        return {"definition": definition, "value": shown}


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Puts a worker where the cluster's REST API is looked for."""

    def put(worker: Worker) -> Worker:
        def client(*_: object) -> RestClient:
            transport = httpx.MockTransport(worker)
            return RestClient(TARGET, retries=Retries(0, 0), transport=transport)

        for kind in (RuntimeBackend, RestOnlyBackend):
            monkeypatch.setattr(kind, "rest", client)
        return worker

    return put


def test_the_cluster_is_asked_and_its_word_counts(tmp_path: Path, answered: Any) -> None:
    lock(tmp_path, PLUGIN)
    worker = answered(
        Worker(
            {"tasks.max": ["Not s3cret-pin but a number"], "connection.host": ["No host"]},
            recommended={"tasks.max": ["1", "2"]},
        )
    )
    specs = desired(tmp_path)
    live = checked(Live(), specs, open_backend(project(tmp_path), {}))
    assert said(live.errors) == [
        ("a.yaml:3:3", "a: No host"),
        ("a.yaml:5:3", "a: Not (hidden) but a number"),
    ]
    assert live.errors[1].hint == "recommended: 1, 2"
    assert said(live.warnings, "config.unknown-key") == [
        ("a.yaml:6:3", "a: com.example.OrdersSink defines no key conection.pin")
    ]
    assert worker.asked == [specs.connectors["a"].config]
    assert worker.asked[0]["name"] == "a"
    assert live.password_keys == {"a": {"connection.pin"}}


def test_without_an_answer_the_lock_is_asked(tmp_path: Path, answered: Any) -> None:
    lock(tmp_path, PLUGIN)
    answered(Worker(None))
    live = checked(Live(), desired(tmp_path), open_backend(project(tmp_path), {}))
    assert said(live.errors) == [("a.yaml:3:3", NO_HOST), ("a.yaml:5:3", NO_INT)]
    (warning,) = [each for each in live.warnings if each.code == "config.not-validated"]
    assert warning.what == "not validated by the cluster: a"
    assert "no answer came" in warning.why


def test_a_cluster_that_is_not_there_is_no_failure(tmp_path: Path) -> None:
    nobody = project(tmp_path, RestTarget("http://127.0.0.1:1"))
    live = checked(Live(), desired(tmp_path), open_backend(nobody, {}))
    assert [each.what for each in live.errors] == [NO_INT]
    codes = {each.code for each in live.warnings}
    assert codes == {"config.not-validated", "config.unknown-class"}


def test_a_class_that_the_cluster_does_not_have(tmp_path: Path, answered: Any) -> None:
    message = (
        "Failed to find any class that implements Connector and which name matches X, available "
        "connectors are: s3cret-pin"
    )
    answered(Worker({}, status=500, message=message))
    live = checked(Live(), desired(tmp_path), open_backend(project(tmp_path), {}))
    what = "a: the cluster has no connector class com.example.OrdersSink"
    assert said(live.errors) == [("a.yaml:3:3", what)]


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("no-such-class", "the cluster has no connector class com.example.OrdersSink"),
        (
            "unlisted-module",
            "the cluster's workers do not list the module of com.example.OrdersSink in"
            " plugin.modules; they read it when they start",
        ),
        (
            "plugin-failed",
            "com.example.OrdersSink fails when its config is validated: another text",
        ),
    ],
)
def test_the_code_of_our_runtime_says_what_is_wrong_with_the_class(
    tmp_path: Path, answered: Any, code: str, what: str
) -> None:
    headers = {"Connect-Refusal": code}
    answered(Worker({}, status=500, message="another text", headers=headers))
    live = checked(Live(), desired(tmp_path), open_backend(project(tmp_path), {}))
    assert said(live.errors) == [("a.yaml:3:3", f"a: {what}")]


def test_an_error_of_the_validation_itself_tells_nothing_of_the_config(
    tmp_path: Path, answered: Any
) -> None:
    answered(Worker({}, status=500, message="cannot log in with s3cret-pin"))
    live = checked(Live(), desired(tmp_path), open_backend(project(tmp_path), {}))
    (warning,) = [each for each in live.warnings if each.code == "config.not-validated"]
    assert warning.why == "its validation ended with status 500"


def test_what_a_reference_stands_for_is_neither_judged_nor_shown(
    tmp_path: Path, answered: Any
) -> None:
    """An unresolved reference is not checkable here; one that the worker resolved is hidden."""
    text = SPEC.replace("many", "${env:TASKS}").replace(
        "  topics: orders", "  topics: orders\n  connection.host: ${file:/run/secrets:host}"
    )
    answered(
        Worker(
            {
                "tasks.max": ["Invalid value resolved-tasks for configuration tasks.max"],
                "topics": ["cannot reach resolved-host"],
                "connection.pin": ["wrong at ${file:/run/secrets:host}"],
            },
            values={"connection.host": "resolved-host"},
        )
    )
    live = checked(Live(), desired(tmp_path, text), open_backend(project(tmp_path), {}))
    assert said(live.errors) == [("a.yaml:4:3", "a: cannot reach (hidden)")]
    (note,) = [each for each in live.warnings if each.code == "config.not-checkable"]
    assert note.what.endswith("not checked: a (connection.host, tasks.max)")
    assert "resolved-" not in repr(live)


def test_what_our_own_leader_says_of_references_counts(tmp_path: Path, answered: Any) -> None:
    """It runs the connector: what it cannot resolve could not run."""
    what = "The reference ${env:TASKS} in tasks.max cannot be resolved: the config provider env has"
    answered(Worker({"tasks.max": [what]}))
    text = SPEC.replace("many", "${env:TASKS}")
    live = checked(Live(), desired(tmp_path, text), open_backend(project(tmp_path, None), {}))
    assert said(live.errors) == [("a.yaml:5:3", f"a: {what}")]
    assert said(live.warnings, "config.not-checkable") == []


def test_without_a_runtime_references_are_not_checked(tmp_path: Path) -> None:
    text = SPEC.replace("many", "${env:TASKS}").replace("com.example.OrdersSink", "FileStreamSink")
    ours = replace(
        project(tmp_path, None),
        worker={"config.providers": "env", "config.providers.env.class": "EnvVar"},
    )
    errors, warnings = by_severity(check_specs(ours, desired(tmp_path, text)))
    assert said(errors) == []
    (note,) = said(warnings, "config.not-checkable")
    assert note[1].endswith("not checked: a (tasks.max)")
    assert said(warnings, "config.without-effect") == []
    _, warnings = by_severity(check_specs(project(tmp_path, None), desired(tmp_path, text)))
    assert [what for _, what in said(warnings, "config.without-effect")] == [
        "a: tasks.max refers to a config provider env that the worker's config.providers does not "
        "name: its text is passed on as it is"
    ]


def test_only_what_is_to_be_written_is_asked_about(tmp_path: Path, answered: Any) -> None:
    worker = answered(Worker({"tasks.max": ["wrong"]}))
    specs = desired(tmp_path)
    config = specs.connectors["a"].config
    there = LiveConnector("a", "sink", config, TargetState.RUNNING)
    live = Live(connectors={"a": there})
    assert checked(live, specs, open_backend(project(tmp_path), {})) == live
    assert worker.asked == []
    changed = replace(there, config={**config, "topics": "refunds"})
    found = checked(Live(connectors={"a": changed}), specs, open_backend(project(tmp_path), {}))
    assert said(found.errors) == [("a.yaml:5:3", "a: wrong")]


def test_one_silence_is_enough_and_named_once() -> None:
    def unreachable(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    client = RestClient(TARGET, retries=Retries(0, 0), transport=httpx.MockTransport(unreachable))
    configs = {f"c{number}": {"connector.class": "X"} for number in range(20)}
    answers = ask_cluster(RestPlugins(client), configs)
    (warning,) = answers.warnings()
    assert warning.what == "not validated by the cluster: c0, c1, c2, c3, c4 and 15 more"


def test_time_runs_out() -> None:
    ticks = iter(range(0, 10_000, 29))
    client = RestClient(TARGET, transport=httpx.MockTransport(Worker({})))
    configs = {name: {"connector.class": "X"} for name in "abc"}
    answers = ask_cluster(RestPlugins(client), configs, clock=lambda: float(next(ticks)))
    assert len(answers.validations) == 1
    assert set(answers.silences.values()) == {"its validation did not end within 30 s"}


OURS = """\
name: a
config:
  connector.class: FileStreamSource
  topic: lines
  fil: in.txt
  tasks.max: hunter2
sensitive: [tasks.max]
"""


def test_our_own_rules_where_no_runtime_is_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RuntimeBackend, "rest", lambda _: None)
    live = checked(Live(), desired(tmp_path, OURS), open_backend(project(tmp_path, None), {}))
    text = "a: Invalid value (hidden) for configuration tasks.max: Not a number of type INT"
    assert said(live.errors) == [("a.yaml:6:3", text)]
    (slip,) = [each for each in live.warnings if each.code == "config.unknown-key"]
    assert (str(slip.where), slip.hint) == ("a.yaml:5:3", "did you mean file?")


def test_specs_alone_are_checked_by_the_lock(tmp_path: Path) -> None:
    lock(tmp_path, PLUGIN)
    errors, warnings = by_severity(check_specs(project(tmp_path), desired(tmp_path)))
    assert said(errors) == [("a.yaml:3:3", NO_HOST), ("a.yaml:5:3", NO_INT)]
    assert said(warnings, "config.unknown-key")[0][0] == "a.yaml:6:3"
    assert "s3cret" not in repr((errors, warnings))


def test_a_lock_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / PLUGINS_LOCK).write_text("{")
    with pytest.raises(Invalid) as error:
        check_specs(project(tmp_path), desired(tmp_path))
    assert error.value.diagnostics[0].where == Location(PLUGINS_LOCK, 1, 2)


LIST = "`connect plugins list` shows all classes"
LOCK = "run `connect plugins lock`"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        (
            "OrderSink",
            f"did you mean OrdersSink? {LIST}; else {LOCK}",
        ),
        (
            "orderssink",
            f"did you mean OrdersSink? {LIST}; else {LOCK}",
        ),
        (
            "com.exmaple.OrdersSink",
            f"did you mean com.example.OrdersSink? {LIST}; else {LOCK}",
        ),
        (
            "org.acme.sinks.OrderSink",
            f"did you mean com.example.OrdersSink? {LIST}; else {LOCK}",
        ),
        (
            "FileStreamSnk",
            f"did you mean FileStreamSink? {LIST}; else {LOCK}",
        ),
        (
            "com.acme.Kinesis",
            f"{LOCK}; {LIST}",
        ),
    ],
)
def test_an_unknown_class_has_its_nearest_name(tmp_path: Path, name: str, meant: str) -> None:
    lock(tmp_path, PLUGIN)
    specs = desired(tmp_path, SPEC.replace("com.example.OrdersSink", name).replace("many", "1"))
    errors, _ = by_severity(check_specs(project(tmp_path), specs))
    assert [(each.code, each.hint) for each in errors] == [("config.unknown-class", meant)]


def test_each_spec_whose_class_the_lock_lacks_is_an_error(tmp_path: Path) -> None:
    lock(tmp_path, PLUGIN)
    spec = "name: {}\nconfig: {{connector.class: com.example.OrderSink, topics: t}}\n"
    specs = desired(tmp_path, "---\n".join(map(spec.format, "ab")))
    errors, warnings = by_severity(check_specs(project(tmp_path), specs))
    assert [(each.code, str(each.where)) for each in errors] == [
        ("config.unknown-class", "a.yaml:2:10"),
        ("config.unknown-class", "a.yaml:5:10"),
    ]
    assert all("plugins.lock.json has no class" in each.what for each in errors)
    assert not warnings
    (tmp_path / PLUGINS_LOCK).unlink()
    errors, warnings = by_severity(check_specs(project(tmp_path), specs))
    assert ([each.code for each in warnings], errors) == (["config.unknown-class"], ())


def test_unknown_keys_can_be_errors(tmp_path: Path) -> None:
    lock(tmp_path, PLUGIN)
    strict = replace(project(tmp_path), unknown_keys="error")
    errors, warnings = by_severity(check_specs(strict, desired(tmp_path)))
    assert "a.yaml:6:3" in [place for place, _ in said(errors, "config.unknown-key")]
    assert not said(warnings, "config.unknown-key")


def test_an_unknown_converter_has_its_nearest_name(tmp_path: Path) -> None:
    spec = "name: a\nconfig: {connector.class: FileStreamSource, topic: t, file: f, "
    specs = desired(tmp_path, f"{spec}key.converter: StringConvertor}}\n")
    errors, _ = by_severity(check_specs(project(tmp_path, None), specs))
    assert [each.hint for each in errors] == [
        "did you mean StringConverter? `connect plugins list` shows all classes"
    ]


@pytest.mark.parametrize("converter", ["StringConverter", "JsonConverter", "ByteArrayConverter"])
def test_connects_own_converters_are_taken_for_a_cluster_of_others(
    tmp_path: Path, converter: str
) -> None:
    spec = "name: a\nconfig: {connector.class: FileStreamSource, topic: t, file: f, "
    specs = desired(tmp_path, f"{spec}key.converter: {converter}, value.converter: {converter}}}\n")
    assert check_specs(project(tmp_path), specs) == ()


@pytest.mark.parametrize(
    ("name", "more", "says"),
    [
        ("com.example.OrdersSink", "topics: a, tasks.max: 0", "Value must be at least 1"),
        ("com.example.OrdersSink", "topics: a, topics.regex: b", "mutually exclusive"),
        ("com.example.OrdersSink", "tasks.max: 1", "Must configure one of topics"),
        ("com.example.OrdersSink", "topics: a, errors.tolerance: some", "one of: none, all"),
        ("com.example.OrdersSink", "topics: a, transforms: 'x,x', transforms.x.type: y", "Dupl"),
        ("com.example.OrdersSink", "topics: a, transforms: x", '"transforms.x.type" which has no'),
        ("com.acme.UnheardOfSink", "tasks.max: 1", "Must configure one of topics"),
        ("com.acme.Unheard", "tasks.max: -1", "Value must be at least 1"),
        ("com.acme.Unheard", "transforms: x, transforms.x.type: org.acme.X", None),
        ("com.example.OrdersSink", "topics: '${file:/a:b}', value.converter: io.A", None),
    ],
)
def test_connects_own_rules_hold_for_classes_that_are_elsewhere(
    tmp_path: Path, name: str, more: str, says: str | None
) -> None:
    lock(tmp_path, PLUGIN)
    config = f"{{connector.class: {name}, connection.host: h, {more}}}"
    specs = desired(tmp_path, f"name: a\nconfig: {config}\n")
    found, _ = by_severity(check_specs(project(tmp_path), specs))
    errors = [each for each in found if each.code != "config.unknown-class"]
    assert len(errors) >= (says is not None)
    assert all(says is not None and says in each.what for each in errors)


def test_values_of_a_class_that_no_worker_tells_of_are_hidden(tmp_path: Path) -> None:
    nobody = project(tmp_path, RestTarget("http://127.0.0.1:1"))
    live = checked(Live(), desired(tmp_path), open_backend(nobody, {}))
    (warning,) = [each for each in live.warnings if each.code == "config.unknown-class"]
    assert "values are hidden: GET /connector-plugins" in warning.why
    assert "connect plugins lock" in warning.hint


def test_a_pin_that_was_not_applied_is_tried(tmp_path: Path) -> None:
    """Our own sources say what they take for offsets."""
    pin = "offsets: {set: [{partition: {file: /x}, offset: {position: 5}}], pin: p}\n"
    config = "{connector.class: FileStreamSource, topic: t, file: /x}"
    specs = desired(tmp_path, f"name: a\nconfig: {config}\n{pin}")
    live = checked(Live(), specs, open_backend(project(tmp_path, None), {}))
    assert [each.code for each in live.errors] == ["plan.pin-refused"]


def test_a_file_connector_that_runs_in_a_jvm_is_named_with_the_reason(
    tmp_path: Path, answered: Any
) -> None:
    lock(tmp_path, PLUGIN)
    reason = "transforms.ü.type is com.example.Unwrap, a Java class"
    answered(Worker({}, headers={"Connect-Jvm-Reason": quote(reason, " ")}))
    live = checked(Live(), desired(tmp_path), open_backend(project(tmp_path), {}))
    (warning,) = (each for each in live.warnings if each.code == "config.runs-in-jvm")
    assert (str(warning.where), warning.why) == ("a.yaml:3:3", reason)


def test_an_unknown_class_may_be_of_an_installed_plugin_whose_keys_are_not_locked(
    tmp_path: Path,
) -> None:
    artifact = LockedArtifact("io.example:orders:1.0", "0" * 64)
    plugin = LockedPlugin("orders", (PluginOrigin("io.example:orders:1.0", (artifact,)),))
    (tmp_path / PLUGINS_LOCK).write_text(lock_text(None, (plugin,)))
    found = check_specs(project(tmp_path, None), desired(tmp_path))
    (warning,) = (each for each in found if each.code == "config.unknown-class")
    assert warning.hint.startswith("`connect plugins lock` keeps the keys of installed plugins")
    assert "(orders)" in warning.hint
