"""Worker settings from Apache's properties and from connect.yaml."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from connect_runtime.settings.connector_topics import TopicSettings
from connect_runtime.settings.worker_config import (
    SMALL_SEGMENTS,
    from_project,
    from_properties,
)
from connect_specs.desired import Project
from connect_specs.diagnostics import Invalid
from connect_specs.names import ClusterTopics
from support.projects import project_of

CONVERTER = "org.apache.kafka.connect.storage.StringConverter"
APACHE = {
    "bootstrap.servers": "a:9092, b:9092",
    "group.id": "g",
    "config.storage.topic": "g-c",
    "offset.storage.topic": "g-o",
    "status.storage.topic": "g-s",
    "key.converter": CONVERTER,
    "value.converter": CONVERTER,
    "listeners": "http://127.0.0.1:0",
}


TABLE = yaml.safe_load(Path(__file__).with_name("worker_properties.yaml").read_text())


def _project(kafka: dict[str, str] | None, worker: dict[str, str] | None = None) -> Project:
    return project_of(
        name="p", kafka=kafka, worker=worker, folder=Path("/p"), specs=("connectors/",)
    )


def test_apaches_file_is_taken_as_it_is() -> None:
    config, warnings = from_properties(APACHE)
    assert warnings == []
    assert config.group_id == "g"
    assert (config.topics.config, config.topics.offsets, config.topics.status) == (
        "g-c",
        "g-o",
        "g-s",
    )
    assert (config.topics.assignments, config.topics.ledger) == ("g-assignments", "g-ledger")
    assert config.client["bootstrap.servers"] == "a:9092,b:9092"
    assert config.config_topic == TopicSettings(1, 3, SMALL_SEGMENTS)
    assert config.offset_topic == TopicSettings(25, 3, SMALL_SEGMENTS)
    assert config.status_topic == TopicSettings(5, 3, SMALL_SEGMENTS)
    assert config.properties["offset.flush.interval.ms"] == "60000"
    assert config.graceful_timeout_ms == 5_000
    assert config.reach_s == 60
    assert (config.master, config.slots) == (f"local[{config.slots}]", config.slots)
    assert 64 <= (config.slots or 0) <= 1000
    assert config.url(1234) == "http://127.0.0.1:1234"


def test_properties_of_other_parts_are_passed_on() -> None:
    config, warnings = from_properties(
        {
            **APACHE,
            "security.protocol": "SASL_SSL",
            "sasl.jaas.config": "secret",
            "consumer.max.poll.records": "5",
            "key.converter.schemas.enable": "false",
            "offset.storage.segment.bytes": "100",
            "offset.storage.partitions": "3",
            "spark.master": "local[2]",
            "spark.driver.memory": "2g",
        }
    )
    assert warnings == []
    assert config.client["security.protocol"] == "SASL_SSL"
    assert config.client["sasl.jaas.config"] == "secret"
    assert "consumer.max.poll.records" not in config.client
    assert config.properties["consumer.max.poll.records"] == "5"
    assert config.properties["key.converter.schemas.enable"] == "false"
    assert config.offset_topic == TopicSettings(3, 3, {"segment.bytes": "100"})
    assert (config.master, config.spark) == ("local[2]", {"spark.driver.memory": "2g"})
    assert config.with_slots(7).master == "local[7]"
    assert config.with_slots(7).slots == 7
    assert replace(config, master="spark://host:7077").slots is None


def test_tasks_get_the_defaults_that_they_read() -> None:
    config, _ = from_properties(APACHE)
    assert config.properties["offset.flush.interval.ms"] == "60000"


@pytest.mark.parametrize("standalone", [False, True])
def test_addresses_of_kafka_must_be_given(standalone: bool) -> None:
    given = {key: value for key, value in APACHE.items() if key != "bootstrap.servers"}
    if standalone:
        given["offset.storage.file.filename"] = "/tmp/offsets"
    with pytest.raises(Invalid, match=r"Missing required configuration .bootstrap\.servers. which"):
        from_properties(given, standalone=standalone)
    with pytest.raises(Invalid, match="values must not be empty"):
        from_properties({**given, "bootstrap.servers": "a:1,"}, standalone=standalone)


def test_lists_of_a_worker_lose_their_duplicates() -> None:
    given = {"bootstrap.servers": "a:1,a:1", "config.providers": "env,env"}
    providers = {"config.providers.env.class": "EnvVarConfigProvider"}
    config, _ = from_properties({**APACHE, **given, **providers})
    assert config.client["bootstrap.servers"] in ("a:1", "a:1,a:1")


@pytest.mark.parametrize(("given", "key", "text"), TABLE["refused"])
def test_properties_that_cannot_be_used_are_refused_by_their_key(
    given: dict[str, str], key: str, text: str
) -> None:
    with pytest.raises(Invalid) as refused:
        from_properties({**APACHE, **given})
    (problem,) = refused.value.diagnostics
    assert (problem.code, problem.where) == ("worker.invalid", key)
    assert text in problem.what


@pytest.mark.parametrize(("given", "text"), TABLE["warning"])
def test_a_property_without_effect_is_warned_of(given: dict[str, str], text: str) -> None:
    (warning,) = from_properties({**APACHE, **given})[1]
    assert warning.startswith(text)


@pytest.mark.parametrize("given", TABLE["taken"], ids=str)
def test_properties_that_are_taken_have_no_warning(given: dict[str, str]) -> None:
    assert from_properties({**APACHE, **given})[1] == []


def test_all_errors_are_reported_at_once() -> None:
    with pytest.raises(Invalid) as raised:
        from_properties(
            {
                "offset.flush.interval.ms": "soon",
                "status.storage.partitions": "0",
                "config.storage.topic": "no/slash",
                "listeners": "ftp://x:1",
            }
        )
    wrong = {str(problem.where) for problem in raised.value.diagnostics}
    assert wrong == {
        "bootstrap.servers",
        "config.storage.topic",
        "group.id",
        "key.converter",
        "listeners",
        "offset.flush.interval.ms",
        "offset.storage.topic",
        "status.storage.partitions",
        "status.storage.topic",
        "value.converter",
    }


def test_a_warning_never_shows_a_value() -> None:
    _, warnings = from_properties({**APACHE, "ssl.keystore.pasword": "hunter2", "x": "hunter2"})
    assert warnings
    assert "hunter2" not in " ".join(warnings)


def test_without_listeners_only_this_machine_can_reach_it() -> None:
    given = {key: value for key, value in APACHE.items() if key != "listeners"}
    config, warnings = from_properties(given)
    assert (config.listener.host, config.listener.port) == ("127.0.0.1", 8083)
    assert "every interface" in warnings[0]


def test_listeners_and_what_is_advertised() -> None:
    listeners = {**APACHE, "listeners": "HTTPS://a:80, HTTP://:81,http://b:82"}
    config, warnings = from_properties({**listeners, "rest.advertised.host.name": "me"})
    assert [(each.scheme, each.host, each.port) for each in config.listeners] == [
        ("https", "a", 80),
        ("http", "0.0.0.0", 81),
        ("http", "b", 82),
    ]
    assert config.listener is config.listeners[1]
    assert (config.url(81), warnings) == ("http://me:81", [])
    config, _ = from_properties({**listeners, "rest.advertised.listener": "HTTPS"})
    assert (config.listener, config.url(80)) == (config.listeners[0], "https://a:80")
    config, _ = from_properties({**APACHE, "listeners": "https://a:80"})
    assert config.url(80) == "https://a:80"
    config, _ = from_properties(
        {**APACHE, "rest.advertised.port": "99", "listeners": "http://[::1]:1"}
    )
    assert config.url(1) == "http://[::1]:99"
    empty = {"rest.advertised.listener": "", "rest.advertised.host.name": ""}
    assert from_properties(APACHE | empty)[0].url(80) == "http://127.0.0.1:80"


def test_standalone_needs_no_group_and_no_topics() -> None:
    given = {
        "bootstrap.servers": "a:9092",
        "key.converter": CONVERTER,
        "value.converter": CONVERTER,
        "listeners": "http://127.0.0.1:0",
        "offset.storage.file.filename": "/tmp/x",
    }
    config, warnings = from_properties(given, standalone=True)
    assert config.topics == ClusterTopics.of("connect-standalone")
    assert config.offset_file == Path("/tmp/x")
    assert config.properties["exactly.once.source.support"] == "disabled"
    assert warnings == []
    with pytest.raises(Invalid):
        from_properties(given)


def test_standalone_warns_about_settings_of_clusters() -> None:
    config, warnings = from_properties(
        {**APACHE, "offset.storage.file.filename": "/tmp/x", "spark.master": "local[3]"}
        | {"exactly.once.source.support": "enabled", "offset.storage.partitions": "no number"},
        standalone=True,
    )
    assert config.group_id == "connect-standalone"
    of_clusters = ("exactly.once.source.support", "group.id", "offset.storage.partitions")
    for key in of_clusters:
        assert f"{key} has no effect in standalone mode" in warnings
    assert not [warning for warning in warnings if "file.filename" in warning]


def test_the_offset_file_is_no_property_of_a_cluster() -> None:
    """A JVM of Java plugins that gets it answers as a standalone worker."""
    config, warnings = from_properties({**APACHE, "offset.storage.file.filename": "o"})
    assert "offset.storage.file.filename" not in config.properties
    assert any("offset.storage.file.filename" in warning for warning in warnings)


def test_standalone_needs_a_file_and_this_machine() -> None:
    with pytest.raises(Invalid) as caught:
        from_properties({**APACHE, "spark.master": "spark://host:7077"}, standalone=True)
    assert [each.where for each in caught.value.diagnostics] == [
        "offset.storage.file.filename",
        "spark.master",
    ]


def test_a_port_with_thousands_of_digits_is_no_port() -> None:
    with pytest.raises(Invalid, match=r"Invalid port in bootstrap\.servers: a:1+$"):
        from_properties({**APACHE, "bootstrap.servers": f"a:{'1' * 5000}"})


def test_a_project_on_the_embedded_broker() -> None:
    config, warnings = from_project(_project(None), "127.0.0.1:1")
    assert warnings == []
    assert config.topics == ClusterTopics.of("g")
    assert config.config_topic == TopicSettings(1, -1, SMALL_SEGMENTS)
    assert config.client == {"bootstrap.servers": "127.0.0.1:1"}
    assert config.properties["value.converter.schemas.enable"] == "false"
    assert config.data_folder == Path("/p/.connect")
    # `connect up` waits for a starting Kafka as a worker does
    assert config.reach_s == 60


def test_plugins_of_a_relative_path_are_where_the_runtime_runs() -> None:
    """Also on nodes of a cluster; what only a provider knows is resolved there."""
    for path, there in (("a,../b", f"{Path.cwd()}/a,{Path.cwd()}/../b"), ("${env:X}", "${env:X}")):
        config, _ = from_project(_project(None, {"plugin.path": path}), "a:1", resolve=False)
        assert config.properties["plugin.path"] == there


def test_installed_plugins_are_behind_those_of_plugin_path(tmp_path: Path) -> None:
    project = replace(_project(None, {"plugin.path": "/opt/a,/opt/b"}), file=tmp_path / "c.yaml")
    config, _ = from_project(project, "127.0.0.1:1")
    assert config.properties["plugin.path"] == "/opt/a,/opt/b"
    project.plugins.mkdir(parents=True)
    config, _ = from_project(project, "127.0.0.1:1")
    assert config.properties["plugin.path"] == f"/opt/a,/opt/b,{project.plugins}"
    config, _ = from_project(replace(project, worker={}), "127.0.0.1:1")
    assert config.properties["plugin.path"] == str(project.plugins)


def test_a_projects_kafka_is_for_every_client() -> None:
    kafka = {"bootstrap.servers": "b:1", "security.protocol": "SSL"}
    config, _ = from_project(_project(kafka, {"consumer.security.protocol": "PLAINTEXT"}), None)
    assert config.client["security.protocol"] == "SSL"
    assert config.properties["producer.security.protocol"] == "SSL"
    assert config.properties["consumer.security.protocol"] == "PLAINTEXT"
    assert "producer.bootstrap.servers" not in config.properties


def test_a_projects_worker_properties_win() -> None:
    worker = {"value.converter": CONVERTER, "offset.storage.replication.factor": "2", "bogus": "1"}
    config, warnings = from_project(_project(None, worker), "127.0.0.1:1")
    assert config.converters["value.converter"] == CONVERTER
    assert "value.converter.schemas.enable" not in config.properties
    assert config.offset_topic.replication_factor == 2
    assert [warning.split()[0] for warning in warnings] == ["bogus"]


def test_a_project_without_kafka_cannot_run() -> None:
    with pytest.raises(Invalid):
        from_project(_project(None), None)


ENV = {"config.providers": "env", "config.providers.env.class": "EnvVarConfigProvider"}


def test_references_are_resolved_for_this_process_and_kept_for_tasks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in (("KAFKA", "k:1"), ("GROUP", "mine"), ("PASSWORD", "s3cret")):
        monkeypatch.setenv(f"CONNECT_TEST_{name}", value)
    given = {
        **APACHE,
        **ENV,
        "bootstrap.servers": "${env:CONNECT_TEST_KAFKA}",
        "group.id": "${env:CONNECT_TEST_GROUP}",
        "ssl.key.password": "${env:CONNECT_TEST_PASSWORD}",
    }
    config, warnings = from_properties(given)
    assert warnings == []
    assert config.group_id == "mine"
    assert config.topics.assignments == "mine-assignments"
    assert config.client["bootstrap.servers"] == "k:1"
    assert config.client["ssl.key.password"] == "s3cret"
    assert {key: config.properties[key] for key in given} == given
    assert "s3cret" not in repr(config).replace(repr(config.client), "")
    assert config.resolved_properties["ssl.key.password"] == "s3cret"


def test_a_reference_that_cannot_be_resolved_and_a_value_in_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CONNECT_TEST_PASSWORD", "s3cret")
    with pytest.raises(Invalid) as raised:
        from_properties({**APACHE, **ENV, "ssl.key.password": "${env:CONNECT_TEST_NONE}"})
    assert [str(each.where) for each in raised.value.diagnostics] == ["ssl.key.password"]
    assert "has no CONNECT_TEST_NONE" in str(raised.value)
    with pytest.raises(Invalid) as raised:
        from_properties({**APACHE, **ENV, "rest.advertised.port": "${env:CONNECT_TEST_PASSWORD}"})
    assert "Invalid value [hidden] for configuration rest.advertised.port" in str(raised.value)
    with pytest.raises(Invalid, match="Class Bogus could not be found"):
        from_properties({**APACHE, **ENV, "config.providers.env.class": "Bogus"})


def test_the_leader_and_its_tasks_agree_on_exactly_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONNECT_TEST_EXACTLY_ONCE", "disabled")
    key = "exactly.once.source.support"
    config, _ = from_properties({**APACHE, **ENV, key: "${env:CONNECT_TEST_EXACTLY_ONCE}"})
    assert config.properties[key] == config.resolved_properties[key] == "disabled"


def test_a_process_that_is_not_the_worker_checks_no_references() -> None:
    worker = {
        **ENV,
        "listeners": "http://127.0.0.1:${env:CONNECT_TEST_NONE}",
        "key.converter": "${vault:any:thing}",
        "offset.flush.interval.ms": "${env:CONNECT_TEST_NONE}",
    }
    config, _ = from_project(_project(None, worker), "127.0.0.1:1", resolve=False)
    assert config.listener.port == 8083
    assert config.resolved_properties["offset.flush.interval.ms"] == "60000"
    assert config.properties["key.converter"] == "${vault:any:thing}"
    with pytest.raises(Invalid, match="has no CONNECT_TEST_NONE"):
        from_project(_project(None, worker), "127.0.0.1:1")
