"""Files that verbs write: all of a file or none of it, and devices stay devices."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from connect_reconciler.cli import project_files, runtime_process
from connect_reconciler.cli.project_files import make_data_folder, written
from connect_runtime.files import replace_file
from support.applying import PROJECT


def test_a_device_or_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    """The trap: as root, a plan for /dev/stdout or /dev/null takes the place of the device."""
    pipe, link = tmp_path / "pipe", tmp_path / "stdout"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for path in (pipe, link):
        with _reading(pipe) as read:
            replace_file(path, "a plan\n")
        assert read == ["a plan\n"]
        with _reading(pipe) as read, written(path.parent, {path.name: "drift\n"}, force=True):
            pass
        assert read == ["drift\n"]
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    assert link.is_symlink()


def test_the_file_that_a_link_leads_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    (tmp_path / "link").symlink_to("a")
    replace_file(tmp_path / "link", "new", mode=0o600)
    assert ((tmp_path / "link").is_symlink(), (tmp_path / "a").read_text()) == (True, "new")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a", "link"]


def test_two_processes_may_replace_a_file_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trap: one removes, or moves into place, what the other has not finished."""
    file, pid, move = tmp_path / "rest-password", os.getpid(), Path.replace

    def interrupted(unfinished: Path, target: Path) -> Path:
        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", move)
            patch.setattr(os, "getpid", lambda: pid + 1)
            replace_file(file, "second")
        return move(unfinished, target)

    monkeypatch.setattr(Path, "replace", interrupted)
    replace_file(file, "first")
    assert file.read_text() == "first"
    assert list(tmp_path.iterdir()) == [file]


def test_a_data_folder_is_kept_out_of_git_or_is_not_made_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trap: a full disk leaves an empty .gitignore, which is never written again."""
    project = replace(PROJECT, file=tmp_path / "connect.yaml")

    def full(file: Path, content: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(project_files, "replace_file", full)
        with pytest.raises(OSError):
            make_data_folder(project)
    make_data_folder(project)
    assert (project.data / ".gitignore").read_text() == "*\n"


class _reading:
    """Reads a pipe to its end on another thread."""

    def __init__(self, pipe: Path) -> None:
        self._read: list[str] = []
        self._thread = threading.Thread(target=lambda: self._read.append(pipe.read_text()))

    def __enter__(self) -> list[str]:
        self._thread.start()
        return self._read

    def __exit__(self, *error: Any) -> None:
        self._thread.join(20)


def test_a_runtime_that_cannot_log_why_it_ends_is_told_with_the_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trap: what went wrong is in a log that could not be written."""
    log = tmp_path / "runtime.log"
    log.write_text("")

    def full(**more: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    def ended() -> tuple[str, str]:
        pid = os.posix_spawn("/bin/sh", ["sh", "-c", "exit 1"], {})
        problem = runtime_process._ended(pid, log, 0).diagnostics[0]
        assert problem.code == "up.ended"
        return problem.why, problem.hint

    assert ended() == ("", "")
    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    why, hint = ended()
    assert "No space left on device" in why
    assert hint.startswith("free some space")
