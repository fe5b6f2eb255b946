"""plan and apply as a pipeline sees them: outputs, exit codes, and who is asked."""

import os
import pty
import subprocess

import pytest

from support.command import CONNECT, Command

SPEC = """\
name: lines
state: stopped
config:
  connector.class: FileStreamSource
  file: /dev/null
  topic: lines
  some.password: hunter2
"""


@pytest.fixture
def project(on_kafka: Command) -> Command:
    """A project on the session's Kafka, with one spec and no runtime."""
    on_kafka.write("connectors/lines.yaml", SPEC)
    return on_kafka


@pytest.mark.parametrize(("answer", "code", "left"), [("n", 1, 4), ("y", 0, 0)])
def test_apply_asks_on_a_terminal(project: Command, answer: str, code: int, left: int) -> None:
    terminal, its_end = pty.openpty()
    asked = subprocess.Popen(
        [*CONNECT, "apply"],
        cwd=project.folder,
        stdin=its_end,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(its_end)
    os.write(terminal, f"{answer}\n".encode())
    shown, told = asked.communicate(timeout=60)
    os.close(terminal)
    assert "Apply to p: 1 to create? [y/N]" in told
    assert shown.splitlines()[0].endswith(": 1 to create")
    assert asked.returncode == code, told
    assert project("plan", "--detailed-exitcode").returncode == left
