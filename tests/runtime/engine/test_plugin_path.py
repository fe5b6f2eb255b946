"""What is on plugin.path: which plugins are found, in which versions, and what cannot be used."""

from __future__ import annotations

import errno
import os
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from connect_runtime.config_providers.registry import ConfigProviders
from connect_runtime.engine import engine_jar, scan
from connect_runtime.engine.jvm import PluginJvm
from connect_runtime.engine.plugin_path import has_java_plugins
from connect_runtime.engine.scan import JavaPlugin
from connect_specs.diagnostics import Failed
from support.java_plugins import make_jar

SOURCE = "org.apache.kafka.connect.source.SourceConnector"
SINK = "org.apache.kafka.connect.sink.SinkConnector"
CONVERTER = "org.apache.kafka.connect.storage.Converter"
TRANSFORMATION = "org.apache.kafka.connect.transforms.Transformation"
PROVIDER = "org.apache.kafka.common.config.provider.ConfigProvider"
PLUGIN = Path(__file__).with_name("plugins") / "Various.java"
CLASSES = {
    SOURCE: "tests.Various$Source",
    CONVERTER: "tests.Various$UpperConverter",
    TRANSFORMATION: "tests.Various$Prefix",
    PROVIDER: "tests.Various$Parameters",
}
SECRET = "open-sesame-57"


@pytest.fixture(scope="module")
def jar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A jar with manifests of all its classes but the broken one, in version 1.0."""
    jar = tmp_path_factory.mktemp("built") / "various.jar"
    make_jar(PLUGIN, CLASSES, jar)
    return jar


def add(
    jar: Path, place: Path, version: str = "", *, services: Mapping[str, str] = CLASSES
) -> Path:
    """Puts the jar there, with other manifests or another version."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(jar) as content, zipfile.ZipFile(place, "w") as copy:
        for name in content.namelist():
            if not name.startswith("META-INF/services/"):
                copy.writestr(name, content.read(name))
        for interface, class_name in services.items():
            copy.writestr(f"META-INF/services/{interface}", f"{class_name}\n")
        if version:
            copy.writestr("version.txt", version)
    return place


def ours(plugins: tuple[JavaPlugin, ...], class_name: str = "tests.Various$Source") -> list[str]:
    return [plugin.version for plugin in plugins if plugin.class_name == class_name]


@pytest.fixture
def folder(jar: Path, tmp_path: Path) -> Path:
    """Plugins in all forms: folders, an uber jar as an entry, links, one without manifests, one
    that bundles Kafka's clients; and what cannot be used."""
    path = tmp_path / "path with a blank"
    add(jar, path / "two" / "various.jar", "2.0")
    add(jar, path / "ten" / "lib" / "various.jar", "10.0")
    (clients,) = (file for file in engine_jar.class_path() if "kafka-clients" in file.name)
    shutil.copy(clients, path / "ten" / "lib" / "kafka-clients-0.1.jar")
    add(jar, tmp_path / "elsewhere" / "various.jar", "3.0")
    (path / "linked").symlink_to(tmp_path / "elsewhere")
    (path / "elsewhere-again").mkdir()
    (path / "elsewhere-again" / "loop").symlink_to(path / "elsewhere-again")
    add(jar, path / "old" / "various.jar", "0.9", services={})
    add(jar, tmp_path / "uber.jar", "4.0", services={**CLASSES, SINK: "tests.Various$Broken"})
    (path / "broken").mkdir()
    (path / "broken" / "broken.jar").write_bytes(b"no jar")
    return path


def test_each_plugin_is_found_and_what_cannot_be_used_is_named(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    worker = {"plugin.path": f"path with a blank , {tmp_path}/uber.jar,{tmp_path}/missing"}
    scanned = scan.scan(worker)
    assert ours(scanned.plugins) == ["0.9", "2.0", "3.0", "4.0", "10.0"]
    assert ours(scanned.plugins, "tests.Various$Broken") == []
    problems = "\n".join(scanned.problems)
    assert f"{folder}/broken/broken.jar is not a jar" in problems
    assert f"{tmp_path}/missing on plugin.path cannot be read: No such file" in problems
    assert "uber.jar: Failed to statically initialize plugin class" in problems
    bundled = [p for p in scanned.plugins if "/ten/" in p.location and p.kind != scan.PROVIDER]
    assert {plugin.version for plugin in bundled} == {"10.0"}
    sources = [plugin for plugin in scanned.plugins if plugin.kind == "source"]

    one = [plugin for plugin in sources if plugin.version in ("0.9", "3.0")]
    jvm = PluginJvm({**worker, **scan.settings(worker, scanned.plugins, one)}, "")
    try:
        loaded = jvm.call("plugins", 60)
    finally:
        jvm.end()
    versions = [row["version"] for row in loaded if row["class"] == "tests.Various$Source"]
    assert versions == ["0.9", "3.0"]


def test_a_class_that_is_gone_since_the_scan_hides_no_other(folder: Path) -> None:
    worker = {"plugin.path": str(folder.parent)}
    gone = JavaPlugin("tests.Gone", "source", "1.0", "classpath")
    every = (*scan.scan(worker).plugins, gone)
    jvm = PluginJvm({**worker, **scan.settings(worker, every, ())}, "")
    try:
        classes = {row["class"] for row in jvm.call("plugins", 60)}
    finally:
        jvm.end()
    assert "org.apache.kafka.connect.storage.StringConverter" in classes
    assert "tests.Gone" not in classes


@pytest.mark.long
@pytest.mark.parametrize("mode", ["only_scan", "hybrid_warn", "service_load", "hybrid_fail"])
def test_modes_of_discovery(jar: Path, tmp_path: Path, mode: str) -> None:
    add(jar, tmp_path / "new" / "various.jar", "2.0")
    worker = {"plugin.path": str(tmp_path), "plugin.discovery": mode}
    assert ours(scan.scan(worker).plugins) == ["2.0"]
    add(jar, tmp_path / "old" / "various.jar", "0.9", services={})
    if mode == "hybrid_fail":
        with pytest.raises(Failed, match="missing ServiceLoader manifests"):
            scan.scan(worker)
        return
    expected = ["2.0"] if mode == "service_load" else ["0.9", "2.0"]
    assert ours(scan.scan(worker).plugins) == expected


@pytest.mark.long
@pytest.mark.parametrize("services", [{SOURCE: "tests.Hostile"}, {}], ids=["named", "not named"])
def test_a_class_that_ends_or_holds_up_the_scan_hides_its_own_plugin_alone(
    jar: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    services: Mapping[str, str],
) -> None:
    monkeypatch.setattr(scan, "_CPU_S", 15.0)
    hostile = tmp_path / "hostile.jar"
    make_jar(PLUGIN.with_name("Hostile.java"), {}, hostile)
    path = tmp_path / "plugins"
    for does in ("exits", "hangs", "loops"):
        add(hostile, path / does / "hostile.jar", does, services=services)
    add(hostile, path / "works" / "hostile.jar", "nothing", services=services)
    add(jar, path / "other" / "various.jar", "2.0")
    worker = {"plugin.path": str(path)}
    scanned = scan.scan(worker)
    assert ours(scanned.plugins) == ["2.0"]
    (works,) = (p for p in scanned.plugins if p.class_name == "tests.Hostile")
    assert "/works/" in works.location
    exits, hangs, loops = sorted(text for text in scanned.problems if "left out" in text)
    assert exits.startswith(f"{path}/exits on plugin.path is left out until a runtime starts: ")
    assert "exit code 7" in exits
    assert hangs.startswith(f"{path}/hangs on plugin.path is left out until a runtime starts: ")
    assert "stood still for 20 s" in hangs
    assert loops.startswith(f"{path}/loops on plugin.path is left out until a runtime starts: ")
    assert "not loaded in 15 s of CPU time" in loops
    # who asks later waits no longer, and a runtime looks again: the machine may have been busy
    monkeypatch.setattr(scan, "_looked_for", lambda *arguments: [])
    assert scan.scan(worker) == scanned
    assert scan.scan(worker, anew=True) == scan.Scan((), ())


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Counts the scans, which find nothing."""
    scans: list[str] = []

    def count(worker: Mapping[str, str]) -> dict[str, list[str]]:
        scans.append(worker["plugin.path"])
        return {"plugins": [], "problems": [], "left_out": []}

    monkeypatch.setattr(scan, "_scanned", count)
    yield scans


def test_files_are_scanned_again_if_any_was_replaced_added_or_removed(
    tmp_path: Path, scans: list[str]
) -> None:
    jar = tmp_path / "plugin" / "a.jar"
    jar.parent.mkdir()
    jar.write_bytes(b"content 1")
    worker = {"plugin.path": str(tmp_path)}
    scan.scan(worker)
    scan.scan(dict(worker))
    assert len(scans) == 1
    time = jar.stat()
    jar.unlink()
    jar.write_bytes(b"content 2")
    os.utime(jar, ns=(time.st_atime_ns, time.st_mtime_ns))
    scan.scan(worker)
    assert len(scans) == 2
    (tmp_path / "uber.zip").write_bytes(b"content")
    scan.scan(worker)
    (tmp_path / "uber.zip").unlink()
    jar.rename(jar.with_name("b.jar"))
    scan.scan(worker)
    assert len(scans) == 4
    scan.scan({**worker, "plugin.discovery": "service_load"})
    assert len(scans) == 5


def test_plugins_are_found_though_their_list_cannot_be_kept(
    tmp_path: Path, scans: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file))

    monkeypatch.setattr(scan, "replace_file", full)
    worker = {"plugin.path": str(tmp_path)}
    assert [scan.scan(worker), scan.scan(worker)] == [scan.Scan((), ())] * 2
    assert len(scans) == 2


def test_a_cached_scan_is_that_of_one_folder(
    tmp_path: Path, scans: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trap: two projects with the same plugins, each below `plugin.path=plugins`."""
    for project in (tmp_path / "a", tmp_path / "b"):
        (project / "plugins").mkdir(parents=True)
        monkeypatch.chdir(project)
        scan.scan({"plugin.path": "plugins"})
    assert len(scans) == 2


def test_a_worker_has_java_plugins_if_there_is_a_jar_or_a_class(tmp_path: Path) -> None:
    worker = {"plugin.path": f"{tmp_path}/missing,{tmp_path},"}
    (tmp_path / "deep" / "lib").mkdir(parents=True)
    (tmp_path / "deep" / "lib" / "readme.txt").touch()
    assert not has_java_plugins(worker)
    (tmp_path / "deep" / "lib" / "A.class").touch()
    assert has_java_plugins(worker)
    assert not has_java_plugins({"plugin.path": ""})
    assert not has_java_plugins({})


def test_references_to_a_java_provider_are_resolved_by_a_jvm(
    jar: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(jar, tmp_path / "plugins" / "various.jar")
    monkeypatch.setenv("JAVA_SECRET", SECRET)
    worker = {
        "plugin.path": str(tmp_path / "plugins"),
        "config.providers": "env,java,lost",
        "config.providers.env.class": "EnvVarConfigProvider",
        "config.providers.java.class": "tests.Various$Parameters",
        "config.providers.java.param.secret": "${env:JAVA_SECRET}",
        "config.providers.lost.class": "tests.Nowhere",
    }
    providers = ConfigProviders(worker)
    try:
        resolved = providers.resolve({"a": "x${java:secret}y"})
        assert resolved.config["a"] == f"x{SECRET}y"
        assert resolved.ttl_ms == 60_000
        (problem,) = providers.look_up({"a": "${java:nothing}"}).problems
        assert "the config provider java has no nothing" in problem.text
        (problem,) = providers.look_up({"a": "${java:fail}"}).problems
        assert "cannot log in with [hidden]" in problem.text
        assert SECRET not in problem.text
        (lost,) = providers.problems()
        assert "Class tests.Nowhere could not be found" in lost.what
    finally:
        providers.close()
