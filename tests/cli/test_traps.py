"""Traps of exit codes, and of a file that goes: as a pipeline meets them."""

import re
from pathlib import Path

import pytest

from connect_specs.diagnostics import ExitCode
from support.command import Command

README = Path(__file__).parents[2] / "README.md"
SPEC = """\
name: lines
state: stopped
lifecycle: {prevent_delete: true}
config: {connector.class: FileStreamSource, file: /dev/null, topic: lines}
"""


@pytest.fixture
def project(on_kafka: Command) -> Command:
    """One protected connector, applied."""
    on_kafka.write("connectors/lines.yaml", SPEC)
    assert on_kafka("apply", "--yes").returncode == 0
    return on_kafka


def test_an_apply_without_changes_is_0(project: Command) -> None:
    """The trap: no changes on an apply is an error, so that a job that runs twice fails."""
    again = project("apply", "--yes")
    assert (again.returncode, again.stdout.count(": no changes, ")) == (0, 1)


def test_removing_the_file_does_not_lift_its_guard(project: Command) -> None:
    """The trap: removing the spec's file removes prevent_delete with it."""
    (project.folder / "connectors" / "lines.yaml").unlink()
    for words in (["apply", "--yes"], ["apply", "--yes", "--target", "lines"]):
        refused = project(*words)
        assert refused.returncode == 2
        assert "plan.protected" in refused.stdout
    assert '"lines"' in project("status", "--json").stdout


def test_usage_errors_have_another_exit_code_than_changes(project: Command) -> None:
    """The trap: 2 is what argument parsers exit with, and what Terraform calls changes.

    There is one table of exit codes, it is in the README, and changes are none of the usual ones.
    """
    table = re.findall(r"^\| (\d+) \| ", README.read_text(), re.MULTILINE)
    assert [int(code) for code in table] == list(ExitCode)
    assert project("plan", "--no-such-option").returncode == ExitCode.INVALID == 2
    project.write("connectors/lines.yaml", SPEC.replace("lines}", "other}"))
    assert project("plan").returncode == ExitCode.OK
    assert project("plan", "--detailed-exitcode").returncode == ExitCode.CHANGES == 4
    assert project("drift").returncode == ExitCode.OK
    assert project("resume", "lines").returncode == ExitCode.OK
    assert project("drift").returncode == ExitCode.CHANGES
