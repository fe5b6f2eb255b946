"""Completion: a script for each shell, and names from the files, without any cluster."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.command import Command

PROJECT = "project: p\ncluster: {group.id: g, kafka: {bootstrap.servers: 'localhost:1'}}\n"
SPEC = "name: {name}\nconfig: {{connector.class: C}}\n"


@pytest.fixture
def connect(tmp_path: Path) -> Command:
    """The command as a process: its shell says so by variables."""
    return Command(tmp_path)


@pytest.fixture
def project(connect: Command) -> Command:
    """A project whose Kafka is not there, and a file that cannot be read."""
    connect.write("connect.yaml", PROJECT)
    connect.write("connectors/a.yaml", SPEC.format(name="orders"))
    connect.write("connectors/b.yaml", SPEC.format(name="others"))
    connect.write("connectors/c.yaml", SPEC.format(name="payments"))
    connect.write("connectors/wrong.yaml", "nonsense")
    connect.write("values/prod.yaml", "topic: t\n")
    return connect


def offered(
    connect: Command, monkeypatch: pytest.MonkeyPatch, *words: str, shell: str = "bash"
) -> str:
    """What the command answers to a shell's script; the last of `words` is unfinished."""
    line = ["connect", *words]
    monkeypatch.setenv("_CONNECT_COMPLETE", f"complete_{shell}")
    monkeypatch.setenv("COMP_WORDS", "\n".join(line))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", " ".join(line))
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    done = connect()
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["pl"], ["plan", "plugins"]),
        (["plan", "--ht"], ["--html"]),
        (["stop", "o"], ["orders", "others"]),
        (["offsets", "reset", "pa"], ["payments"]),
        (["restart", "ord"], ["orders"]),
        (["plan", "--target", "oth"], ["others"]),
        (["export", "orders", "p"], ["payments"]),
        (["plan", "--env", ""], ["prod"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["stop", "none"], []),
    ],
    ids=str,
)
def test_words(
    project: Command, monkeypatch: pytest.MonkeyPatch, words: list[str], expected: list[str]
) -> None:
    assert offered(project, monkeypatch, *words).split() == expected


def test_in_another_folder_and_where_there_is_no_project(
    project: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = Command(project.folder.parent)
    there = project.folder.name
    assert offered(away, monkeypatch, "-C", there, "stop", "pa").split() == ["payments"]
    assert offered(away, monkeypatch, "stop", "-C", there, "pa").split() == ["payments"]
    assert offered(away, monkeypatch, "stop", "pa") == "\n"
    assert offered(away, monkeypatch, "-C", "no/such", "stop", "pa").strip() == ""


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells(project: Command, monkeypatch: pytest.MonkeyPatch, shell: str) -> None:
    shown = offered(project, monkeypatch, "stop", "o", shell=shell)
    assert "orders" in shown and "others" in shown and "payments" not in shown


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts(connect: Command, shell: str) -> None:
    done = connect("completion", shell)
    assert done.returncode == 0
    assert f"_CONNECT_COMPLETE=complete_{shell}" in done.stdout


def test_a_real_bash(project: Command, tmp_path: Path) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    folder = tmp_path / "bin"
    folder.mkdir()
    command = folder / "connect"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m connect_reconciler.cli "$@"\n')
    command.chmod(0o755)
    script = (
        "source <(connect completion bash); COMP_WORDS=(connect stop pa); COMP_CWORD=2; "
        '_connect_completion connect; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        [bash, "-c", script],
        cwd=project.folder,
        env=os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("payments\n", "")
