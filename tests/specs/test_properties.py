"""Laws of loading: nothing but Invalid, whatever a file holds; and no secret in what it says."""

from __future__ import annotations

import json
import string
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import assume, given
from hypothesis import strategies as st

from connect_specs.desired import Desired
from connect_specs.diagnostics import Invalid
from connect_specs.documents import escape_templates, rendered_source
from connect_specs.loader import load_specs
from connect_specs.plain_text import render_diagnostics
from connect_specs.project import load_project
from connect_specs.values import Values

FULL = {
    "connect.yaml": b"""\
project: orders
cluster:
  group.id: orders-{{ env }}
  kafka: {bootstrap.servers: "{{ host }}:9092", sasl.jaas.config: "${env:PASSWORD}"}
  target:
    rest: https://connect:8083
    user: joe
    password_file: password.txt
    headers: {X-Team: a}
    ca_file: ca.pem
    timeouts: {connect: 5, answer: 1.5}
  topics: {config: c}
  worker: {listeners: "http://:8083"}
specs: [connectors/, "*.json"]
policies: [policies/]
""",
    "connectors/a.yaml": b"""\
{% for topic in topics %}
---
name: "{{ env }}-{{ topic }}"
renamed_from: old-{{ topic }}
state: paused
config: &config
  connector.class: X
  topics: [{{ topic }}, b]
  password: {{ db.password | tojson }}
offsets: {pin: p, to: 2026-11-20T10:00:00Z}
lifecycle: {prevent_delete: true, ignore: ["config.x.*"]}
sensitive: [x]
{% endfor %}
---
name: source
config: {<<: {a: 1}, connector.class: X}
offsets:
  pin: "1"
  set: [{partition: {file: a, n: 1.5}, offset: {position: 1}}, {partition: {n: true}, offset: ~}]
""",
    "connectors/b.properties": b"name=b\r\nconnector.class=X\nx=a\\\n  b\\u0041\xe9\n",
    "c.json": b'{"name": "c", "config": {"connector.class": "X", "a": "\\ud83d\\ude00"}}',
    "values/default.yaml": b"db: {password: hunter2}\ntopics: [t, u]\nhost: h\n",
    "values/prod.yaml": b"host: p\n",
    "policies/rules.yaml": b"rules: []\n",
    "password.txt": b"hunter2\n",
    "ca.pem": b"x",
}


@contextmanager
def project_of(files: dict[str, bytes]) -> Iterator[Path]:
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name, data in files.items():
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
        yield folder


def load(folder: Path) -> Desired:
    variables = {"PASSWORD": "hunter2"}
    return load_specs(load_project(folder / "connect.yaml", "prod", variables=variables))


def test_the_whole_is_valid() -> None:
    with project_of(FULL) as folder:
        assert list(load(folder).connectors) == ["b", "c", "prod-t", "prod-u", "source"]


FILES = st.sampled_from([name for name in FULL if name not in ("policies/rules.yaml", "ca.pem")])


@given(FILES, st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_any_bytes_are_read_or_invalid(name: str, data: bytes) -> None:
    with project_of({**FULL, name: data}) as folder:
        try:
            load(folder)
        except Invalid as invalid:
            assert invalid.diagnostics


PIECES = st.sampled_from(
    [
        *b"{}[]%#&*!|>'\"\\:,-? \n\t~<\x00\xff",
        b"{{",
        b"}}",
        b"{%",
        b"%}",
        b"${env:",
        b"---\n",
        b"<<: ",
    ]
).map(lambda piece: bytes([piece]) if isinstance(piece, int) else piece)


@st.composite
def changed(draw: st.DrawFn, data: bytes) -> bytes:
    """A few cuts, copies and insertions."""
    for _ in range(draw(st.integers(1, 4))):
        start, end = sorted(draw(st.tuples(*[st.integers(0, len(data))] * 2)))
        match draw(st.sampled_from(["cut", "copy", "insert"])):
            case "cut":
                data = data[:start] + data[min(end, start + 20) :]
            case "copy":
                data = data[:end] + data[start:end] + data[end:]
            case _:
                data = data[:start] + draw(PIECES) + data[start:]
    return data


@given(st.data(), FILES)
def test_any_change_is_read_or_invalid(data: st.DataObject, name: str) -> None:
    with project_of({**FULL, name: data.draw(changed(FULL[name]))}) as folder:
        try:
            load(folder)
        except Invalid as invalid:
            said = render_diagnostics(invalid.diagnostics)
            assert "hunter2" not in said
            assert all(str(each.where).rstrip("/") for each in invalid.diagnostics)


# no small letters: those are in our own words
SECRETS = st.text(
    string.ascii_uppercase + string.digits + "-._:#&*!'\" \\{}[]", min_size=12, max_size=24
)
NAMES = st.sampled_from(["password", "db_secret", "api_key", "token", "sasl_jaas_credentials"])
EXPRESSIONS = [
    "{{ NAME }}",
    "{{ [NAME] | join }}",
    "{{ db[NAME] }}",
    "{{ NAME + 1 }}",
    "{{ x[NAME].y }}",
]
BROKEN = [
    "HERE: 1\n",
    "name: HERE\nname: x\n",
    "name: a\nHERE: 1\nconfig: HERE\n",
    "name: a\nstate: HERE\nconfig: {x: HERE, HERE: 1, HERE: 2}\n",
    "name: a\nconfig: {connector.class: X, HERE: }\noffsets: {pin: HERE, to: HERE}\n",
    "name: b\nrenamed_from: HERE\nconfig: {connector.class: X}\n---\nname: HERE\nconfig: HERE\n",
    "name: HERE\nconfig: HERE\n---\nname: HERE\nconfig: HERE\n",
    "name: !HERE x\n",
    "name: *HERE\n",
    "{% HERE %}\n",
    "- HERE\n- {\n",
]


@given(SECRETS, NAMES, st.sampled_from(EXPRESSIONS), st.sampled_from(BROKEN), st.booleans())
def test_no_error_says_a_secret_of_the_values(
    secret: str, name: str, expression: str, broken: str, in_json: bool
) -> None:
    assume(secret.strip() == secret)
    text = broken.replace("HERE", expression.replace("NAME", name))
    files = {
        "connect.yaml": b"project: p\ncluster: {group.id: g}\n",
        "values/default.yaml": json.dumps({name: secret, "db": {"a": 1}}).encode(),
        f"connectors/a.{'json' if in_json else 'yaml'}": text.encode(),
    }
    with project_of(files) as folder:
        try:
            load_specs(load_project(folder / "connect.yaml"))
        except Invalid as invalid:
            said = render_diagnostics(invalid.diagnostics)
            assert secret not in said
            assert repr(secret)[1:-1] not in said
            assert secret not in str(invalid)


@given(st.text("{}%#'\\ a\n-", max_size=30))
def test_any_text_can_be_written_into_a_template(text: str) -> None:
    values = Values({}, None, ())
    assert rendered_source(escape_templates(text, values), "f", values).text == text
    assert escape_templates(text, None) == text
