"""`--env`: before the verb, after it, or as CONNECT_ENV; and what is said of one unknown."""

from __future__ import annotations

import json

import pytest

from support.command import Command


@pytest.fixture
def project(connect: Command) -> Command:
    files = {
        "connect.yaml": "project: p\ncluster: {group.id: 'g-{{ env }}'}\n",
        "values/default.yaml": "topic: here\n",
        "values/prod.yaml": "topic: there\n",
        "connectors/a.yaml": "name: '{{ topic }}'\nconfig: {connector.class: X}\n",
    }
    for name, text in files.items():
        path = connect.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return connect


@pytest.mark.parametrize(
    "words", [["--env", "prod", "validate"], ["validate", "--env", "prod"]], ids=["before", "after"]
)
def test_the_option_may_stand_before_and_after_the_verb(project: Command, words: list[str]) -> None:
    done = project(*words, "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["connectors"] == ["there"]


def test_the_variable_counts_where_no_option_does(
    project: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONNECT_ENV", "gone")
    assert project("validate").returncode == 2
    assert project("validate", "--env", "prod").returncode == 0
    monkeypatch.setenv("CONNECT_ENV", "prod")
    assert "there" in project("validate").stdout
    assert project("--env", "gone", "validate").returncode == 2


@pytest.mark.parametrize("words", [["plan"], ["offsets", "list", "x"], ["down"], ["status"]])
def test_an_unknown_environment_is_2_for_every_verb(project: Command, words: list[str]) -> None:
    done = project(*words, "--env", "stage")
    assert done.returncode == 2
    assert done.stderr == (
        "error[values.unknown-env]: values/: there is no environment 'stage'\n"
        "  hint: known here: prod\n"
    )


def test_without_an_environment_the_hint_names_them(project: Command) -> None:
    done = project("validate")
    assert done.returncode == 2
    assert done.stderr == (
        "error[template.undefined]: connect.yaml:2:27: 'env' is not defined\n"
        "  hint: choose an environment: --env prod\n"
    )
