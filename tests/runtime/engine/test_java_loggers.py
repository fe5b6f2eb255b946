"""Levels of loggers in JVMs: which get them, and when."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from connect_runtime.engine import java_loggers
from connect_runtime.engine.java_loggers import SharedLevels, share_levels
from connect_runtime.engine.jvm_connection import JvmEnded
from support.wait import wait_until


class LoggersOfJvm:
    """The loggers of a JVM, as it answers about them; one that has `ended` answers nothing."""

    def __init__(self, ended: bool = False) -> None:
        self.ended = ended
        self.levels: list[tuple[str, str]] = []

    def call(self, name: str, timeout_s: float, **arguments: Any) -> Any:
        if self.ended:
            raise JvmEnded("it is gone")
        if name == "loggers":
            return {n: {"level": level, "last_modified": None} for n, level in self.levels}
        self.levels.append((arguments["logger"], arguments["level"]))
        return [arguments["logger"], f"{arguments['logger']}.Child"]


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java_loggers, "_set", {})
    monkeypatch.setattr(java_loggers, "_files", [])
    run(monkeypatch)


def run(monkeypatch: pytest.MonkeyPatch, *jvms: LoggersOfJvm) -> None:
    monkeypatch.setattr(java_loggers, "running_jvms", lambda: jvms)


def test_a_level_is_set_in_each_jvm_and_names_of_all_are_returned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jvm = LoggersOfJvm()
    run(monkeypatch, LoggersOfJvm(ended=True), jvm)
    changed = java_loggers.set_level("io.levels", "debug")
    assert changed == ["io.levels", "io.levels.Child"]
    assert jvm.levels == [("io.levels", "DEBUG")]


def test_loggers_of_jvms_are_listed_beside_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    jvm = LoggersOfJvm()
    jvm.levels = [("io.listed", "WARN"), ("root", "ERROR")]
    run(monkeypatch, jvm)
    levels = java_loggers.levels()
    assert list(levels) == sorted(levels)
    assert levels["io.listed"].level == "WARN"
    found = java_loggers.level_of("io.listed")
    assert found is not None and found.level == "WARN"
    assert java_loggers.level_of("io.listed.not") is None


def test_a_jvm_that_starts_later_gets_all_levels_in_the_order_in_which_they_were_set() -> None:
    for name, level in (("io.a.b", "DEBUG"), ("io.a", "WARN"), ("io.a.b", "TRACE")):
        java_loggers.set_level(name, level)
    jvm = LoggersOfJvm()
    java_loggers.set_levels(jvm)  # type: ignore[arg-type]
    wait_until(lambda: len(jvm.levels) == 2, what="its levels")
    assert jvm.levels == [("io.a", "WARN"), ("io.a.b", "TRACE")]


def test_a_task_reads_each_change_once(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "levels.json"
    shared = SharedLevels(str(file))
    assert list(shared.changes()) == []
    share_levels(file)
    assert list(shared.changes()) == []
    java_loggers.set_level("io.b", "DEBUG")
    java_loggers.set_level("io.a", "DEBUG")
    assert list(shared.changes()) == [("io.b", "DEBUG"), ("io.a", "DEBUG")]
    assert list(shared.changes()) == []
    java_loggers.set_level("io.b", "DEBUG")
    assert list(shared.changes()) == [("io.b", "DEBUG")]
    assert list(SharedLevels(str(file)).changes()) == [("io.a", "DEBUG"), ("io.b", "DEBUG")]


def test_a_task_reads_changes_that_the_clock_does_not_tell_apart(tmp_path: Path) -> None:
    file = tmp_path / "levels.json"
    shared = SharedLevels(str(file))
    share_levels(file)
    for namespace in ("io.a", "io.b"):
        java_loggers.set_level(namespace, "DEBUG")
        os.utime(file, ns=(1, 1))
        assert list(shared.changes()) == [(namespace, "DEBUG")]


def test_a_half_written_file_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "levels.json"
    file.write_text('{"io.a": ["DEB')
    assert list(SharedLevels(str(file)).changes()) == []
    assert list(SharedLevels(None).changes()) == []
