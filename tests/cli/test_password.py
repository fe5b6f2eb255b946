"""Who can use a runtime's REST API, from the command line.

That our verbs log in by themselves is seen in test_up_and_down.py, where a runtime is up."""

from __future__ import annotations

import json

from support.command import Command

PROJECT = """\
project: p
cluster:
  group.id: p
  kafka: embedded
  worker: {{{worker}}}
"""
LOGIN = "rest.authentication: basic"


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
