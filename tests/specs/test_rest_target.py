"""`target` of connect.yaml, and values from the environment of the process."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect_specs.desired import Project, RestTarget
from connect_specs.diagnostics import Invalid
from connect_specs.plain_text import render_diagnostics
from connect_specs.project import load_project

VARIABLES = {"HOST": "connect", "PASSWORD": "hunter2", "NULL": "null", "EMPTY": "", "S": "2.5"}


def load(folder: Path, target: str, kafka: str = "{bootstrap.servers: k:1}") -> Project:
    file = folder / "connect.yaml"
    cluster = f"{{group.id: g, kafka: {kafka}, target: {target}}}"
    file.write_text(f"project: p\ncluster: {cluster}\n")
    return load_project(file, variables=VARIABLES)


def test_everything_given(tmp_path: Path) -> None:
    for name in ("ca.pem", "cert.pem", "key.pem"):
        (tmp_path / name).write_text("x")
    project = load(
        tmp_path,
        """{
    rest: "https://connect:8083/x/",
    user: joe,
    password: hunter2,
    headers: {X-Team: "a b", X-Number: 7},
    ca_file: ca.pem,
    cert_file: ./cert.pem,
    key_file: key.pem,
    timeouts: {connect: 2, answer: 500ms},
  }""",
    )
    folder = tmp_path.resolve()
    assert project.target == RestTarget(
        url="https://connect:8083/x",
        user="joe",
        password="hunter2",
        headers={"X-Team": "a b", "X-Number": "7"},
        ca_file=folder / "ca.pem",
        cert_file=folder / "cert.pem",
        key_file=folder / "key.pem",
        connect_s=2.0,
        answer_s=0.5,
    )
    assert "hunter2" not in repr(project)


@pytest.mark.parametrize(
    ("text", "password"), [("a b ", "a b "), ("hunter2\n", "hunter2"), ("x\n\r\n", "x\n")]
)
def test_a_password_of_a_file(tmp_path: Path, text: str, password: str) -> None:
    (tmp_path / "p").write_bytes(text.encode())
    target = load(tmp_path, "{rest: http://h, user: u, password_file: p}").target
    assert target == RestTarget("http://h", "u", password)


@pytest.mark.parametrize(
    ("target", "codes"),
    [
        ("{rest: http://h, user: u}", ["project.half-login"]),
        ("{rest: http://h, password: u}", ["project.half-login"]),
        ("{rest: http://h, user: [], password: p}", ["project.bad-value"]),
        ("{rest: http://h, user: u, password_file: p}", ["project.bad-value"]),
        ("{rest: http://h, user: u, password_file: .}", ["project.missing-file"]),
        ("{rest: http://h, user: u, password_file: binary}", ["file.unreadable"]),
        ('{rest: http://h, user: u, password_file: "\\0"}', ["project.missing-file"]),
        (f"{{rest: 'http://{'h' * 64}:1'}}", ["project.bad-target"]),
        ("{rest: http://h, headers: [a]}", ["project.bad-value"]),
        ("{rest: http://h, headers: {a: é}}", ["project.bad-header"]),
        ("{rest: http://h, headers: {a: ' b'}}", ["project.bad-header"]),
        ("{rest: http://h, timeouts: 5}", ["project.bad-value"]),
        ("{rest: http://h, timeouts: {connect: [5]}}", ["project.bad-timeout"]),
        ("{rest: http://h, timeouts: {connect: 1e3}}", ["project.bad-timeout"]),
        ("{rest: http://h, timeouts: {connect: 86401}}", ["project.bad-timeout"]),
    ],
)
def test_mistakes(tmp_path: Path, target: str, codes: list[str]) -> None:
    (tmp_path / "p").write_text("\n")
    (tmp_path / "binary").write_bytes(b"\xff")
    with pytest.raises(Invalid) as caught:
        load(tmp_path, target)
    assert [found.code for found in caught.value.diagnostics] == codes


def test_variables(tmp_path: Path) -> None:
    project = load(
        tmp_path,
        '{rest: "http://${env:HOST}:8083", user: "${env:HOST}-${env:PASSWORD}", '
        "password: '${env:NULL}', timeouts: {answer: '${env:S}'}}",
        '{bootstrap.servers: ["${env:HOST}:1", k], sasl.jaas.config: "${env:EMPTY}", '
        'a: "${file}${env:HOST", "${env:HOST}": "$${env:HOST}"}',
    )
    assert project.target == RestTarget(
        "http://connect:8083", "connect-hunter2", "null", answer_s=2.5
    )
    assert project.kafka == {
        "bootstrap.servers": "connect:1,k",
        "sasl.jaas.config": "",
        "a": "${file}${env:HOST",
        "${env:HOST}": "$connect",
    }


def test_the_text_of_a_variable_is_not_read_again(tmp_path: Path) -> None:
    file = tmp_path / "connect.yaml"
    file.write_text(
        "project: p\ncluster: {group.id: g, kafka: {bootstrap.servers: x, a: '${env:A}'}}\n"
    )
    project = load_project(file, variables={"A": "${env:B}"})
    assert project.kafka == {"bootstrap.servers": "x", "a": "${env:B}"}


def test_a_variable_that_is_not_set_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(Invalid) as caught:
        load(tmp_path, "{rest: '${env:GONE}', user: u, password: '${env:PASSWORD}'}")
    assert render_diagnostics(caught.value.diagnostics) == (
        "error[project.missing-variable]: connect.yaml:2:72: "
        "the environment variable 'GONE' is not set\n"
        "  hint: set it where connect runs, such as: export GONE=...\n"
    )


def test_a_reference_that_a_worker_would_resolve_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(Invalid) as caught:
        load(tmp_path, "{rest: 'http://c', user: u, password: '${file:/secrets:c}'}")
    assert render_diagnostics(caught.value.diagnostics) == (
        "error[project.unknown-reference]: connect.yaml:2:103: "
        "${file:/secrets:c} has no effect here: no worker resolves connect.yaml\n"
        "  hint: only ${env:NAME} works, a variable of the environment in which connect runs\n"
    )


def test_no_variable_is_in_what_is_said(tmp_path: Path) -> None:
    secret = "http://hunter2 x"
    file = tmp_path / "connect.yaml"
    file.write_text(
        "project: p\ncluster:\n  group.id: g\n  kafka: {bootstrap.servers: ['${env:A},']}\n"
        "  target: {rest: '${env:A}', user: '${env:A}', headers: {x: '${env:A}\n\n'}, "
        "ca_file: '${env:A}', timeouts: {answer: '${env:A}'}}\n"
    )
    with pytest.raises(Invalid) as caught:
        load_project(file, variables={"A": secret})
    assert len(caught.value.diagnostics) >= 6
    assert "hunter2" not in render_diagnostics(caught.value.diagnostics)


def test_elsewhere_it_stays_a_reference(tmp_path: Path) -> None:
    file = tmp_path / "connect.yaml"
    file.write_text("project: p\ncluster: {group.id: g, worker: {a: '${env:HOST}'}}\n")
    assert load_project(file, variables=VARIABLES).worker == {"a": "${env:HOST}"}
