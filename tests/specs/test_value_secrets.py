"""A secret value of `values/` stays secret in every config key that a template carries it to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from connect_specs.desired import DesiredConnector
from connect_specs.diagnostics import Diagnostic, Invalid
from connect_specs.loader import load_specs
from connect_specs.project import load_project

Write = Callable[[str, str], None]

VALUES = """
sensitive: [vendor.pin, 'code*', inner]
db: {password: hunter2, host: here}
vendor: {pin: 1, name: acme}
codes: [aa, bb]
inner: {deep: {x: under}}
reference_password: ${env:DB}
number: 1
"""


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(name: str, text: str) -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    write_file("connect.yaml", "project: p\ncluster: {group.id: g}\n")
    write_file("values/default.yaml", VALUES)
    return write_file


def load(folder: Path) -> dict[str, DesiredConnector]:
    return dict(load_specs(load_project(folder / "connect.yaml")).connectors)


def wrong(folder: Path) -> tuple[Diagnostic, ...]:
    with pytest.raises(Invalid) as caught:
        load(folder)
    return caught.value.diagnostics


@pytest.mark.parametrize(
    ("text", "is_secret"),
    [
        ("{{ db.password }}", True),
        ("jdbc:x://h?u=me&x={{ db.password }}", True),
        ("{{ db.password | upper }}", True),
        ("{{ db.password | length }}", False),
        ("{{ db[`pass` ~ `word`] }}", True),
        ("{{ db | tojson }}", True),
        ("{% set x = db.password %}{{ x }}", True),
        ("{{ vendor.pin }}", True),
        ("{{ vendor.pin + 1 }}", True),
        ("{{ codes | join(`-`) }}", True),
        ("{{ codes[1] }}", True),
        ("{{ inner.deep.x }}", True),
        ("{{ reference_password }}", False),
        ("user:{{ reference_password }}", False),
        ("{{ db.host }}", False),
        ("{{ vendor.name }}", False),
        ("{{ number }}", False),
        ("1", False),
    ],
)
@pytest.mark.parametrize("form", ["yaml", "json", "properties"])
def test_where_a_secret_goes(
    tmp_path: Path, write: Write, form: str, text: str, is_secret: bool
) -> None:
    """Through filters, in larger texts, and however short; another `1` stays as it is."""
    if form == "json" and "tojson" in text:
        pytest.skip("quotes inside quotes")
    specs = {
        "yaml": f"name: a\nconfig:\n  connector.class: X\n  tasks.max: 1\n  x: '{text}'\n",
        "json": f'{{"name": "a", "config": {{"connector.class": "X", "x": "{text}"}}}}',
        "properties": f"name=a\nconnector.class=X\ntasks.max=1\nx={text}\n",
    }
    quote = '"' if form == "yaml" else "'"
    write(f"connectors/a.{form}", specs[form].replace("`", quote))
    found = load(tmp_path)["a"]
    assert found.sensitive == (("x",) if is_secret else ())
    assert ("hunter2" in found.secrets) == is_secret


def test_keys_that_the_spec_names_are_kept(tmp_path: Path, write: Write) -> None:
    write(
        "connectors/a.yaml",
        "name: a\nsensitive: [x, y.*]\nconfig:\n  connector.class: X\n"
        "  x: '{{ db.password }}'\n  z: '{{ db.password }}'\n",
    )
    assert load(tmp_path)["a"].sensitive == ("x", "y.*", "z")


def test_a_secret_that_decides_what_is_there(tmp_path: Path, write: Write) -> None:
    """Where other values give other documents, a key with the text of a secret is one."""
    write(
        "connectors/a.yaml",
        "{% if db.password == 'hunter2' %}name: a\nconfig:\n  connector.class: X\n"
        "  x: 'a {{ db.password }}'\n  y: plain\n{% endif %}",
    )
    assert load(tmp_path)["a"].sensitive == ("x",)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("name: '{{ db.password }}'\nconfig: {connector.class: X}\n", "the name"),
        ("name: a\nconfig: {connector.class: X, '{{ db.password }}': y}\n", "a config key"),
        (
            "name: a\nrenamed_from: '{{ db.password }}'\nconfig: {connector.class: X}\n",
            "'renamed_from'",
        ),
        (
            "name: a\nconfig: {connector.class: X}\n"
            "offsets: {pin: a, set: [{partition: {f: '{{ db.password }}'}, offset: {o: 1}}]}\n",
            "'offsets'",
        ),
    ],
)
def test_a_secret_where_plans_show_it(tmp_path: Path, write: Write, text: str, place: str) -> None:
    write("connectors/a.yaml", text)
    found = [each for each in wrong(tmp_path) if each.code == "values.secret-shown"]
    assert [each.what.partition(" contains")[0] for each in found] == [place]
    assert found[0].hint
    assert "hunter2" not in str(found)


@pytest.mark.parametrize("text", ["sensitive: yes\n", "sensitive: {a: b}\n", "sensitive: [[a]]\n"])
def test_sensitive_is_a_list_of_names(tmp_path: Path, write: Write, text: str) -> None:
    write("values/default.yaml", text)
    problem = wrong(tmp_path)[0]
    assert (problem.code, problem.hint != "") == ("values.bad-value", True)
