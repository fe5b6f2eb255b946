"""`--var` sets values over those of files, and `--explain-vars` says where each is from."""

from __future__ import annotations

import json

import pytest

from support.broker import BrokerAddress
from support.command import Command


@pytest.fixture
def project(connect: Command, broker: BrokerAddress, unique: str) -> Command:
    files = {
        "connect.yaml": "project: p\n"
        f"cluster: {{group.id: '{unique}-{{{{ team }}}}', kafka: {broker.kafka}}}\n",
        "values/default.yaml": "team: a\ntopic: here\n"
        "db: {host: h, port: 5432, password: hunter2}\n"
        "regions: [eu]\n",
        "values/prod.yaml": "topic: there\ndb: {password: hunter3}\n",
        "connectors/a.yaml": "name: '{{ topic }}-{{ db.port + 1 }}'\n"
        "config: {connector.class: FileStreamSource, file: '{{ regions | join }}', topic: t}\n",
    }
    for name, text in files.items():
        connect.write(name, text)
    return connect


def names(project: Command, *words: str) -> list[str]:
    done = project(*words, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["connectors"]
    assert isinstance(found, list)
    return found


def test_it_counts_more_than_all_files_and_stands_before_and_after_the_verb(
    project: Command,
) -> None:
    assert names(project, "--env", "prod", "--var", "topic=x", "validate") == ["x-5433"]
    assert names(project, "validate", "--var", "topic=x", "--var", "db.port=1") == ["x-2"]
    assert names(project, "--var", "topic=x", "validate", "--var", "topic=y=z") == ["y=z-5433"]
    assert names(project, "validate", "--var", "regions=[eu, us]") == ["here-5433"]


@pytest.mark.parametrize(
    ("given", "code", "hint"),
    [
        ("topc=x", "values.unknown-name", "did you mean 'topic'?"),
        ("db.hst=x", "values.unknown-name", "did you mean 'db.host'?"),
        ("topic.x=x", "values.unknown-name", ""),
        ("env=prod", "values.unknown-name", ""),
        ("topic", "values.bad-var", "write --var NAME=VALUE"),
        ("=x", "values.bad-var", "write --var NAME=VALUE"),
        ("topic=null", "values.null", "empty text"),
        ("db=x", "values.bad-var", "{name: value}"),
        ("regions=eu", "values.bad-var", "[first, second]"),
        ("regions=[", "values.bad-var", "[first, second]"),
        ("regions=[null]", "values.null", ""),
    ],
)
def test_mistakes(project: Command, given: str, code: str, hint: str) -> None:
    done = project("validate", "--var", given, "--json")
    assert done.returncode == 2
    (found,) = json.loads(done.stdout)["error"]["diagnostics"]
    assert (found["code"], hint in found["hint"], found["hint"] != "") == (code, True, True)


def test_a_project_without_values_has_none_to_set(connect: Command) -> None:
    connect.write("connect.yaml", "project: p\ncluster: {group.id: g}\n")
    done = connect("validate", "--var", "a=b")
    assert done.returncode == 2
    assert "error[values.unknown-name]: --var: " in done.stderr


def test_a_saved_plan_is_refused_unless_the_same_is_given(project: Command) -> None:
    project("plan", "--var", "topic=x", "--out", "saved.plan")
    wrong = project("apply", "saved.plan", "--yes")
    assert wrong.returncode == 5, wrong.stderr
    assert "--var" in wrong.stderr
    wrong = project("apply", "saved.plan", "--yes", "--var", "topic=y")
    assert wrong.returncode == 5, wrong.stderr
    assert "hunter2" not in (project.folder / "saved.plan").read_text()
    done = project("apply", "saved.plan", "--yes", "--var", "topic=x")
    assert done.returncode == 0, done.stderr


def test_where_each_value_comes_from(project: Command) -> None:
    words = ["validate", "--env", "prod", "--var", "db.host=here", "--explain-vars"]
    done = project(*words)
    assert done.returncode == 0
    assert done.stdout.splitlines()[:6] == [
        "db.host = here  (--var db.host, overrides values/default.yaml:3:6)",
        "db.password = (sensitive)  (values/prod.yaml:2:6, overrides values/default.yaml:3:27)",
        "db.port = 5432  (values/default.yaml:3:15)",
        "regions = ['eu']  (values/default.yaml:4:1)",
        "team = a  (values/default.yaml:1:1)",
        "topic = there  (values/prod.yaml:1:1, overrides values/default.yaml:2:1)",
    ]
    assert "hunter" not in done.stdout
    found = json.loads(project(*words, "--json").stdout)["variables"]
    assert found[1] == {
        "name": "db.password",
        "value": None,
        "sensitive": True,
        "where": "values/prod.yaml:2:6",
        "overrides": ["values/default.yaml:3:27"],
    }


def test_secrets_inside_lists_are_not_shown(connect: Command) -> None:
    connect.write("connect.yaml", "project: p\ncluster: {group.id: g, kafka: embedded}\n")
    connect.write(
        "values/default.yaml",
        "sensitive: [pins.pin]\n"
        "logins: [{user: u, credentials: zq9-a}]\n"
        "pins: [{pin: zq9-b}]\n"
        "hosts: [one, two]\n",
    )
    connect.write("connectors/a.yaml", "name: a\nconfig: {connector.class: C}\n")
    for words in ([], ["--json"]):
        done = connect("validate", "--explain-vars", *words)
        assert "zq9" not in done.stdout + done.stderr
        assert "['one', 'two']" in done.stdout


def test_commands_to_copy_leave_out_secrets_in_maps_and_lists(project: Command) -> None:
    project.write(
        "values/default.yaml",
        "topic: t\nteam: a\nsensitive: [pins, ports]\n"
        "db: {host: h, port: 1, password: x}\nregions: [eu]\npins: [1]\nports: {a: 1}\n",
    )
    given = {
        "db": '{host: h, port: 1, password: "zq9\\u0039"}',
        "pins": "[7391]",
        "ports": "{a: 7392}",
        "regions": "[eu, us]",
    }
    words = [word for name, value in given.items() for word in ("--var", f"{name}={value}")]
    done = project("plan", "--out", "saved.plan", *words)
    (saved,) = (line for line in done.stderr.splitlines() if line.startswith("saved: "))
    for name in ("db", "pins", "ports"):
        assert f"--var {name}=... " in saved
    assert "'regions=[eu, us]'" in saved
    assert "zq9" not in saved and "739" not in saved


def test_plan_explains_them_beside_the_plan(project: Command) -> None:
    done = project("plan", "--explain-vars", "--json")
    assert "topic = here  (values/default.yaml:2:1)" in done.stderr
    assert isinstance(json.loads(done.stdout), dict)
