"""Whether a connector runs in Python or in a JVM, and what of the other side it cannot use."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest

from connect_runtime.engine import scan
from connect_runtime.engine.catalog import JavaCatalog, JavaValidation, use_catalog
from connect_runtime.engine.scan import JavaPlugin, Scan
from connect_runtime.engine.sent_files import known_plugins
from connect_runtime.plugins import registry, sides
from connect_runtime.plugins.modules import allow_modules
from connect_runtime.rest.exchange import Call
from connect_runtime.rest.plugin_resources import PluginResources
from connect_runtime.settings.worker_config import WorkerConfig, from_properties
from connect_runtime.validation.validate import check_worker_converters, validate
from connect_specs.diagnostics import Invalid

KAFKA = "org.apache.kafka.connect"
AVRO = "io.registry.AvroConverter"
WORKER = {
    "bootstrap.servers": "localhost:1",
    "group.id": "g",
    "key.converter": f"{KAFKA}.json.JsonConverter",
    "value.converter": f"{KAFKA}.json.JsonConverter",
    "config.storage.topic": "c",
    "offset.storage.topic": "o",
    "status.storage.topic": "s",
}
SOURCE = "FileStreamSource"
FILE = f"{KAFKA}.file.FileStreamSourceConnector"
PLUGINS = (
    JavaPlugin(FILE, "source", "3.9.0", "file:/a/"),
    JavaPlugin(FILE, "source", "4.3.1", "classpath"),
    JavaPlugin("io.db.DbConnector", "source", "1.0", "file:/db-1/"),
    JavaPlugin("io.db.DbConnector", "source", "2.0", "file:/db-2/"),
    JavaPlugin("io.one.TwinConnector", "source", "1.0", "file:/one/"),
    JavaPlugin("io.two.TwinConnector", "source", "1.0", "file:/two/"),
    JavaPlugin("io.db.Unwrap", "transformation", "2.0", "file:/db-2/"),
    JavaPlugin(f"{KAFKA}.transforms.Filter", "transformation", "4.3.1", "classpath"),
    JavaPlugin(f"{KAFKA}.transforms.Filter", "transformation", "5.0", "file:/new/"),
    JavaPlugin(AVRO, "converter", "1.0", "file:/registry/"),
    JavaPlugin("io.db.StringConverter", "converter", "1.0", "file:/db-2/"),
    JavaPlugin(f"{KAFKA}.json.JsonConverter", "converter", "4.3.1", "classpath"),
    JavaPlugin("io.env.EnvConfigProvider", "configprovider", "1", "file:/env/"),
)


def plugins(*rows: JavaPlugin) -> Callable[..., Scan]:
    return lambda worker, anew: Scan(rows, ())


@pytest.fixture
def catalog(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., JavaCatalog]]:
    """Makes a catalog of a worker with these further properties the process's."""

    def make(**properties: str) -> JavaCatalog:
        monkeypatch.setattr(scan, "scan", plugins(*PLUGINS))
        catalog = JavaCatalog({**WORKER, **properties}, "ours:8083")
        assert catalog.scan()
        use_catalog(catalog)
        return catalog

    make()
    yield make
    use_catalog(None)
    registry.connector.cache_clear()


def worker(**properties: str) -> WorkerConfig:
    return from_properties({**WORKER, **properties})[0]


def test_a_class_of_java_runs_in_a_jvm_and_a_file_connector_does_not(
    catalog: Callable[..., JavaCatalog],
) -> None:
    for name in ("io.db.DbConnector", "Db", "DbConnector"):
        java = sides.java_connector({"connector.class": name})
        assert java is not None
        assert (java.plugin.version, java.reason) == ("2.0", "")
    for name in (SOURCE, FILE, "FileStreamSourceConnector", "Nothing", "FileStreamSink"):
        assert sides.java_connector({"connector.class": name}) is None
    assert sides.java_connector({}) is None


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"key.converter": AVRO}, f"key.converter is {AVRO}, a Java class"),
        (
            {"transforms": "a,b", "transforms.b.type": "io.db.Unwrap"},
            "transforms.b.type is io.db.Unwrap, a Java class",
        ),
        (
            {"connector.plugin.version": "[3.0,4.0)"},
            "connector.plugin.version=[3.0,4.0) is a version of the Java class alone",
        ),
        (
            {
                "transforms": "a",
                "transforms.a.type": f"{KAFKA}.transforms.Filter",
                "transforms.a.plugin.version": "5.0",
            },
            f"transforms.a.type is {KAFKA}.transforms.Filter, a Java class",
        ),
        ({"connector.plugin.version": "4.3.1"}, None),
        ({"connector.plugin.version": "[7.0]"}, None),
        ({"connector.plugin.version": "[7.0"}, None),
        ({"key.converter": "JsonConverter", "transforms.b.type": "io.db.Unwrap"}, None),
        ({"transforms": "a", "transforms.a.type": f"{KAFKA}.transforms.Filter"}, None),
        ({"key.converter": "${env:CONVERTER}"}, None),
    ],
)
def test_a_file_connector_runs_in_a_jvm_if_it_needs_what_only_java_has(
    catalog: Callable[..., JavaCatalog], config: Mapping[str, str], reason: str | None
) -> None:
    java = sides.java_connector({"connector.class": SOURCE, **config})
    assert (None if java is None else java.reason) == reason


def test_the_workers_file_may_need_java_for_all_file_connectors(
    catalog: Callable[..., JavaCatalog],
) -> None:
    catalog(**{"java.file.connectors": "TRUE"})
    java = sides.java_connector({"connector.class": SOURCE})
    assert java is not None
    assert java.reason == "java.file.connectors is true"
    catalog(**{"value.converter": AVRO})
    java = sides.java_connector({"connector.class": SOURCE})
    assert java is not None
    assert java.reason == f"value.converter is {AVRO}, a Java class"
    assert sides.java_connector({"connector.class": SOURCE, "value.converter": "Json"}) is None


def test_a_connector_in_python_cannot_use_java_classes(
    catalog: Callable[..., JavaCatalog],
) -> None:
    """Their counterparts in Python are named, and also the worker's file as the place."""
    catalog(**{"value.converter": AVRO})
    config = {
        "name": "c",
        "connector.class": "support.connectors:ObedientSource",
        "key.converter": "io.db.StringConverter",
        "transforms": "a",
        "transforms.a.type": "io.db.Unwrap",
    }
    runs = "and support.connectors:ObedientSource runs in Python"
    errors = dict(sides.wrong_side(config))
    assert errors == {
        "key.converter": "Invalid value io.db.StringConverter for configuration key.converter: it"
        f" is a Java class, {runs}, where {KAFKA}.storage.StringConverter is its counterpart",
        "value.converter": f"Invalid value {AVRO} for configuration value.converter: it is a Java"
        f" class, {runs}, where it has no counterpart. The worker's file names it: this config"
        " needs one of its own",
        "transforms.a.type": "Invalid value io.db.Unwrap for configuration transforms.a.type: it is"
        f" a Java class, {runs}, where it has no counterpart",
    }


def test_a_java_connector_cannot_use_python_classes_and_providers(
    catalog: Callable[..., JavaCatalog],
) -> None:
    catalog(
        **{
            "config.providers": "env,ours",
            "config.providers.env.class": "io.env.EnvConfigProvider",
            "config.providers.ours.class": "support.config_providers:Provider",
        }
    )
    config = {
        "connector.class": "Db",
        "key.converter": "connect_runtime.data.json_converter:JsonConverter",
        "value.converter": "plugins.mine:Converter",
        "user": "${env:USER}",
        "password": "${ours:secret}",
        "literal": "${neither:x}",
    }
    errors = dict(sides.wrong_side(config))
    assert list(errors) == ["key.converter", "value.converter", "password"]
    assert f"runs in a JVM, where {KAFKA}.json.JsonConverter is" in errors["key.converter"]
    assert "it is a Python class" in errors["value.converter"]
    assert "the config provider ours, a Python class" in errors["password"]


def test_what_is_refused_is_an_error_of_its_key(catalog: Callable[..., JavaCatalog]) -> None:
    config = {
        "name": "c",
        "connector.class": "support.connectors:ObedientSource",
        "key.converter": AVRO,
    }
    allow_modules({"plugin.modules": "support.connectors"})
    infos = validate(config, worker())
    (info,) = (i for i in infos.configs if i.value is not None and i.value.name == "key.converter")
    assert info.value is not None
    (error,) = info.value.errors
    assert "runs in Python" in error


def test_rest_says_why_a_file_connector_runs_in_a_jvm(
    catalog: Callable[..., JavaCatalog], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = {"name": SOURCE, "groups": [], "error_count": 0, "configs": []}
    java = catalog()
    monkeypatch.setattr(java, "validate", lambda config: JavaValidation(answer, str))
    resources = PluginResources(worker()).routes()
    path = "/connector-plugins/{plugin}/config/validate"

    def reason(**config: str) -> str | None:
        body = json.dumps({"connector.class": SOURCE, **config}).encode()
        headers = {"content-type": "application/json"}
        call = Call({"plugin": SOURCE}, body=body, headers=headers)
        reply = resources["PUT", path](call)
        assert reply.status == 200
        return reply.headers.get("Connect-Jvm-Reason")

    assert reason() is None
    assert reason(**{"value.converter": AVRO}) == (
        "value.converter is io.registry.AvroConverter%2C a Java class"
    )


def test_a_converter_of_the_worker_may_be_javas(catalog: Callable[..., JavaCatalog]) -> None:
    check_worker_converters(worker(**{"key.converter": AVRO}))
    with pytest.raises(Invalid):
        check_worker_converters(worker(**{"key.converter": "io.nothing.Converter"}))


@pytest.mark.parametrize(
    ("asks", "folders"),
    [({}, ["db-2"]), ({"connector.plugin.version": "1.0"}, ["db-1", "db-2"])],
    ids=["the newest", "a version"],
)
def test_a_jvm_loads_the_folders_that_it_needs(
    catalog: Callable[..., JavaCatalog], asks: Mapping[str, str], folders: Sequence[str]
) -> None:
    """And knows all plugins there."""
    java = catalog(**{"config.providers": "env", "config.providers.env.class": "Env"})
    settings = java.settings_of({"connector.class": "Db", "value.converter": AVRO, **asks})
    plugins = known_plugins(settings)
    assert [*plugins] == [
        "classpath",
        *(f"file:/{folder}/" for folder in [*folders, "registry", "env"]),
    ]
    assert [plugin["name"] for plugin in plugins["file:/db-2/"]] == [
        "io.db.DbConnector",
        "io.db.Unwrap",
        "io.db.StringConverter",
    ]
    assert "key.converter" not in settings


def test_a_jvm_gets_no_python_classes_of_the_worker(catalog: Callable[..., JavaCatalog]) -> None:
    """Connect's worker would not start with them."""
    java = catalog(
        **{
            "key.converter": "mine.converters:Own",
            "config.providers": "env,ours",
            "config.providers.env.class": "Env",
            "config.providers.ours.class": "mine.providers:Own",
        }
    )
    settings = java.settings_of_all()
    assert settings["key.converter"].endswith("ByteArrayConverter")
    assert settings["java.config.providers"] == "env"


def test_listings_have_each_version_of_a_class_once(catalog: Callable[..., JavaCatalog]) -> None:
    sources = [(p.class_name, p.version) for p in registry.connectors() if p.kind == "source"]
    assert [row for row in sources if row[0] == FILE] == [(FILE, "3.9.0"), (FILE, "4.3.1")]
    filters = [p for p in registry.listed("transformation") if p.class_name.endswith(".Filter")]
    assert [(p.version, p.java) for p in filters] == [("4.3.1", False), ("5.0", True)]
    assert "io.db.Unwrap" not in [p.class_name for p in registry.plugins("transformation")]


def test_a_short_name_of_several_classes_means_none(catalog: Callable[..., JavaCatalog]) -> None:
    java = catalog()
    assert java.matching("Twin") == ()
    assert [p.version for p in java.matching("Db")] == ["1.0", "2.0"]
    # Apache's herder refuses it, with the names of both
    assert java.connector("Twin") is not None
