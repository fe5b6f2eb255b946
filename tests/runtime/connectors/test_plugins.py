"""What a config's class name means."""

import importlib
import sys
import threading
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from connect_runtime.api import ConfigError, ConnectorError
from connect_runtime.connectors.file_source import FileStreamSourceConnector, FileStreamSourceTask
from connect_runtime.plugins import modules, registry
from support.wait import wait_until

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
    plugin = registry.connector(name)

    assert plugin.cls is FileStreamSourceConnector
    assert (plugin.class_name, plugin.kind) == (JAVA, "source")


@pytest.fixture
def acme(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A package on the path whose modules leave a file `<module>.ran` when they are imported."""
    monkeypatch.setattr(modules, "_allowed", modules._allowed)
    monkeypatch.syspath_prepend(tmp_path)
    package = tmp_path / tmp_path.name.replace("-", "_")
    package.mkdir()
    text = (
        "from pathlib import Path\n"
        "Path(__file__).with_suffix('.ran').touch()\n"
        "from connect_runtime.connectors.file_source import FileStreamSourceConnector\n"
        "from connect_runtime.connectors.file_source import FileStreamSourceTask\n"
        "from connect_runtime.data.primitive_converters import StringConverter\n"
        "class Lines(FileStreamSourceConnector):\n"
        "    pass\n"
        "class Task(FileStreamSourceTask):\n"
        "    pass\n"
        "class Text(StringConverter):\n"
        "    pass\n"
        "class Trap:\n"
        "    def __init__(self):\n"
        "        Path(__file__).with_suffix('.trapped').touch()\n"
    )
    for module in ("__init__", "__main__", "lines", "other"):
        (package / f"{module}.py").write_text(text)
    return package


def test_a_class_of_a_listed_module_goes_by_its_own_name(acme: Path) -> None:
    modules.allow_modules({"plugin.modules": f" {acme.name}.lines ,x"})
    assert registry.connector(f"{acme.name}.lines:Lines").class_name == f"{acme.name}.lines.Lines"
    assert (
        registry.plugin("converter", "key.converter", f"{acme.name}.lines.Text").kind == "converter"
    )
    name = registry.task_class_name(registry._load(f"{acme.name}.lines:Task"))
    assert registry.task(name).__name__ == "Task"
    with pytest.raises(ConnectorError, match="is in a module that this worker does not list"):
        registry.connector(f"{acme.name}.other:Lines")


def test_a_listed_package_covers_its_modules(acme: Path) -> None:
    modules.allow_modules({"plugin.modules": acme.name})
    for name in (f"{acme.name}.Lines", f"{acme.name}.other.Lines"):
        assert registry.connector(name).class_name == name
    with pytest.raises(ConnectorError, match="Failed to find any class"):
        registry.connector(f"{acme.name}.__main__:Lines")
    assert not (acme / "__main__.ran").exists()


@pytest.mark.parametrize("separator", [":", "."])
@pytest.mark.parametrize("module", ["", ".lines", ".__main__"])
def test_a_module_that_is_not_listed_is_never_imported(
    acme: Path, module: str, separator: str
) -> None:
    name = f"{acme.name}{module}{separator}"
    for asked in (
        lambda: registry.connector(f"{name}Lines"),
        lambda: registry.plugin("converter", "key.converter", f"{name}Text"),
        lambda: registry.task(f"{name}Task"),
    ):
        with pytest.raises(ConnectorError):
            asked()
    assert list(acme.glob("*.ran")) == []


@pytest.mark.parametrize("name", ["venv.__main__:main", "venv:EnvBuilder", "venv.__main__.main"])
def test_the_interpreters_own_modules_are_not_imported(name: str) -> None:
    before = set(sys.modules)
    for asked in (
        registry.connector,
        registry.task,
        lambda it: registry.plugin("converter", "k", it),
    ):
        with pytest.raises(ConnectorError):
            asked(name)
    assert not {module for module in set(sys.modules) - before if "venv" in module}


def test_a_class_that_is_no_plugin_is_not_instantiated(acme: Path) -> None:
    modules.allow_modules({"plugin.modules": acme.name})
    for asked in (
        registry.connector,
        registry.task,
        lambda it: registry.plugin("converter", "k", it),
    ):
        with pytest.raises(ConnectorError):
            asked(f"{acme.name}.lines:Trap")
    assert list(acme.glob("*.trapped")) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("raise RuntimeError('no licence')", "cannot be imported: RuntimeError: no licence"),
        ("import sys; sys.exit('no licence')", "cannot be imported: SystemExit: no licence"),
        (
            "from connect_runtime.connectors.file_source import FileStreamSourceConnector\n"
            "class Lines(FileStreamSourceConnector):\n"
            "    def version(self): raise OSError('no licence')\n",
            "does not say its version: OSError: no licence",
        ),
    ],
)
def test_errors_of_importing_a_module_fail_its_connector(acme: Path, text: str, why: str) -> None:
    modules.allow_modules({"plugin.modules": acme.name})
    (acme / "lines.py").write_text(text)
    with pytest.raises(ConnectorError, match=f"lines.Lines {why}"):
        registry.connector(f"{acme.name}.lines.Lines")


def test_a_plugin_that_hangs_holds_up_no_other(
    acme: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Who names another one, in any way, gets it; the plugin is there once it has loaded."""
    gate = acme / "gate"
    (acme / "hangs.py").write_text(
        "import time\n"
        "from pathlib import Path\n"
        f"while not Path({str(gate)!r}).exists():\n"
        "    time.sleep(0.01)\n"
        "from .lines import Lines as Base\n"
        "class Hangs(Base):\n"
        "    pass\n"
    )
    group = "connect.connectors"
    entries = [
        EntryPoint(name, f"{acme.name}.{module}:{name}", group)
        for name, module in (("Hangs", "hangs"), ("Lines", "lines"))
    ]
    monkeypatch.setattr(modules, "entry_points", lambda group: entries)
    monkeypatch.setattr(modules, "_registered", frozenset)
    monkeypatch.setattr(modules, "_loading", {})
    monkeypatch.setattr(modules, "_EACH_S", 0.05)
    modules.allow_modules({"plugin.modules": acme.name})
    try:
        assert registry.connector("Lines").class_name == f"{acme.name}.lines.Lines"
        assert registry.connector(f"{acme.name}.other:Lines").kind == "source"
        assert registry.connector("FileStreamSource").class_name == JAVA
        assert "Hangs" in caplog.text
        assert not [each for each in registry.connectors() if "Hangs" in each.class_name]
    finally:
        gate.touch()
    wait_until(lambda: "Hangs" in str(registry.connectors()), what="it to have loaded")
    assert registry.connector("Hangs").class_name == f"{acme.name}.hangs.Hangs"


def test_plugins_are_loaded_where_there_are_no_more_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name != "load-plugins":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    entries = [EntryPoint(name, "os", "connect.connectors") for name in "ab"]
    loading = modules.EntryPointLoading(entries, lambda entry: entry.name)
    assert loading.loaded() == ["a", "b"]


def test_a_task_class_that_tasks_could_not_import_is_refused_beforehand(acme: Path) -> None:
    found = importlib.import_module(f"{acme.name}.other").Task
    with pytest.raises(
        ConnectorError, match=rf"add plugin\.modules={acme.name}\.other to the worker"
    ):
        registry.task_class_name(found)


@pytest.mark.parametrize("name", ["Bogus", "no.such.Module", ":x", "connect_runtime.data.json:No"])
def test_an_unknown_connector(name: str) -> None:
    with pytest.raises(ConnectorError) as raised:
        registry.connector(name)

    assert str(raised.value).startswith(
        "Failed to find any class that implements Connector and which name matches"
        f" {name}, available connectors are: PluginDesc{{klass=class"
        " org.apache.kafka.connect.file.FileStreamSinkConnector,"
        " name='org.apache.kafka.connect.file.FileStreamSinkConnector', version='"
    )
    assert "typeName='source', location='classpath'}" in str(raised.value)


def test_sinks_are_listed_before_sources() -> None:
    kinds = [plugin.kind for plugin in registry.connectors()]
    assert kinds == sorted(kinds)


@pytest.mark.parametrize("name", ["StringConverter", "String", "JsonConverter", "ByteArray"])
def test_converters_by_alias(name: str) -> None:
    assert registry.plugin("converter", "key.converter", name).kind == "converter"


def test_an_unknown_converter() -> None:
    wanted = "Invalid value bogus for configuration key.converter: Class bogus could not be found."
    with pytest.raises(ConfigError) as raised:
        registry.plugin("converter", "key.converter", "bogus")
    assert str(raised.value) == wanted


def test_task_classes_go_by_java_names() -> None:
    name = registry.task_class_name(FileStreamSourceTask)

    assert name == "org.apache.kafka.connect.file.FileStreamSourceTask"
    assert registry.task(name) is FileStreamSourceTask
