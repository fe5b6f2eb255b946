"""Java plugins are installed from Maven repositories, addresses and files, over a real HTTP server.

Fake jars: they hold class files' names and no classes. What a runtime makes of a real one is in
tests/runtime/engine/test_installed_plugins.py.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import resource
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from connect_reconciler.workflow import plugin_artifacts, plugin_installation
from connect_reconciler.workflow.plugin_artifacts import plugin_name
from connect_reconciler.workflow.plugin_installation import install, install_locked
from connect_runtime import maven
from connect_specs.desired import Project
from connect_specs.diagnostics import ConnectError, Failed, Invalid, Unreachable
from connect_specs.plugins_lock import LockedPlugin, load_lock, load_locked_plugins
from support.certificates import Authority
from support.command import CONNECT
from support.maven_repository import MavenRepository, jar, maven_repository, tarred, zipped
from support.projects import project_of
from support.wait import wait_until

SECRET = "s3cret-of-the-mirror"
SINK = jar(Sink="one")
NEWER = jar(Sink="two")


@pytest.fixture
def repository() -> Iterator[MavenRepository]:
    with maven_repository() as server:
        yield server


@pytest.fixture
def project(
    tmp_path: Path, repository: MavenRepository, monkeypatch: pytest.MonkeyPatch
) -> Project:
    """A project whose only Maven repository is the test's."""
    settings = repository.settings(tmp_path / "ivysettings.xml")
    monkeypatch.setenv("CONNECT_IVY_SETTINGS", str(settings))
    monkeypatch.setenv("CONNECT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "project").mkdir()
    return project_of(folder=tmp_path / "project")


def _install(project: Project, source: str, into: str | None = None) -> LockedPlugin:
    return install(project, source, project.folder, into, in_use=False)


def _files(project: Project) -> dict[str, bytes]:
    """The jars of the plugin folder."""
    return {
        str(file.relative_to(project.plugins)): file.read_bytes()
        for link in project.plugins.glob("*")
        for file in link.rglob("*.jar")
    }


def _text(error: ConnectError) -> str:
    return "\n".join(f"{d.what} {d.where} {d.why} {d.hint}" for d in error.diagnostics)


def _state(project: Project) -> tuple[dict[str, bytes], str | None]:
    lock = project.folder / "plugins.lock.json"
    return _files(project), lock.read_text() if lock.exists() else None


# --- Maven repositories ---


def test_a_coordinate_is_the_plugins_archive_if_there_is_one(
    project: Project, repository: MavenRepository
) -> None:
    repository.add("io.x:sink:1.0:plugin@zip", zipped({"sink/sink.jar": SINK}))
    repository.add("io.x:sink:1.0", jar(Other="not this one"))
    plugin = _install(project, "io.x:sink:1.0")
    assert plugin.name == "sink"
    assert _files(project) == {"sink/sink-1.0-plugin/sink/sink.jar": SINK}
    assert [artifact.origin for artifact in plugin.artifacts] == ["io.x:sink:1.0:plugin@zip"]


def test_dependencies_are_those_of_maven(project: Project, repository: MavenRepository) -> None:
    """Parents, BOMs, managed versions, scopes, exclusions, optional ones, and what Connect has."""

    def needs(artifact: str, extra: str = "", group: str = "io.x") -> str:
        return (
            f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>{extra}"
            "</dependency>"
        )

    version = "<version>1</version>"
    managed = needs("managed", "<version>2</version>")
    bom = f"<packaging>pom</packaging><dependencyManagement><dependencies>{managed}"
    repository.add("io.x:bom:1", b"", f"{bom}</dependencies></dependencyManagement>")
    imported = needs("bom", f"{version}<type>pom</type><scope>import</scope>")
    inherited = needs("inherited", "<version>${of.parent}</version>")
    repository.add(
        "io.x:parent:1",
        b"",
        "<packaging>pom</packaging><properties><of.parent>3</of.parent></properties>"
        f"<dependencyManagement><dependencies>{imported}</dependencies></dependencyManagement>"
        f"<dependencies>{inherited}</dependencies>",
    )
    excluded = "<exclusions><exclusion><groupId>io.x</groupId><artifactId>excluded</artifactId>"
    excluded += "</exclusion></exclusions>"
    repository.add(
        "io.x:sink:1.0",
        SINK,
        "<parent><groupId>io.x</groupId><artifactId>parent</artifactId><version>1</version>"
        "</parent><dependencies>"
        + needs("managed")
        + needs("library", version + excluded)
        + needs("at-run-time", f"{version}<scope>runtime</scope>")
        + needs("in-tests", f"{version}<scope>test</scope>")
        + needs("provided", f"{version}<scope>provided</scope>")
        + needs("optional", f"{version}<optional>true</optional>")
        + needs("connect-api", "<version>3.9.0</version>", "org.apache.kafka")
        + needs("slf4j-api", "<version>2.0.0</version>", "org.slf4j")
        + "</dependencies>",
    )
    inner = f"<dependencies>{needs('excluded', version)}{needs('deep', version)}</dependencies>"
    repository.add("io.x:library:1", jar(Library=""), inner)
    for text in ("io.x:managed:2", "io.x:inherited:3", "io.x:at-run-time:1", "io.x:deep:1"):
        repository.add(text, jar(Some=text))

    plugin = _install(project, "io.x:sink:1.0")

    names = "sink-1.0 managed-2 inherited-3 library-1 at-run-time-1 deep-1".split()
    assert _files(project).keys() == {f"sink/{name}.jar" for name in names}
    assert {artifact.origin for artifact in plugin.artifacts} == {
        "io.x:sink:1.0",
        "io.x:managed:2",
        "io.x:inherited:3",
        "io.x:library:1",
        "io.x:at-run-time:1",
        "io.x:deep:1",
    }


def test_a_mirror_asks_for_a_login(
    project: Project,
    repository: MavenRepository,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    repository.login = f"me:{SECRET}"
    repository.add("io.x:sink:1.0", SINK)
    with pytest.raises(Unreachable) as error:
        _install(project, "io.x:sink:1.0@jar")
    assert "401 is the answer of" in error.value.why
    assert "CONNECT_IVY_SETTINGS" in _text(error.value)
    assert _state(project) == ({}, None)

    monkeypatch.setenv("MIRROR_PASSWORD", SECRET)
    password = "${env.MIRROR_PASSWORD}"
    settings = repository.settings(tmp_path / "login.xml", user="me", password=password)
    monkeypatch.setenv("CONNECT_IVY_SETTINGS", str(settings))
    _install(project, "io.x:sink:1.0@jar")
    assert _files(project) == {"sink/sink-1.0.jar": SINK}
    assert SECRET not in (project.folder / "plugins.lock.json").read_text()


def test_a_login_in_the_mirrors_address_is_not_shown(
    project: Project, repository: MavenRepository, tmp_path: Path
) -> None:
    settings = Path(os.environ["CONNECT_IVY_SETTINGS"])
    address = repository.address
    settings.write_text(settings.read_text().replace(address, f"me:{SECRET}@{address}"))
    repository.faults["sink-1.0.jar"] = 500
    repository.add("io.x:sink:1.0", SINK)
    with pytest.raises(Unreachable) as error:
        _install(project, "io.x:sink:1.0@jar")
    assert "500" in error.value.why
    assert SECRET not in _text(error.value)


@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (404, "was not found"),
        (403, "403 is the answer of"),
        (503, "503 is the answer of"),
        ("cut", "size"),
        ("slow", "timed out"),
        ("checksum", "invalid sha1"),
        ("away", "Connection refused"),
    ],
)
def test_faults_of_a_repository(
    project: Project, repository: MavenRepository, tmp_path: Path, fault: int | str, reason: str
) -> None:
    repository.add("io.x:sink:1.0", SINK)
    if fault == "checksum":
        repository.files["/io/x/sink/1.0/sink-1.0.jar.sha1"] = b"0" * 40
    elif fault == "away":
        settings = Path(os.environ["CONNECT_IVY_SETTINGS"])
        settings.write_text(settings.read_text().replace(repository.url, "http://127.0.0.1:1"))
    else:
        repository.faults["sink-1.0.jar"] = fault
    with pytest.raises(Unreachable) as error:
        _install(project, "io.x:sink:1.0")
    assert reason in _text(error.value)
    assert _state(project) == ({}, None)


@pytest.mark.long
def test_a_repository_that_redirects(project: Project, repository: MavenRepository) -> None:
    settings = Path(os.environ["CONNECT_IVY_SETTINGS"])
    text = settings.read_text().replace(f"{repository.url}/", f"{repository.url}/redirected/")
    settings.write_text(text)
    repository.add("io.x:sink:1.0", SINK)
    _install(project, "io.x:sink:1.0")
    assert _files(project) == {"sink/sink-1.0.jar": SINK}


def test_a_repository_that_never_ends_its_answer(
    project: Project, repository: MavenRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maven, "_FETCH_S", 0.1)
    with pytest.raises(Unreachable) as error:
        _install(project, "io.x:sink:1.0@jar")
    assert "io.x:sink:1.0@jar: not fetched in" in _text(error.value)


@pytest.mark.parametrize(
    "source", ["io.x:sink", "io.x:sink:latest.release", "io.x:sink:[1,2)", "sink", "a b:c:d", ""]
)
def test_what_is_neither_a_coordinate_nor_a_file(project: Project, source: str) -> None:
    with pytest.raises(Invalid) as error:
        _install(project, source)
    assert "group:artifact:version" in _text(error.value)


# --- addresses ---


def test_an_address(project: Project, repository: MavenRepository) -> None:
    repository.files["/sink-1.0.zip"] = zipped({"lib/sink.jar": SINK})
    plugin = _install(project, f"{repository.url}/redirected/sink-1.0.zip")
    assert plugin.name == "sink"
    assert _files(project) == {"sink/sink-1.0/lib/sink.jar": SINK}
    assert plugin.origins[0].source == f"{repository.url}/redirected/sink-1.0.zip"


@pytest.mark.parametrize("trusted", [True, False])
def test_an_https_address(
    project: Project,
    repository: MavenRepository,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    trusted: bool,
) -> None:
    authority = Authority.make(tmp_path / "certificates")
    server = authority.sign("server")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(server.certificate, server.key)
    repository.socket = tls.wrap_socket(repository.socket, server_side=True)
    repository.files["/sink.jar"] = SINK
    address = f"https://{repository.address}/sink.jar"
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.own.certificate))
        assert _install(project, address).origins[0].source == address
        assert _files(project) == {"sink/sink.jar": SINK}
    else:
        with pytest.raises(Unreachable) as error:
            _install(project, address)
        assert "certificate is refused: unable to get local issuer" in error.value.why
        assert "SSL_CERT_FILE" in _text(error.value)
        assert _state(project) == ({}, None)


@pytest.mark.parametrize("netrc", [False, True])
def test_a_login_of_an_address_is_in_no_file(
    project: Project, repository: MavenRepository, tmp_path: Path, netrc: bool
) -> None:
    repository.login = f"me:{SECRET}"
    repository.files["/sink.jar"] = SINK
    if netrc:
        (tmp_path / ".netrc").write_text(f"machine 127.0.0.1 login me password {SECRET}\n")
        (tmp_path / ".netrc").chmod(0o600)
    login = "" if netrc else f"me:{SECRET}@"
    _install(project, f"http://{login}{repository.address}/sink.jar")
    assert _files(project) == {"sink/sink.jar": SINK}
    lock = (project.folder / "plugins.lock.json").read_text()
    assert f"http://{repository.address}/sink.jar" in lock
    assert SECRET not in lock


@pytest.mark.parametrize(
    ("path", "fault", "reason"),
    [
        ("sink.jar", 404, "404"),
        ("sink.jar", 500, "500"),
        ("sink.jar", "cut", "RemoteProtocolError"),
        ("sink.jar", "slow", "no answer in"),
        ("leaving/sink.jar", None, "UnsupportedProtocol"),
    ],
)
def test_faults_of_an_address(
    project: Project,
    repository: MavenRepository,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    fault: int | str | None,
    reason: str,
) -> None:
    monkeypatch.setattr(plugin_artifacts, "_ANSWER_S", 0.5)
    repository.files["/sink.jar"] = SINK
    if fault is not None:
        repository.faults["/sink.jar"] = fault
    with pytest.raises(Unreachable) as error:
        _install(project, f"http://me:{SECRET}@{repository.address}/{path}")
    assert reason in error.value.why
    assert "install the file" in _text(error.value)
    assert SECRET not in _text(error.value)
    assert _state(project) == ({}, None)


@pytest.mark.parametrize(
    "source",
    [
        "http://example.com/sink.jar",
        "ftp://example.com/sink.jar",
        f"https://example.com/sink.jar?token={SECRET}",
        "https://example.com/download",
        "https:///sink.jar",
    ],
)
def test_addresses_that_are_refused(project: Project, source: str) -> None:
    with pytest.raises(Invalid) as error:
        _install(project, source)
    assert SECRET not in _text(error.value)
    assert _state(project) == ({}, None)


def test_a_page_in_place_of_a_jar_is_refused(project: Project, repository: MavenRepository) -> None:
    """The trap: a login page with status 200."""
    repository.files["/sink.jar"] = b"<html>please log in</html>"
    with pytest.raises(Invalid) as error:
        _install(project, f"{repository.url}/sink.jar")
    assert "it is no jar" in error.value.why
    assert _state(project) == ({}, None)


# --- files ---


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("sink-1.0.jar", SINK),
        ("sink-1.0.zip", zipped({"sink.jar": SINK})),
        ("sink-1.0.tar.gz", tarred({"sink/sink.jar": SINK})),
    ],
)
def test_a_file(project: Project, name: str, content: bytes) -> None:
    (project.folder / name).write_bytes(content)
    plugin = _install(project, name)
    assert plugin.name == "sink"
    assert list(_files(project).values()) == [SINK]
    assert plugin.origins[0].source == name


def test_an_archive_without_a_jar_is_refused(project: Project) -> None:
    (project.folder / "docs.zip").write_bytes(zipped({"readme.txt": b"text"}))
    with pytest.raises(Invalid) as error:
        _install(project, "docs.zip")
    assert "holds no jar" in _text(error.value)
    assert _state(project) == ({}, None)


def test_a_driver_goes_into_a_plugin_and_stays_when_that_is_replaced(project: Project) -> None:
    driver, newer = jar(Driver="one"), jar(Driver="two")
    for name, content in {"sink-1.0.jar": SINK, "ojdbc-11.jar": driver}.items():
        (project.folder / name).write_bytes(content)
    _install(project, "sink-1.0.jar")
    _install(project, "ojdbc-11.jar", into="sink")
    assert _files(project) == {"sink/sink-1.0.jar": SINK, "sink/ojdbc-11.jar": driver}

    (project.folder / "sink-2.0.jar").write_bytes(NEWER)
    _install(project, "sink-2.0.jar")
    assert _files(project) == {"sink/sink-2.0.jar": NEWER, "sink/ojdbc-11.jar": driver}

    (project.folder / "ojdbc-17.jar").write_bytes(newer)
    _install(project, "ojdbc-17.jar", into="sink")
    assert _files(project) == {"sink/sink-2.0.jar": NEWER, "sink/ojdbc-17.jar": newer}


def test_a_driver_needs_a_plugin(project: Project) -> None:
    (project.folder / "ojdbc.jar").write_bytes(SINK)
    with pytest.raises(Invalid) as error:
        _install(project, "ojdbc.jar", into="sink")
    assert "no plugin 'sink' is installed" in _text(error.value)


@pytest.mark.long
def test_two_files_of_one_name_are_both_there(
    project: Project, repository: MavenRepository
) -> None:
    repository.add("io.x:core:1", SINK)
    repository.add("io.y:core:1", NEWER)
    _install(project, "io.x:core:1@jar")
    _install(project, "io.y:core:1@jar", into="core")
    assert _files(project) == {"core/core-1.jar": SINK, "core/more/core-1.jar": NEWER}


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("io.debezium:debezium-connector-postgres:3.6.1.Final", "debezium-connector-postgres"),
        ("confluentinc-kafka-connect-jdbc-10.7.4.zip", "confluentinc-kafka-connect-jdbc"),
        ("ojdbc11.jar", "ojdbc11"),
        ("https://h/sink-3.6.1.Final-plugin.tar.gz?raw=1", "sink"),
        ("mssql-jdbc-12.6.1.jre11.jar", "mssql-jdbc"),
        ("sink-1.0-SNAPSHOT.jar", "sink"),
        ("v2-sink.zip", "v2-sink"),
    ],
)
def test_names_of_plugins_have_no_version(source: str, name: str) -> None:
    assert plugin_name(source) == name


# --- the lock ---


@pytest.fixture
def locked(project: Project, repository: MavenRepository) -> Project:
    """A project that was cloned: the lock names two plugins and neither is installed."""
    repository.files["/sink.zip"] = zipped({"sink.jar": SINK})
    (project.folder / "source.jar").write_bytes(jar(Source=""))
    _install(project, f"{repository.url}/sink.zip")
    _install(project, "source.jar")
    shutil.rmtree(project.data)
    shutil.rmtree(os.environ["CONNECT_CACHE"])
    return project


def test_what_the_lock_names_is_installed(locked: Project, repository: MavenRepository) -> None:
    lock = (locked.folder / "plugins.lock.json").read_text()
    assert install_locked(locked, in_use=False).installed == ("sink", "source")
    assert _files(locked) == {"sink/sink/sink.jar": SINK, "source/source.jar": jar(Source="")}
    asked = len(repository.requests)
    assert install_locked(locked, in_use=False).installed == ()
    assert len(repository.requests) == asked
    assert (locked.folder / "plugins.lock.json").read_text() == lock


def test_another_file_than_the_lock_names_changes_nothing(
    locked: Project, repository: MavenRepository
) -> None:
    repository.files["/sink.zip"] = zipped({"sink.jar": NEWER})
    with pytest.raises(Failed) as error:
        install_locked(locked, in_use=False)
    assert error.value.diagnostics[0].code == "plugins.checksum"
    assert "sink.zip is not the file that plugins.lock.json names" in _text(error.value)
    assert _files(locked) == {}


@pytest.mark.long
def test_artifacts_of_maven_are_verified_against_the_lock(
    project: Project, repository: MavenRepository
) -> None:
    repository.add("io.x:sink:1.0", SINK)
    _install(project, "io.x:sink:1.0@jar")
    installed = _state(project)
    shutil.rmtree(os.environ["CONNECT_CACHE"])
    # an attacker's repository has its own checksums
    repository.add("io.x:sink:1.0", NEWER)
    assert install_locked(project, in_use=False).installed == ()
    shutil.rmtree(project.data)
    with pytest.raises(Failed) as error:
        install_locked(project, in_use=False)
    assert error.value.diagnostics[0].code == "plugins.checksum"
    repository.add("io.x:sink:1.0", SINK)
    install_locked(project, in_use=False)
    assert _state(project) == installed


def test_a_file_that_is_missing_from_a_plugin_is_restored(locked: Project) -> None:
    install_locked(locked, in_use=False)
    before = _files(locked)
    (locked.plugins / "sink/sink/sink.jar").unlink()
    assert install_locked(locked, in_use=False).installed == ("sink",)
    assert _files(locked) == before


def test_a_changed_file_in_the_cache_is_fetched_again(locked: Project) -> None:
    install_locked(locked, in_use=False)
    for file in (Path(os.environ["CONNECT_CACHE"]) / "artifacts").iterdir():
        file.write_bytes(b"changed")
    shutil.rmtree(locked.data)
    assert install_locked(locked, in_use=False).installed == ("sink", "source")
    assert SINK in _files(locked).values()


def test_what_the_lock_no_longer_names_is_removed_and_other_folders_stay(
    locked: Project,
) -> None:
    install_locked(locked, in_use=False)
    (locked.plugins / "by-hand").mkdir()
    (locked.plugins / "by-hand" / "own.jar").write_bytes(SINK)
    file = locked.folder / "plugins.lock.json"
    document = json.loads(file.read_text())
    document["installed"] = [p for p in document["installed"] if p["name"] != "source"]
    file.write_text(json.dumps(document))
    assert install_locked(locked, in_use=False).removed == ("source",)
    assert _files(locked) == {"sink/sink/sink.jar": SINK, "by-hand/own.jar": SINK}


def test_files_of_a_runtime_that_is_up_stay(project: Project) -> None:
    """The trap: a new JVM of a runtime reads the folder that it scanned."""
    (project.folder / "sink-1.0.jar").write_bytes(SINK)
    (project.folder / "sink-2.0.jar").write_bytes(NEWER)
    _install(project, "sink-1.0.jar")
    scanned = (project.plugins / "sink").resolve()
    install(project, "sink-2.0.jar", project.folder, in_use=True)
    assert (scanned / "sink-1.0.jar").read_bytes() == SINK
    assert _files(project) == {"sink/sink-2.0.jar": NEWER}
    install_locked(project, in_use=False)
    assert not scanned.exists()


def test_the_lock_does_not_count_as_one_of_keys(project: Project) -> None:
    """The trap: a lock without keys would make each class an unknown one."""
    (project.folder / "sink.jar").write_bytes(SINK)
    _install(project, "sink.jar")
    assert load_lock(project.folder) is None
    assert [plugin.name for plugin in load_locked_plugins(project.folder)] == ["sink"]


@pytest.mark.parametrize("name", ["../out", "a/b", ".hidden", ""])
def test_a_lock_with_a_name_that_leads_out_is_refused(locked: Project, name: str) -> None:
    file = locked.folder / "plugins.lock.json"
    file.write_text(file.read_text().replace('"name": "sink"', f'"name": {json.dumps(name)}'))
    with pytest.raises(Invalid):
        install_locked(locked, in_use=False)


def test_a_folder_in_the_way_is_not_replaced(project: Project) -> None:
    (project.plugins / "sink").mkdir(parents=True)
    (project.plugins / "sink" / "own.jar").write_bytes(NEWER)
    (project.folder / "sink.jar").write_bytes(SINK)
    with pytest.raises(Failed) as error:
        _install(project, "sink.jar")
    assert error.value.diagnostics[0].code == "plugins.in-the-way"
    assert _state(project) == ({"sink/own.jar": NEWER}, None)


# --- interruptions ---


@pytest.mark.parametrize("moment", ["_built", "_write_lock", "_link", "_remove_unused"])
def test_an_interrupted_install_leaves_one_version_and_is_completed(
    project: Project, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    (project.folder / "sink-1.0.jar").write_bytes(SINK)
    (project.folder / "sink-2.0.jar").write_bytes(NEWER)
    _install(project, "sink-1.0.jar")

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(plugin_installation, moment, interrupt)
        with pytest.raises(KeyboardInterrupt):
            _install(project, "sink-2.0.jar")
    assert _files(project) in ({"sink/sink-1.0.jar": SINK}, {"sink/sink-2.0.jar": NEWER})
    install_locked(project, in_use=False)
    (plugin,) = load_locked_plugins(project.folder)
    version, content = ("1", SINK) if "1.0" in plugin.origins[0].source else ("2", NEWER)
    assert _files(project) == {f"sink/sink-{version}.0.jar": content}
    assert len([f for f in (project.data / "plugin-store").iterdir() if f.is_dir()]) == 1


def test_a_killed_install_leaves_the_earlier_version(
    project: Project, repository: MavenRepository
) -> None:
    repository.files["/sink-2.0.jar"] = NEWER
    repository.faults["/sink-2.0.jar"] = "slow"
    (project.folder / "sink-1.0.jar").write_bytes(SINK)
    _install(project, "sink-1.0.jar")
    installed = _state(project)
    (project.folder / "connect.yaml").write_text(
        "project: p\ncluster: {group.id: g, kafka: embedded}\n"
    )
    process = subprocess.Popen(
        [*CONNECT, "plugins", "install", f"{repository.url}/sink-2.0.jar"],
        cwd=project.folder,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: "/sink-2.0.jar" in repository.requests, what="the download to begin")
    finally:
        process.kill()
        process.wait()
    assert _state(project) == installed
    assert install_locked(project, in_use=False).installed == ()


@pytest.mark.parametrize("of_address", [False, True])
def test_a_full_disk_changes_nothing_and_is_named(
    project: Project, repository: MavenRepository, of_address: bool
) -> None:
    """The trap: what cannot be written is no failed download, and no file that cannot be read."""
    large = jar(Large="x" * 100_000)
    repository.files["/large.jar"] = large
    (project.folder / "large.jar").write_bytes(large)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))
    try:
        with pytest.raises(Failed) as error:
            _install(project, f"{repository.url}/large.jar" if of_address else "large.jar")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    (diagnostic,) = error.value.diagnostics
    assert (diagnostic.code, diagnostic.why) == ("plugins.unwritable", os.strerror(errno.EFBIG))
    assert _state(project) == ({}, None)
    _install(project, "large.jar")


def test_an_install_waits_for_another_one_and_says_so(project: Project) -> None:
    (project.folder / "sink.jar").write_bytes(SINK)
    _install(project, "sink.jar")
    said: list[str] = []
    with (
        (project.data / "plugin-store" / ".lock").open() as lock,
        ThreadPoolExecutor(1) as pool,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting = pool.submit(install_locked, project, in_use=False, say=said.append)
        try:
            wait_until(lambda: said, what="progress")
            assert not waiting.done()
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)
        assert waiting.result(60).installed == ()
    assert said == ["waiting for another install of this project's plugins"]


@pytest.mark.long
def test_a_full_disk_is_no_artifact_that_is_not_there(
    project: Project,
    repository: MavenRepository,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The trap: Ivy goes on after a file that it cannot write, and ends as if it had not found
    one."""
    full = tmp_path / "full"
    full.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(full)]
    if os.getuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("NOT TESTED: a file system cannot be mounted here")
    try:
        monkeypatch.setenv("CONNECT_CACHE", str(full))
        repository.add("io.x:sink:1.0", jar(Large="x" * 400_000))
        with pytest.raises(Unreachable) as error:
            _install(project, "io.x:sink:1.0@jar")
        (diagnostic,) = error.value.diagnostics
        assert diagnostic.what == "io.x:sink:1.0@jar was not fetched"
        assert diagnostic.why == os.strerror(errno.ENOSPC)
        assert str(full) in diagnostic.hint
    finally:
        subprocess.run(["umount", str(full)], check=True)
    assert _state(project) == ({}, None)
