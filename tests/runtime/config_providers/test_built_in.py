"""The providers file, directory and env read what Apache's read, and no more than they may."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from connect_runtime.api import ConfigError
from connect_runtime.config_providers.built_in import (
    BYTES_MAX,
    DirectoryConfigProvider,
    EnvVarConfigProvider,
    FileConfigProvider,
)


def _file(**params: str) -> FileConfigProvider:
    found = FileConfigProvider()
    found.configure({key.replace("_", "."): value for key, value in params.items()})
    return found


def _directory(**params: str) -> DirectoryConfigProvider:
    found = DirectoryConfigProvider()
    found.configure({key.replace("_", "."): value for key, value in params.items()})
    return found


def _get(provider: FileConfigProvider | DirectoryConfigProvider, path: Path, *keys: str) -> object:
    return provider.get(str(path), frozenset(keys)).values


def test_a_properties_file_by_javas_rules(tmp_path: Path) -> None:
    file = tmp_path / "db.properties"
    file.write_text(
        "# comment\npassword = s3\\\n  cret\nuser:m\\u00e9\nempty=\nunused=x\nuser=m\\u00e8\nü=ß\n"
    )
    found = _get(_file(), file, "password", "user", "empty", "ü", "missing")
    assert found == {"password": "s3cret", "user": "mè", "empty": "", "ü": "ß"}


def test_a_provider_without_a_path_has_no_values() -> None:
    assert _file().get("", frozenset({"a"})).values == {}
    assert _directory().get("", frozenset({"a"})).values == {}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "No such file or directory"),
        (b"a=\xff", "not UTF-8"),
        (b"a=\\uzz", "four hexadecimal digits"),
        (b"a" * (BYTES_MAX + 1), "larger than"),
    ],
)
def test_a_file_that_cannot_be_read(tmp_path: Path, content: bytes | None, why: str) -> None:
    file = tmp_path / "db.properties"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=f"Could not read properties from file {file}: .*{why}"):
        _get(_file(), file, "a")


def test_pipes_and_devices_are_not_opened(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero"), tmp_path):
        with pytest.raises(ConfigError, match="not a regular file"):
            _get(_file(), path, "a")
    # a directory's own pipes are no keys
    assert _get(_directory(), tmp_path, "pipe") == {}


def test_a_directory_of_files_with_their_whole_text(tmp_path: Path) -> None:
    (tmp_path / "password").write_bytes(b" s3cret\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "inner").write_text("x")
    found = _get(_directory(), tmp_path, "password", "folder", "folder/inner", "..", "", "missing")
    assert found == {"password": " s3cret\n"}
    with pytest.raises(ConfigError, match="is not a directory"):
        _get(_directory(), tmp_path / "password", "a")


def test_allowed_paths(tmp_path: Path) -> None:
    allowed, other = tmp_path / "allowed", tmp_path / "allowed-not"
    for folder in (allowed, other):
        folder.mkdir()
        (folder / "a").write_text("a=1")
    (allowed / "link").symlink_to(other / "a")
    (allowed / "..data").mkdir()
    (allowed / "..data" / "b").write_text("b=2")
    # as Kubernetes mounts secrets
    (allowed / "b").symlink_to(Path("..data") / "b")
    file = _file(allowed_paths=str(allowed))
    directory = _directory(allowed_paths=f"{allowed}, /etc")
    assert _get(file, allowed / "a", "a") == {"a": "1"}
    assert _get(file, allowed / "b", "b") == {"b": "2"}
    assert _get(directory, allowed, "a", "b") == {"a": "a=1", "b": "b=2"}
    for path in (other / "a", allowed / ".." / "allowed-not" / "a", allowed / "link", Path("/")):
        with pytest.raises(ConfigError, match=r"is not below the worker's allowed\.paths"):
            _get(file, path, "a")
    with pytest.raises(ConfigError, match="is not below"):
        _get(directory, other, "a")
    with pytest.raises(ConfigError, match="is not below"):
        _get(directory, allowed, "link")


@pytest.mark.parametrize("path", ["relative", "/does/not/exist"])
def test_allowed_paths_are_absolute_and_exist(path: str) -> None:
    with pytest.raises(ConfigError, match="The path should be absolute and exist"):
        _file(allowed_paths=path)


@pytest.mark.parametrize("paths", [" ", ",", " , "])
def test_allowed_paths_that_name_none_do_not_allow_all(paths: str) -> None:
    with pytest.raises(ConfigError, match=r"allowed\.paths: it names no path"):
        _file(allowed_paths=paths)


def test_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONNECT_TEST_A", "1")
    monkeypatch.setenv("OTHER_TEST_A", "2")
    keys = frozenset({"CONNECT_TEST_A", "OTHER_TEST_A", "CONNECT_TEST_NONE"})
    provider = EnvVarConfigProvider()
    provider.configure({})
    assert provider.get("", keys).values == {"CONNECT_TEST_A": "1", "OTHER_TEST_A": "2"}
    provider.configure({"allowlist.pattern": "CONNECT_.*"})
    assert provider.get("", keys).values == {"CONNECT_TEST_A": "1"}
    for part in ("TEST_A", "^CONNECT_"):
        provider.configure({"allowlist.pattern": part})
        assert provider.get("", keys).values == {}
    with pytest.raises(ConfigError, match="Path is not supported for EnvVarConfigProvider"):
        provider.get("p", keys)
    with pytest.raises(ConfigError, match=r"Invalid value \( for configuration allowlist\.pattern"):
        provider.configure({"allowlist.pattern": "("})
