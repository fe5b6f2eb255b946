"""The offset file of a standalone worker: never lost, never overwritten unread."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from connect_runtime.java.offset_bytes import decode_map, encode_map
from connect_runtime.storage import offset_file
from connect_runtime.storage.log import OffsetsNotWritten
from connect_runtime.storage.offset_file import OffsetFile
from connect_specs.diagnostics import Diagnostic, Failed
from support.wait import wait_until

KEY, OTHER = b'["c",{"p":1}]', b'["d",{"p":1}]'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "connect.offsets"


@pytest.fixture
def file(path: Path) -> Iterator[OffsetFile]:
    with closing(OffsetFile.open(path)) as opened:
        yield opened


def read(path: Path) -> dict[bytes | None, bytes | None]:
    return decode_map(path.read_bytes())


def refusal(path: Path) -> Diagnostic:
    """Returns why the file is not opened."""
    with pytest.raises(Failed) as caught:
        OffsetFile.open(path)
    return caught.value.diagnostics[0]


def code(caught: pytest.ExceptionInfo[Failed]) -> str:
    return caught.value.diagnostics[0].code


@pytest.mark.parametrize("there", [False, True])
def test_a_missing_or_empty_file_holds_no_offsets(path: Path, there: bool) -> None:
    if there:
        path.touch()
    file = OffsetFile.open(path)
    assert file.entries == {}
    file.write({KEY: b"{}"})
    assert read(path) == {KEY: b"{}"}
    file.close()


def test_changes_are_applied_to_what_is_there(path: Path) -> None:
    path.write_bytes(encode_map({KEY: b"1", OTHER: b"2", b"foreign": b"3", b"gone": None}))
    file = OffsetFile.open(path)
    assert file.write({KEY: b"4", OTHER: None}) == {KEY: b"4", b"foreign": b"3"}
    assert read(path) == file.entries == {KEY: b"4", b"foreign": b"3"}
    file.close()


def test_mode_and_links_stay(path: Path, tmp_path: Path) -> None:
    path.write_bytes(encode_map({}))
    path.chmod(0o640)
    link = tmp_path / "link"
    link.symlink_to(path)
    file = OffsetFile.open(link)
    file.write({KEY: b"1"})
    assert link.is_symlink()
    assert read(path) == {KEY: b"1"}
    assert path.stat().st_mode & 0o777 == 0o640
    assert refusal(path).code == "offsets.file-in-use"
    file.close()


@pytest.mark.parametrize(
    "content",
    [b"name=x\n", encode_map({KEY: b"1"})[:-1], encode_map({KEY: b"1"}) + b"x", b"\xac\xed"],
)
def test_unknown_content_is_refused_and_left(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    assert refusal(path).code == "offsets.file-unknown"
    assert path.read_bytes() == content
    # the lock was released
    path.write_bytes(b"")
    OffsetFile.open(path).close()


def test_what_is_no_file_is_refused(path: Path, tmp_path: Path) -> None:
    os.mkfifo(path)
    for wrong in (path, tmp_path, tmp_path / "missing" / "file"):
        assert refusal(wrong).code == "offsets.file-unreadable"


def test_a_file_in_use_is_refused_and_names_the_process(path: Path) -> None:
    file = OffsetFile.open(path)
    problem = refusal(path)
    assert problem.code == "offsets.file-in-use"
    assert f"process {os.getpid()} " in problem.why
    file.close()
    OffsetFile.open(path).close()


def test_a_file_that_another_program_changed_is_not_overwritten(
    path: Path, file: OffsetFile
) -> None:
    file.write({KEY: b"1"})
    theirs = encode_map({KEY: b"theirs"})
    path.write_bytes(theirs)
    with pytest.raises(OffsetsNotWritten) as caught:
        file.write({KEY: b"2"})
    assert code(caught) == "offsets.file-changed"
    assert path.read_bytes() == theirs
    assert file.entries == {KEY: b"1"}


def test_a_file_that_was_touched_or_copied_back_is_written(path: Path) -> None:
    path.write_bytes(encode_map({KEY: b"1", OTHER: None}))
    file = OffsetFile.open(path)
    os.utime(path, ns=(1, 1))
    file.write({KEY: b"2"})
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    copy.replace(path)
    file.write({KEY: b"3"})
    assert file.problem is None
    assert read(path) == {KEY: b"3"}
    file.close()


def test_a_file_system_without_locks_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    problem = refusal(path)
    assert problem.code == "offsets.file-unreadable"
    assert "cannot be locked: No locks available" in problem.why


def test_a_file_that_was_removed_is_written_again(path: Path, file: OffsetFile) -> None:
    file.write({KEY: b"1"})
    path.unlink()
    file.write({OTHER: b"2"})
    assert read(path) == {KEY: b"1", OTHER: b"2"}


def _limited(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """No file may grow; the kernel says so at the write, as for a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, before)


def _no_space(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """The data does not get to the disk."""

    def fail(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fail)
    return monkeypatch.undo


@pytest.mark.parametrize("fault", [_limited, _no_space])
def test_a_full_disk_leaves_the_file_as_it_was(
    path: Path,
    file: OffsetFile,
    monkeypatch: pytest.MonkeyPatch,
    fault: Callable[[pytest.MonkeyPatch], Callable[[], None]],
) -> None:
    file.write({KEY: b"1"})
    before = path.read_bytes()

    end = fault(monkeypatch)
    try:
        with pytest.raises(OffsetsNotWritten) as caught:
            file.write({KEY: b"2"})
    finally:
        end()
    assert code(caught) == "offsets.file-not-written"
    assert path.read_bytes() == before
    assert file.entries == {KEY: b"1"}
    assert file.problem is not None
    assert str(path) in file.problem
    assert [each.name for each in path.parent.iterdir() if each.name.endswith(".new")] == []

    file.write({OTHER: b"3"})
    assert file.problem is None
    assert read(path) == {KEY: b"1", OTHER: b"3"}


@pytest.mark.parametrize("full", [False, True])
def test_writes_that_wait_for_each_other_become_one(
    path: Path, file: OffsetFile, monkeypatch: pytest.MonkeyPatch, full: bool
) -> None:
    held, release, sync = threading.Event(), threading.Event(), os.fsync
    syncs = []

    def hold(descriptor: int) -> None:
        syncs.append(descriptor)
        held.set()
        assert release.wait(30)
        if full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", hold)

    def gone() -> None:
        raise EOFError

    keys = [b'["c%d",{}]' % number for number in range(20)]
    writes = [partial(file.write, {key: b"1"}) for key in keys]
    # one key twice: the later one counts
    writes += [partial(file.write, {keys[0]: b"2"}), partial(file.write, {OTHER: b"1"}, gone)]
    with ThreadPoolExecutor(len(writes)) as pool:
        first = pool.submit(writes[1])
        assert held.wait(30)
        others = []
        for write in [writes[0], *writes[2:]]:
            others.append(pool.submit(write))
            wait_until(lambda: len(file._waiting) == len(others), what="it to wait")
        release.set()
        last = others.pop()
        errors = [each.exception(30) for each in (first, *others)]
        assert isinstance(last.exception(30), EOFError)
    assert all(isinstance(each, OffsetsNotWritten) if full else each is None for each in errors)
    # of the file and its folder
    assert len(syncs) == (2 if full else 4)
    wanted = {} if full else {**dict.fromkeys(keys, b"1"), keys[0]: b"2"}
    assert file.entries == wanted
    assert (file.problem is not None) is full


def test_a_write_that_is_too_large_fails_none_that_waits_beside_it(
    path: Path, file: OffsetFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_file, "BYTES_MAX", 5_000)
    keys = [b'["c%d",{}]' % number for number in range(9)]
    changes = [*({key: b"1"} for key in keys), {OTHER: bytes(5_000)}, {KEY: b"1"}]
    with ThreadPoolExecutor(len(changes)) as pool:
        with file._mutex:
            writes = []
            for each in changes:
                writes.append(pool.submit(file.write, each))
                wait_until(lambda: len(file._waiting) == len(writes), what="it to wait")
        errors = [each.exception(30) for each in writes]
    assert [number for number, error in enumerate(errors) if error is not None] == [9]
    assert isinstance(errors[9], OffsetsNotWritten)
    assert read(path) == file.entries == dict.fromkeys([*keys, KEY], b"1")


_KILLED = """
import os, signal, sys
from pathlib import Path
from connect_runtime.storage.offset_file import OffsetFile
file = OffsetFile.open(Path(sys.argv[1]))
Path.replace = lambda self, target: os.kill(os.getpid(), signal.SIGKILL)
file.write({b'["c",{"p":1}]': b"2"})
"""


def test_a_kill_between_write_and_rename_leaves_the_old_file(path: Path) -> None:
    path.write_bytes(encode_map({KEY: b"1"}))
    done = subprocess.run([sys.executable, "-c", _KILLED, str(path)], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert path.with_name("connect.offsets.new").exists()

    file = OffsetFile.open(path)
    assert file.entries == {KEY: b"1"}
    file.write({KEY: b"3"})
    assert read(path) == {KEY: b"3"}
    file.close()


def test_a_file_that_may_not_be_written_is_refused() -> None:
    nobody = 65534
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "connect.offsets")
        path.write_bytes(encode_map({KEY: b"1"}))
        path.chmod(0o444)
        user = os.geteuid()
        if user == 0:
            os.chown(folder, nobody, -1)
            os.chown(path, nobody, -1)
            os.seteuid(nobody)
        try:
            problem = refusal(path)
        finally:
            os.seteuid(user)
        assert (problem.code, problem.why) == ("offsets.file-unreadable", "Permission denied")


def test_a_link_in_place_of_the_lock_is_not_followed(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("kept")
    path.with_name(f"{path.name}.lock").symlink_to(other)
    assert (refusal(path).code, other.read_text()) == ("offsets.file-unreadable", "kept")
