"""connect.yaml: finding it, and what each field may say. Its mistakes are also in cases/."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect_specs.desired import DeleteLimits, Project, RestTarget
from connect_specs.diagnostics import Invalid, Location
from connect_specs.names import ClusterTopics
from connect_specs.project import find_project, load_project

MINIMAL = "project: p\ncluster: {group.id: g}\n"


def load(folder: Path, text: str) -> Project:
    file = folder / "connect.yaml"
    file.write_text(text)
    return load_project(file)


def codes(folder: Path, text: str) -> list[str]:
    with pytest.raises(Invalid) as caught:
        load(folder, text)
    return [found.code for found in caught.value.diagnostics]


def test_find_project(tmp_path: Path) -> None:
    file = tmp_path.resolve() / "connect.yaml"
    file.write_text(MINIMAL)
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    (tmp_path / "a" / "connect.yaml").mkdir()
    assert find_project(tmp_path) == find_project(deep) == find_project(file) == file


def test_no_project_above(tmp_path: Path) -> None:
    with pytest.raises(Invalid) as caught:
        find_project(tmp_path)
    (problem,) = caught.value.diagnostics
    assert problem.code == "project.not-found"
    assert "connect init" in problem.hint


def test_defaults(tmp_path: Path) -> None:
    assert load(tmp_path, MINIMAL) == Project(
        name="p",
        file=tmp_path.resolve() / "connect.yaml",
        group_id="g",
        topics=ClusterTopics.of("g"),
        kafka=None,
        target=None,
        worker={},
        specs=("connectors/",),
        cluster_locations={"group.id": Location("connect.yaml", 2, 11)},
    )


def test_everything_given(tmp_path: Path) -> None:
    project = load(
        tmp_path,
        """
project: p
cluster:
  group.id: 007
  kafka:
    bootstrap.servers: [a:9092, b:9092]
    sasl.jaas.config: x required;
  target: {rest: "http://localhost:8083/"}
  topics: {ledger: elsewhere}
  worker: {listeners: "http://:8083", errors.x: on}
specs: [a, "b/*.yaml"]
""",
    )
    assert project.group_id == "007"
    assert project.kafka == {
        "bootstrap.servers": "a:9092,b:9092",
        "sasl.jaas.config": "x required;",
    }
    assert project.target == RestTarget("http://localhost:8083")
    assert project.topics == ClusterTopics.of("007", {"ledger": "elsewhere"})
    assert project.worker == {"listeners": "http://:8083", "errors.x": "on"}
    assert project.specs == ("a", "b/*.yaml")
    places = {entry: str(where) for entry, where in project.specs_locations.items()}
    assert places == {"a": "connect.yaml:11:9", "b/*.yaml": "connect.yaml:11:12"}


def test_unknown_keys_are_warnings_unless_connect_yaml_makes_them_errors(tmp_path: Path) -> None:
    assert load(tmp_path, MINIMAL).unknown_keys == "warning"
    strict = load(tmp_path, MINIMAL + "validate: {unknown_keys: error}\n")
    assert strict.unknown_keys == "error"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{unknown_keys: fatal}", "project.bad-value"),
        ("{unknown_keys: }", "project.bad-value"),
        ("error", "project.bad-value"),
        ("{unknown_key: error}", "project.unknown-field"),
    ],
)
def test_mistakes_in_validate(tmp_path: Path, text: str, code: str) -> None:
    assert codes(tmp_path, f"{MINIMAL}validate: {text}\n") == [code]


def test_max_deletes(tmp_path: Path) -> None:
    found = load(tmp_path, MINIMAL + "max_deletes: 3\n").deletes
    assert found == DeleteLimits(3, allow_empty=False, where=Location("connect.yaml", 3, 14))


@pytest.mark.parametrize("text", ["-1", "'3'", "1.5", "true", "", "[3]", "{}", "9" * 5000])
def test_max_deletes_is_a_whole_number(tmp_path: Path, text: str) -> None:
    assert codes(tmp_path, f"{MINIMAL}max_deletes: {text}\n") == ["project.bad-value"]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("runtime", None),
        ("{rest: https://c.example.com}", RestTarget("https://c.example.com")),
        ("\n    rest: https://c.example.com/x/", RestTarget("https://c.example.com/x")),
        ('"rest: http://h:8083"', RestTarget("http://h:8083")),
        ("rest:http://[::1]:8083", RestTarget("http://[::1]:8083")),
    ],
)
def test_target(tmp_path: Path, target: str, expected: RestTarget | None) -> None:
    assert load(tmp_path, with_target(target)).target == expected


def with_target(target: str) -> str:
    return f"project: p\ncluster:\n  group.id: g\n  target: {target}\n"


@pytest.mark.parametrize(
    "target",
    [
        *("Runtime", "", "[]", "https://h", "'rest:'", "rest:h"),
        *("{rest: h:8083}", "{rest: ftp://h}", "{rest: 'http://'}", "{rest: 'http://h h'}"),
        *("{rest: 'http://h?x=1'}", "{rest: 'http://h/#x'}", "{rest: 'http://h:99999'}"),
        *("{rest: }", "{rest: {}}"),
    ],
)
def test_bad_target(tmp_path: Path, target: str) -> None:
    assert codes(tmp_path, with_target(target)) == ["project.bad-target"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ["project.not-a-map"]),
        ("- a\n", ["project.not-a-map"]),
        (f"{MINIMAL}---\n{MINIMAL}", ["project.not-a-map"]),
        ("a: [\n", ["file.syntax"]),
        ("{}\n", ["project.missing-field", "project.missing-field"]),
        ("project: p\ncluster: x\n", ["project.bad-value"]),
        ("project: \ncluster: {group.id: }\n", ["project.bad-value", "project.bad-value"]),
        (f"{MINIMAL}specs: []\n", ["project.empty-specs"]),
        (f"{MINIMAL}specs: [a, ~]\n", ["project.bad-value"]),
        (f"{MINIMAL}specs:\n", ["project.bad-value"]),
        (f"{MINIMAL}project: q\n", ["file.duplicate-key"]),
    ],
)
def test_mistakes(tmp_path: Path, text: str, expected: list[str]) -> None:
    assert codes(tmp_path, text) == expected


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("kafka: embeded", ["project.bad-kafka"]),
        ("kafka: [a:9092]", ["project.bad-kafka"]),
        ("kafka: {}", ["project.bad-kafka"]),
        ("kafka: {bootstrap.servers: ''}", ["project.bad-kafka"]),
        ("kafka: {bootstrap.servers: }", ["config.null"]),
        ("kafka: embedded\n  target: {rest: http://h}", ["project.embedded-rest"]),
        ("kafka: {embedded: {}}\n  target: {rest: http://h}", ["project.embedded-rest"]),
        ("kafka: {embedded: {authentication: yes}}", ["project.bad-kafka"]),
        ("topics: [a]", ["project.bad-value"]),
        ("topics: {config: }", ["project.bad-value"]),
        ("topics: {config: ..}", ["project.bad-topic"]),
        (f"topics: {{config: {'x' * 250}}}", ["project.bad-topic"]),
        ("topics: {config: g-ledger}", ["project.same-topic"]),
        ("worker: {config.storage.topic: x}", ["project.worker-key"]),
    ],
)
def test_cluster_mistakes(tmp_path: Path, field: str, expected: list[str]) -> None:
    assert codes(tmp_path, f"project: p\ncluster:\n  group.id: g\n  {field}\n") == expected


def test_a_group_that_gives_no_topic_names(tmp_path: Path) -> None:
    found = codes(tmp_path, "project: p\ncluster: {group.id: a b}\n")
    assert found == ["project.bad-topic"] * 5


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(Invalid) as caught:
        load_project(tmp_path / "connect.yaml")
    assert [found.code for found in caught.value.diagnostics] == ["file.unreadable"]


@pytest.mark.parametrize(
    ("kafka", "authentication"),
    [
        ("embedded", False),
        ("{embedded: {}}", False),
        ("{embedded: {authentication: none}}", False),
        ("{embedded: {authentication: sasl}}", True),
    ],
)
def test_the_embedded_broker_asks_for_a_login_if_told_to(
    tmp_path: Path, kafka: str, authentication: bool
) -> None:
    file = tmp_path / "connect.yaml"
    file.write_text(f"project: p\ncluster: {{group.id: g, kafka: {kafka}}}\n")
    project = load_project(file)
    assert (project.kafka, project.embedded_authentication) == (None, authentication)
