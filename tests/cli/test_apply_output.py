"""What to do next after an apply: each command that is named is one that runs."""

import re
import shlex

import pytest

from connect_reconciler.apply.report import ApplyReport, ConnectorReport, Health
from connect_reconciler.cli.apply_output import next_steps
from support.command import Command


@pytest.mark.parametrize("health", [Health.FAILED, Health.TIMED_OUT])
def test_a_command_that_is_named_exists_as_written(connect: Command, health: Health) -> None:
    (said,) = next_steps(ApplyReport("a1", (ConnectorReport("c", (), health=health),)))
    named = re.search(r"`connect (.+?)`", said)
    assert named is not None
    # outside a project a verb that was written rightly looks for connect.yaml, and finds none
    assert "error[project.not-found]" in connect(*shlex.split(named[1])).stderr
