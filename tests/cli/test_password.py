"""Who can use a runtime's REST API, from the command line."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from support.command import Command
from support.wait import wait_until

PROJECT = """\
project: p
cluster:
  group.id: p
  kafka: embedded
  worker: {{{worker}}}
"""
LOGIN = "rest.authentication: basic"


@pytest.fixture
def project(connect: Command) -> Iterator[Command]:
    yield connect
    connect("down")


@pytest.mark.parametrize("words", [("up",), ("up", "--detach")])
def test_up_refuses_to_answer_everybody(connect: Command, words: tuple[str, ...]) -> None:
    connect.write("connect.yaml", PROJECT.format(worker="listeners: 'http://0.0.0.0:0'"))
    done = connect(*words)
    assert done.returncode == 2
    assert "error[up.open-listener]" in done.stderr
    assert "rest.authentication: basic" in done.stderr
    assert not (connect.folder / ".connect").exists()


def test_the_verb_says_where_the_password_is_and_replaces_it(connect: Command) -> None:
    connect.write("connect.yaml", PROJECT.format(worker=LOGIN))
    assert "there is no password yet" in connect("password").stdout
    assert "was replaced" in connect("password", "--rotate").stdout
    file = connect.folder / ".connect" / "rest-password"
    first = file.read_text().strip()
    assert file.stat().st_mode & 0o777 == 0o600
    told = connect("password")
    assert str(file) in told.stdout
    assert first not in told.stdout + told.stderr
    assert json.loads(connect("password", "--rotate", "--json").stdout) == {
        "user": "connect",
        "file": str(file),
        "exists": True,
        "rotated": True,
    }
    assert file.read_text().strip() != first


@pytest.mark.spark
def test_our_verbs_log_in_by_themselves(project: Command) -> None:
    project.write("connect.yaml", PROJECT.format(worker=f"{LOGIN}, listeners: 'http://0.0.0.0:0'"))
    file = project.write("in.txt", "one\n")
    config = f"{{connector.class: FileStreamSource, file: {file}, topic: lines}}"
    project.write("connectors/copy.yaml", f"name: copy\nconfig: {config}\n")
    up = project("up", "--detach", "--json")
    assert up.returncode == 0, up.stderr
    assert "every user of this machine" not in up.stderr
    url = json.loads(up.stdout)["url"]
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{url}/connectors", timeout=10)
    with refused.value as answer:
        assert answer.code == 401
    applied = project("apply", "--yes")
    assert applied.returncode == 0, applied.stderr
    before = (project.folder / ".connect" / "rest-password").read_text().strip()
    assert project("password", "--rotate").returncode == 0
    stopped = project("stop", "copy")
    assert stopped.returncode == 0, stopped.stderr

    def is_stopped() -> bool:
        (copy,) = json.loads(project("status", "--json").stdout)["connectors"]
        return bool(copy["connector"]["state"] == "STOPPED")

    wait_until(is_stopped, what="the source to be stopped")
    runtime_log = (project.folder / ".connect" / "runtime.log").read_text()
    assert before not in runtime_log
    assert (project.folder / ".connect" / "rest-password").read_text().strip() not in runtime_log
