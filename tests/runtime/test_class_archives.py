"""Archives of classes: used if they fit, and never needed. JVMs here only say their version, and
most archives are a few bytes that no JVM reads."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from connect_runtime import class_archives
from connect_runtime.class_archives import ClassArchive
from connect_runtime.kafka.local_processes import find_java


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClassArchive:
    """One of an empty cache, for a folder with a file that stands for a jar."""
    monkeypatch.setenv("CONNECT_CACHE", str(tmp_path / "cache"))
    jars = tmp_path / "jars"
    jars.mkdir()
    (jars / "one.jar").write_bytes(b"1")
    return ClassArchive("test", (jars,))


_FILES = ("-XX:SharedArchiveFile=", "-XX:ArchiveClassesAtExit=")


def _java(flags: Sequence[str]) -> str:
    """What a JVM with these flags says, which is to end well."""
    done = subprocess.run(
        [str(find_java()), *flags, "-Xshare:auto", "-version"],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout + done.stderr


def _file(flags: Sequence[str]) -> Path:
    (file,) = [flag.partition("=")[2] for flag in flags if flag.startswith(_FILES)]
    return Path(file)


def _made(archive: ClassArchive, content: bytes = b"made") -> Path:
    with archive.making() as flags:
        _file(flags).write_bytes(content)
    return _file(archive.flags())


def test_no_archive_no_flags(archive: ClassArchive) -> None:
    assert archive.flags() == []


def test_a_made_archive_is_mapped(archive: ClassArchive) -> None:
    with archive.making() as flags:
        _java(flags)
    file = _file(archive.flags())
    assert [each.name for each in file.parent.iterdir()] == [file.name]
    log = _java([*archive.flags(), "-Xlog:cds=info", "-Xlog:cds+dynamic=info"])
    assert str(file) in log
    assert "alternative address" not in log, "JVMs do not share its pages"
    assert "cds" not in _java(archive.flags())


def test_other_jars_have_another_archive(archive: ClassArchive) -> None:
    _made(archive)
    (jars,) = archive.class_path
    (jars / "one.jar").write_bytes(b"22")
    assert archive.flags() == []
    (jars / "one.jar").unlink()
    assert archive.flags() == []


def test_without_java_there_is_none(archive: ClassArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    _made(archive)
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert archive.flags() == []
    with archive.making() as flags:
        assert flags == []


def test_an_unfinished_archive_is_not_used(archive: ClassArchive) -> None:
    with pytest.raises(KeyboardInterrupt), archive.making() as flags:
        _file(flags).write_bytes(b"half")
        raise KeyboardInterrupt
    with archive.making():
        pass  # a JVM that was killed writes nothing
    assert archive.flags() == []


def test_a_damaged_archive_does_not_keep_a_jvm_from_starting(archive: ClassArchive) -> None:
    _made(archive, b"damaged")
    assert "version" in _java(archive.flags())


def test_two_processes_may_make_an_archive_at_once(archive: ClassArchive) -> None:
    with archive.making() as first:
        _file(first).write_bytes(b"half of the fi")
        assert _made(archive, b"second").read_bytes() == b"second"
        _file(first).write_bytes(b"first")
        assert _file(archive.flags()).read_bytes() == b"second"
    assert _file(archive.flags()).read_bytes() == b"first"


def test_few_are_kept(archive: ClassArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_archives, "_KEPT", 2)
    (jars,) = archive.class_path
    made = []
    for content in (b"1", b"22", b"333"):
        (jars / "one.jar").write_bytes(content)
        made.append(_made(archive))
    assert [file.exists() for file in made] == [False, True, True]
