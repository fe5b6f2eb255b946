"""Where a node of a cluster finds Java plugins."""

from __future__ import annotations

import sys
import tarfile
from pathlib import Path

import pytest

from connect_runtime.engine.engine_jar import class_path
from connect_runtime.engine.plugin_path import PLUGIN_PATH, every_file
from connect_runtime.engine.sent_files import (
    CLASS_PATH,
    FILES,
    JARS,
    known_plugins,
    missing_places,
    sent_jars,
    with_known,
    with_places_here,
)
from connect_runtime.spark import environment_archive
from connect_runtime.spark.environment_archive import pack

LINES = {"name": "io.example.Lines", "type": "sink", "version": "1.0"}


def of_jvm(*places: Path) -> dict[str, str]:
    """The properties of a JVM that loads these places, the first one with a plugin."""
    locations = [f"{place.as_uri().replace('file://', 'file:')}/" for place in places]
    path = ",".join(str(place.parent) for place in places)
    plugins = {CLASS_PATH: [], **{at: [] for at in locations}, locations[0]: [LINES]}
    return {**with_known({PLUGIN_PATH: path, "group.id": "g"}, plugins)}


def _url(place: Path) -> str:
    return f"file:{str(place).replace(' ', '%20')}/"


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The Python environment of a node, which Spark runs by a link."""
    real, link = tmp_path / "unpacked archive", tmp_path / "environment"
    real.mkdir()
    link.symlink_to(real)
    monkeypatch.setattr(sys, "prefix", str(link))
    return real


def test_plugins_that_are_here_are_used_as_they_are(environment: Path, tmp_path: Path) -> None:
    plugin = tmp_path / "plugins" / "lines"
    plugin.mkdir(parents=True)
    worker = of_jvm(plugin)
    assert with_places_here(worker) == worker
    assert missing_places(worker) == []


def test_plugins_that_were_sent_are_in_the_environment(environment: Path, tmp_path: Path) -> None:
    here = tmp_path / "plugins" / "here"
    here.mkdir(parents=True)
    (environment / FILES / "srv" / "a b" / "lines").mkdir(parents=True)
    worker = of_jvm(Path("/srv/a b/lines"), here)
    assert missing_places(worker) == []
    found = with_places_here(worker)
    sent = environment / FILES / "srv" / "a b"
    url = _url(sent / "lines")
    assert known_plugins(found) == {CLASS_PATH: [], url: [LINES], f"file:{here}/": []}
    assert found[PLUGIN_PATH] == f"{sent},{here.parent}"
    assert found["group.id"] == "g"


def test_providers_of_a_worker_are_found_where_they_were_sent(
    environment: Path, tmp_path: Path
) -> None:
    """Also those of tasks in Python, whose JVM scans plugin.path."""
    here = tmp_path / "here"
    here.mkdir()
    (environment / FILES / "srv" / "plugins").mkdir(parents=True)
    worker = {PLUGIN_PATH: f"/srv/runtime/../plugins,{here}"}
    assert with_places_here(worker) == {PLUGIN_PATH: f"{environment / FILES}/srv/plugins,{here}"}


def test_a_folder_that_lacks_one_plugin_gets_it_from_where_it_was_sent(
    environment: Path, tmp_path: Path
) -> None:
    plugins = tmp_path / "plugins"
    sent = Path(f"{environment / FILES}{plugins}")
    for place in (plugins / "here", sent / "here", sent / "lines"):
        place.mkdir(parents=True)
    found = with_places_here(of_jvm(plugins / "here", plugins / "lines"))
    assert [*known_plugins(found)][1:] == [f"file:{plugins}/here/", _url(sent / "lines")]
    assert found[PLUGIN_PATH].split(",")[:2] == [str(plugins), str(sent)]


def test_plugins_that_are_nowhere_are_named(environment: Path) -> None:
    assert missing_places(of_jvm(Path("/srv/a b/lines"))) == [Path("/srv/a b/lines")]


def test_a_worker_that_has_no_plugins_lacks_none(environment: Path) -> None:
    worker = with_known({"group.id": "g"}, {CLASS_PATH: []})
    assert with_places_here(worker) == worker
    assert missing_places({"group.id": "g"}) == []


def test_the_archive_has_the_files_of_plugins_and_the_engine(
    environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also files that links lead to, and those that are no jars."""
    plugin = tmp_path / "plugins" / "lines"
    plugin.mkdir(parents=True)
    (tmp_path / "elsewhere.jar").write_bytes(b"jar")
    (plugin / "lines.jar").symlink_to(tmp_path / "elsewhere.jar")
    (plugin / "native.so").write_bytes(b"library")
    monkeypatch.setattr(environment_archive, "_installed", dict)
    jars = class_path()
    (tmp_path / "runtime").mkdir()
    worker = {PLUGIN_PATH: str(tmp_path / "runtime" / ".." / "plugins")}
    file = pack(tmp_path / "env.tar.gz", "/usr/bin/python3", [], worker)
    assert sent_jars() == ()
    with tarfile.open(file.file) as archive:
        archive.extractall(environment, filter="tar")
    sent = Path(f"{environment}/{FILES}{plugin}")
    assert {path.name: path.read_bytes() for path in sent.iterdir()} == {
        "lines.jar": b"jar",
        "native.so": b"library",
    }
    assert not (sent / "lines.jar").is_symlink()
    assert sent_jars()[0].name == jars[0].name
    assert {jar.name for jar in sent_jars()} == {jar.name for jar in jars}


def test_plugins_and_folders_that_two_links_lead_to_are_packed_for_each(tmp_path: Path) -> None:
    plugins, shared = tmp_path / "plugins", tmp_path / "shared"
    for folder in (shared, plugins / "a", plugins / "b"):
        folder.mkdir(parents=True)
    (shared / "driver.jar").write_bytes(b"jar")
    for name in "ab":
        (plugins / name / "lib").symlink_to(shared)
    (plugins / "latest").symlink_to(plugins / "a")
    (plugins / "a" / "loop").symlink_to(plugins)
    files = [str(file.relative_to(plugins)) for file in every_file({PLUGIN_PATH: str(plugins)})]
    assert files == ["a/lib/driver.jar", "b/lib/driver.jar", "latest/lib/driver.jar"]


def test_jars_without_one_engine_are_those_of_somebody_else(environment: Path) -> None:
    (environment / JARS).mkdir(parents=True)
    (environment / JARS / "other.jar").write_bytes(b"")
    assert sent_jars() == ()


def test_an_archive_without_java_plugins_has_no_jars(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment_archive, "_installed", dict)
    file = pack(tmp_path / "env.tar.gz", "/usr/bin/python3", [])
    with tarfile.open(file.file) as archive:
        assert not [name for name in archive.getnames() if name.startswith("share")]
