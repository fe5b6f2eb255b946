"""Files as templates over values: what they give, where mistakes are, and no secret in them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from connect_specs.desired import DesiredConnector
from connect_specs.diagnostics import Diagnostic, Invalid
from connect_specs.loader import load_specs
from connect_specs.plain_text import render_diagnostics
from connect_specs.project import load_project

Write = Callable[[str, str], None]

CONNECT = "project: p\ncluster: {group.id: g}\n"
DEFAULT = """
db: {host: localhost, port: 5432, password: hunter2, items: x}
topics: [a, b]
big: 010
ratio: 1.10
debug: false
empty: ""
"""


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(name: str, text: str) -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, newline="")

    write_file("connect.yaml", CONNECT)
    return write_file


def load(folder: Path, env: str | None = None) -> dict[str, DesiredConnector]:
    return dict(load_specs(load_project(folder / "connect.yaml", env)).connectors)


def wrong(folder: Path, env: str | None = None) -> tuple[Diagnostic, ...]:
    with pytest.raises(Invalid) as caught:
        load(folder, env)
    return caught.value.diagnostics


def spec(**config: str) -> str:
    lines = "".join(f"  {key}: {value}\n" for key, value in config.items())
    return f"name: a\nconfig:\n  connector.class: X\n{lines}"


def test_without_a_values_folder_nothing_is_a_template(tmp_path: Path, write: Write) -> None:
    write("connectors/a.yaml", spec(x="'{{ y }} {% z'"))
    assert load(tmp_path)["a"].config["x"] == "{{ y }} {% z"


def test_values_of_an_environment_go_over_the_default(tmp_path: Path, write: Write) -> None:
    write("values/default.yaml", DEFAULT)
    write("values/prod.yaml", "db: {host: db.prod}\ntopics: [c]\n")
    write("connect.yaml", "project: p\ncluster: {group.id: 'g-{{ env | default(\"none\") }}'}\n")
    text = spec(host="{{ db.host }}:{{ db.port + 1 }}", topics="{{ topics | join(',') }}")
    write("connectors/a.yaml", text)
    here, prod = load(tmp_path)["a"].config, load(tmp_path, "prod")["a"].config
    assert (here["host"], here["topics"]) == ("localhost:5433", "a,b")
    assert (prod["host"], prod["topics"]) == ("db.prod:5433", "c")
    project = load_project(tmp_path / "connect.yaml", "prod")
    assert (project.env, project.group_id) == ("prod", "g-prod")
    assert load_project(tmp_path / "connect.yaml").env is None


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("{{ big }}", "010"),
        ("{{ ratio }}", "1.10"),
        ("{{ debug }}", "false"),
        ("{{ 'on' if debug else 'off' }}", "off"),
        ("x{{ empty }}", "x"),
        ("{{ db.items }}", "x"),
        ("{{ '<&>' }}", "<&>"),
        ("{{ db.password | tojson }}", "hunter2"),
        ("'{{ topics | tojson }}'", '["a", "b"]'),
        ("'{% raw %}{{ x }}{% endraw %}'", "{{ x }}"),
        ("x{# a comment #}", "x"),
        ("'${file:/x:y}'", "${file:/x:y}"),
    ],
)
def test_expressions(tmp_path: Path, write: Write, expression: str, expected: str) -> None:
    write("values/default.yaml", DEFAULT)
    write("connectors/a.yaml", spec(x=expression))
    assert load(tmp_path)["a"].config["x"] == expected


def test_every_format_is_a_template_and_values_are_no_specs(tmp_path: Path, write: Write) -> None:
    write("connect.yaml", f"{CONNECT}specs: [.]\n")
    write("values/default.yaml", DEFAULT)
    write("a.json", '{"name": "{{ db.host }}", "config": {"connector.class": "X"}}')
    write("b.properties", "name={{ big }}\r\nconnector.class=X\r\n")
    assert list(load(tmp_path)) == ["010", "localhost"]


def test_specs_in_the_values_folder_are_not_passed_over(tmp_path: Path, write: Write) -> None:
    write("connect.yaml", f"{CONNECT}specs: [./values/]\n")
    write("values/a.yaml", spec())
    (problem,) = wrong(tmp_path)
    assert (problem.code, str(problem.where)) == ("project.specs-in-values", "connect.yaml:3:9")


def test_an_unknown_environment(tmp_path: Path, write: Write) -> None:
    (problem,) = wrong(tmp_path, "prod")
    assert (problem.code, "values/" in problem.hint) == ("values.unknown-env", True)
    write("values/dev.yaml", "")
    write("values/prod.yaml", "")
    write("values/default.yaml", "")
    for env in ("default", "stage", "../values/dev", ""):
        (problem,) = wrong(tmp_path, env)
        assert render_diagnostics([problem]) == (
            f"error[values.unknown-env]: values/: there is no environment {env!r}\n"
            "  hint: known here: dev, prod\n"
        )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ d.host }}", ["template.undefined 4:9", "'d' is not defined", "did you mean 'db'?"]),
        (
            "abc {{ db.hst }}",
            ["template.undefined 4:16", "'hst' is not defined", "did you mean 'host'?"],
        ),
        (
            "{{ db.host.x }}",
            [
                "template.undefined 4:17",
                "'x' is not defined",
                "use a name of values/default.yaml, or add this one",
            ],
        ),
        (
            "{{ zzz }}",
            [
                "template.undefined 4:9",
                "'zzz' is not defined",
                "known here: big, db, debug, empty, ratio, topics",
            ],
        ),
        (
            "{{ db[db.password] }}",
            [
                "template.undefined 4:6",
                "a name is not defined",
                "known here: host, items, password, port",
            ],
        ),
        ("{{ topics }}", ["template.not-text 4:6", "a list or a map cannot be written here"]),
        ("{{ none }}", ["template.not-text 4:6"]),
        ("{{ topics.index }}", ["template.not-text 4:6"]),
        ("{{ db.password + 1 }}", ["template.failed 4:6", "the template cannot be rendered"]),
        ("{{ ''.__class__ }}", ["template.failed 4:6"]),
        ("{{ topics.append(1) }}", ["template.failed 4:6"]),
        ("{{ range(10 ** 9) }}", ["template.failed 4:6"]),
        ("{{ 9 ** (9 ** 9) }}", ["template.failed 4:6"]),
        ("{{ 'a' * 10 ** 9 }}", ["template.failed 4:6"]),
        ("{{ 10 ** 9 * topics }}", ["template.failed 4:6"]),
        ("{% include '/etc/passwd' %}", ["template.failed 4:6"]),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", ["template.failed 4:6"]),
        (
            "{% for a in range(9999) %}{{ 'x' * 9999 }}{% endfor %}",
            ["template.too-large connectors/a.yaml"],
        ),
        ("{{ x", ["template.syntax 4:6"]),
        ("{% if x %}", ["template.syntax 4:6"]),
        ("{{ x | nofilter }}", ["template.syntax 4:6"]),
    ],
)
def test_mistakes(tmp_path: Path, write: Write, text: str, expected: list[str]) -> None:
    """Templates are strict: what has no value is an error at its place."""
    write("values/default.yaml", DEFAULT)
    write("connectors/a.yaml", spec(x=text))
    (problem,) = wrong(tmp_path)
    place = str(problem.where).removeprefix("connectors/a.yaml:")
    found = [f"{problem.code} {place}", problem.what, problem.hint]
    assert found[: len(expected)] == expected
    assert "hunter2" not in render_diagnostics([problem])


def test_a_name_of_another_environment(tmp_path: Path, write: Write) -> None:
    write("values/dev.yaml", "host: x\n")
    write("values/prod.yaml", "host: x\n")
    write("connectors/a.yaml", spec(x="{{ env }} {{ host }}"))
    (problem,) = wrong(tmp_path)
    assert problem.hint == "choose an environment: --env dev|prod"
    assert load(tmp_path, "dev")["a"].config["x"] == "dev x"


def test_a_mistake_in_what_a_template_gave_says_so(tmp_path: Path, write: Write) -> None:
    write("values/default.yaml", "text: 'a: b'\n")
    write("connectors/a.yaml", spec(y="1", x="{{ text }}"))
    (problem,) = wrong(tmp_path)
    assert render_diagnostics([problem]) == (
        "error[file.syntax]: connectors/a.yaml:5:7: this is not YAML\n"
        "  why: mapping values are not allowed in this context; "
        "the file is a template, and this is about its rendered text\n"
        "  hint: quote a value that holds ': '\n"
    )


BLOCKS = """\
{% for topic in topics %}
---
name: {{ topic }}
config:
  connector.class: X
  text: {{ text }}
{% endfor %}
{% if false %}
skipped
lines
{% endif -%}


---
name: c
conf: 1
config: {connector.class: X, x: , x: 1}
"""


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines_are_those_of_the_source(tmp_path: Path, write: Write, end: str) -> None:
    write("values/default.yaml", 'topics: [a, a]\ntext: "|\\n   1\\n   2"\n')
    write("connectors/a.yaml", BLOCKS.replace("\n", end))
    assert [f"{each.code} {each.where} {each.why}" for each in wrong(tmp_path)] == [
        "spec.duplicate-name connectors/a.yaml:3:7 its other spec is at connectors/a.yaml:3:7",
        "spec.unknown-field connectors/a.yaml:16:1 ",
        "config.null connectors/a.yaml:17:33 ",
        "file.duplicate-key connectors/a.yaml:17:35 it is first given at connectors/a.yaml:17:30; "
        "the file is a template, and this is about its rendered text",
    ]


def test_lines_of_json_and_properties_are_those_of_the_source(tmp_path: Path, write: Write) -> None:
    write("values/default.yaml", "")
    write("connectors/a.json", '{"name": "a",\n{% if 0 -%}\n"x": 1,\n{%- endif %}\n"y": 1}')
    write("connectors/b.properties", "{% if 0 -%}\na=1\n\n{% endif -%}\nname=b\nx=\\uzz\n")
    found = [f"{each.code} {each.where}" for each in wrong(tmp_path)]
    assert "spec.unknown-field connectors/a.json:5:1" in found
    assert "file.syntax connectors/b.properties:6:3" in found


def test_a_template_that_looks_at_its_own_text_is_rendered_the_same(
    tmp_path: Path, write: Write
) -> None:
    write("values/default.yaml", "")
    text = "{% set x %}\na\nb\n{% endset %}\n"
    write("connectors/a.yaml", text + spec(n="{{ x | length }}", t="{{ x | trim | tojson }}"))
    config = load(tmp_path)["a"].config
    assert (config["n"], config["t"]) == ("5", "a\nb")
    # one more character in it, and this would fail
    write("connectors/a.yaml", text + spec(n="{{ {5: 6}[x | length] }}"))
    assert load(tmp_path)["a"].config["n"] == "6"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- hunter2\n", "values.not-a-map 1:1"),
        ("a: 1\n---\nb: hunter2\n", "values.not-a-map 1:1"),
        ("hunter2-x: 1\n", "values.bad-name 1:1"),
        ("env: hunter2\n", "values.bad-name 1:1"),
        ("a: {b: }\n", "values.null 1:8"),
        ("a: !hunter2 x\n", "file.tag 1:4"),
        ("a: *hunter2\n", "file.alias 1:4"),
        ("hunter2: 1\nhunter2: 1\n", "file.duplicate-key 2:1"),
        ("a: hunter2: hunter2\n", "file.syntax 1:11"),
        ("a: {{ hunter2 }}\n", "file.key 1:5"),
    ],
)
def test_mistakes_in_values(tmp_path: Path, write: Write, text: str, expected: str) -> None:
    write("values/default.yaml", text)
    problem = wrong(tmp_path)[0]
    place = str(problem.where).removeprefix("values/default.yaml:")
    assert f"{problem.code} {place}" == expected
    assert "hunter2" not in render_diagnostics(wrong(tmp_path))


@pytest.mark.parametrize("secret", ["hunter2", "hun ter2: x", "hunter2\\n\\x00", "*hunter2", "'"])
@pytest.mark.parametrize(
    "text",
    [
        "{{ db.password }}: 1\n",
        "name: a\n{{ db.password }}: 1\n{{ db.password }}: 2\n",
        "name: a\nconfig: {connector.class: X}\nrenamed_from: {{ db.password }}\n"
        "---\nname: {{ db.password }}\nconfig: {connector.class: X}\n",
        "name: a\nconfig: {{ db.password }}\nstate: {{ db.password }}\n",
        "name: a\nconfig: {x: !{{ db.password }} y}\n",
        "name: a\nconfig: {{ db[db.password] }}\n",
        "name: {{ db.password }}\nname: x\nconfig: {x: [{{ db.password }}, {}]}\n",
    ],
)
def test_no_secret_of_the_values_is_in_what_is_said(
    tmp_path: Path, write: Write, text: str, secret: str
) -> None:
    values: dict[str, Any] = {"db": {"password": secret}}
    write("values/default.yaml", json.dumps(values))
    write("connectors/a.yaml", text)
    said = render_diagnostics(wrong(tmp_path))
    assert "hunter2" not in said
    if len(secret) > 1:
        assert secret not in said


def test_connect_yaml_hides_secrets_too(tmp_path: Path, write: Write) -> None:
    write("values/default.yaml", "token: hunter2\nhost: h\n")
    write("connect.yaml", "project: p\n{{ token }}: 1\ncluster: {group.id: {{ hst }}}\n")
    (problem,) = wrong(tmp_path)
    assert str(problem.where) == "connect.yaml:3:24"
    write("connect.yaml", "project: p\n{{ token }}: 1\ncluster: {group.id: {{ host }} }\n")
    assert render_diagnostics(wrong(tmp_path)).startswith(
        "error[project.unknown-field]: connect.yaml:2:1: connect.yaml has no field '(hidden)'\n"
    )
