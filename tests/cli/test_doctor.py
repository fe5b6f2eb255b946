"""`connect doctor` on a project with a Kafka of its own, before anything ran and after an apply."""

from __future__ import annotations

import json

from support.command import Command


def test_before_and_after_an_apply(connect: Command) -> None:
    assert connect("init").returncode == 0
    new = connect("doctor")
    assert (new.returncode, "warning[doctor.new-cluster]" in new.stdout) == (0, True)
    assert connect("apply", "--yes").returncode == 0
    done = connect("doctor", "--json")
    assert done.returncode == 0
    report = json.loads(done.stdout)
    assert (report["healthy"], report["findings"]) == (True, [])
    assert "1 connector" in report["looked_at"][0]
