"""What a config's class name means."""

from pathlib import Path

import pytest

from connect_runtime import plugins
from connect_runtime.api import ConfigError, ConnectorError
from connect_runtime.connectors.file_source import FileStreamSourceConnector, FileStreamSourceTask

JAVA = "org.apache.kafka.connect.file.FileStreamSourceConnector"


@pytest.mark.parametrize(
    "name",
    [
        JAVA,
        "FileStreamSourceConnector",
        "FileStreamSource",
        "connect_runtime.connectors.file_source:FileStreamSourceConnector",
        "connect_runtime.connectors.file_source.FileStreamSourceConnector",
    ],
)
def test_names_of_a_built_in(name: str) -> None:
    plugin = plugins.connector(name)

    assert plugin.cls is FileStreamSourceConnector
    assert (plugin.class_name, plugin.kind) == (JAVA, "source")


def test_a_python_class_goes_by_its_own_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    module = tmp_path / "acme_connectors.py"
    module.write_text(
        "from connect_runtime.connectors.file_source import FileStreamSourceConnector\n"
        "class Lines(FileStreamSourceConnector):\n"
        "    pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    assert plugins.connector("acme_connectors:Lines").class_name == "acme_connectors.Lines"


@pytest.mark.parametrize(
    "name", ["Bogus", "no.such.Module", "connect_runtime.plugins:Plugin", ":x"]
)
def test_an_unknown_connector(name: str) -> None:
    with pytest.raises(ConnectorError) as raised:
        plugins.connector(name)

    assert str(raised.value).startswith(
        "Failed to find any class that implements Connector and which name matches"
        f" {name}, available connectors are: PluginDesc{{klass=class"
        " org.apache.kafka.connect.file.FileStreamSinkConnector,"
        " name='org.apache.kafka.connect.file.FileStreamSinkConnector', version='"
    )
    assert "typeName='source', location='classpath'}" in str(raised.value)


def test_sinks_are_listed_before_sources() -> None:
    kinds = [plugin.kind for plugin in plugins.connectors()]
    assert kinds == sorted(kinds)


@pytest.mark.parametrize("name", ["StringConverter", "String", "JsonConverter", "ByteArray"])
def test_converters_by_alias(name: str) -> None:
    assert plugins.converter("key.converter", name).kind == "converter"


def test_an_unknown_converter() -> None:
    wanted = "Invalid value bogus for configuration key.converter: Class bogus could not be found."
    with pytest.raises(ConfigError) as raised:
        plugins.converter("key.converter", "bogus")
    assert str(raised.value) == wanted


def test_task_classes_go_by_java_names() -> None:
    name = plugins.task_class_name(FileStreamSourceTask)

    assert name == "org.apache.kafka.connect.file.FileStreamSourceTask"
    assert plugins.task(name) is FileStreamSourceTask
