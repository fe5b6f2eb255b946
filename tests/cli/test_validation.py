"""What `connect plan` says about configs, beside the diff and at their lines."""

import json

import pytest

from support.broker import BrokerAddress
from support.command import Command

SPEC = """\
name: lines
config:
  connector.class: FileStreamSource
  topic: lines
  tasks.max: hunter2
  fil: /dev/null
  batch.size: ${env:SIZE}
sensitive: [tasks.*]
"""


@pytest.fixture
def project(connect: Command, broker: BrokerAddress, unique: str) -> Command:
    """A project on the session's Kafka, with no runtime up."""
    cluster = f"{{group.id: {unique}, kafka: {broker.kafka}}}"
    connect.write("connect.yaml", f"project: p\ncluster: {cluster}\n")
    connect.write("connectors/lines.yaml", SPEC)
    return connect


def test_the_diff_is_shown_with_what_is_wrong_and_nothing_is_applied(project: Command) -> None:
    """The trap: no diff is shown where validation fails."""
    planned = project("plan", "--out", "saved.plan")
    assert planned.returncode == 2
    assert ": 1 to create; 1 error, so nothing can be applied" in planned.stdout.splitlines()[0]
    assert "+ topic: lines" in planned.stdout
    assert "tasks.max: (sensitive)" in planned.stdout
    assert "config.refused]: connectors/lines.yaml:5:3: lines: Invalid value (hidden)" in (
        planned.stdout
    )
    assert "config.unknown-key]: connectors/lines.yaml:6:3: " in planned.stdout
    assert "hint: did you mean file?" in planned.stdout
    assert planned.stdout.count("config.not-checkable]") == 1
    assert not (project.folder / "saved.plan").exists()

    applied = project("apply", "--yes", "--json")
    assert applied.returncode == 2
    document = json.loads(applied.stdout)
    assert document["plan"]["summary"]["create"] == 1
    assert document["report"] is None
    assert "hunter2" not in planned.stdout + planned.stderr + applied.stdout + applied.stderr

    checked = project("validate")
    assert checked.returncode == 2
    assert "error[config.refused]: connectors/lines.yaml:5:3: lines: Invalid value (hidden)" in (
        checked.stderr
    )
    assert "hunter2" not in checked.stderr


MISTAKES = {
    "connect.yaml": """\
project: p
cluster:
  group.id: g
  worker:
    offset.flush.interval.ms: soon
    offset.flush.timeot.ms: 5
specs: [connectors/]
policies: [policies/]
""",
    "connectors/a.yaml": "name: a\nstate: on\nconfig: {connector.class: FileStreamSource}\n",
    "connectors/b.yaml": """\
name: b
config: {connector.class: FileStreamSource, topic: b, tasks.max: many}
""",
    "connectors/c.yaml": "# nothing yet\n---\n",
    "policies/p.yaml": "name: p\ndeny: change.again >\n",
}


def test_every_mistake_is_told_at_once(connect: Command) -> None:
    """The trap: a mistake in one file hides those in the others until it is mended."""
    for name, text in MISTAKES.items():
        connect.write(name, text)
    checked = connect("validate")
    assert checked.returncode == 2
    told = [line.split(" ")[0:2] for line in checked.stderr.splitlines() if line[0] != " "]
    assert told == [
        ["warning[project.worker-key]:", "connect.yaml:6:5:"],
        ["warning[spec.empty-file]:", "connectors/c.yaml:1:1:"],
        ["error[worker.invalid]:", "connect.yaml:5:5:"],
        ["error[spec.bad-state]:", "connectors/a.yaml:2:8:"],
        ["error[config.refused]:", "connectors/b.yaml:2:55:"],
        ["error[policy.syntax]:", "policies/p.yaml:2:7:"],
    ]


def test_a_class_of_a_module_that_is_not_listed_is_an_error_with_the_line_to_add(
    project: Command, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"acme_{unique.replace('-', '_')}"
    package = project.folder / module
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "lines.py").write_text(
        "from pathlib import Path\n"
        "Path(__file__).with_suffix('.ran').touch()\n"
        "from connect_runtime.connectors.file_source import FileStreamSourceConnector\n"
        "class Lines(FileStreamSourceConnector): pass\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(project.folder))
    spec = f"name: lines\nconfig: {{connector.class: '{module}.lines:Lines', topic: t}}\n"
    project.write("connectors/lines.yaml", spec)
    line = f'plugin.modules: "{module}.lines"'
    for verb in ("validate", "plan"):
        refused = project(verb)
        assert refused.returncode == 2
        assert "error[config.unlisted-module]: connectors/lines.yaml:2:10: lines: " in (
            refused.stdout + refused.stderr
        )
        assert f"add `{line}` to connect.yaml" in refused.stdout + refused.stderr
    assert not (package / "lines.ran").exists()

    written = (project.folder / "connect.yaml").read_text()
    project.write("connect.yaml", written.replace("cluster: {", f"cluster: {{worker: {{{line}}}, "))
    listed = project("validate")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert (package / "lines.ran").exists()
    assert project("plan").returncode in (0, 4)


def test_a_class_that_fails_when_it_is_asked_is_an_error_of_its_connector(
    project: Command, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trap: it ends the command as a bug of connect, also for a plan of other connectors."""
    module = f"acme_{unique.replace('-', '_')}"
    (project.folder / f"{module}.py").write_text(
        "from connect_runtime.connectors.file_source import FileStreamSourceConnector\n"
        "class Lines(FileStreamSourceConnector):\n"
        "    def config(self): raise RuntimeError('no keys today')\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(project.folder))
    written = (project.folder / "connect.yaml").read_text()
    listed = f'cluster: {{worker: {{plugin.modules: "{module}"}}, '
    project.write("connect.yaml", written.replace("cluster: {", listed))
    spec = f"name: lines\nconfig: {{connector.class: '{module}:Lines', topic: t}}\n"
    project.write("connectors/lines.yaml", spec)
    spec = "name: other\nconfig: {connector.class: FileStreamSource, topic: t, file: /f}\n"
    project.write("connectors/other.yaml", spec)
    for verb in ("validate", "plan"):
        refused = project(verb)
        assert refused.returncode == 2
        text = refused.stdout + refused.stderr
        assert text.count("error[") == 1
        assert f"error[config.refused]: connectors/lines.yaml:2:10: lines: {module}:Lines" in text
        assert "config() raised RuntimeError: no keys today" in text
    other = project("plan", "--target", "other")
    assert other.returncode == 0, other.stdout + other.stderr
    assert "1 to create" in other.stdout


def test_validate_takes_any_value_for_the_variables_of_connect_yaml(
    connect: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a pull request from a fork, which gets no secrets: docs/ci.md."""
    target = "target: {rest: '${env:CONNECT_URL}', user: u, password: '${env:CONNECT_PASSWORD}'}"
    connect.write("connect.yaml", f"project: p\ncluster: {{group.id: g, {target}}}\n")
    config = "config: {connector.class: FileStreamSource, topic: t, file: /f}"
    connect.write("connectors/a.yaml", f"name: a\n{config}\n")
    assert "error[project.missing-variable]" in connect("validate").stderr
    monkeypatch.setenv("CONNECT_URL", "http://none")
    monkeypatch.setenv("CONNECT_PASSWORD", "none")
    assert connect("validate").returncode == 0
