"""Client properties in connect.yaml: slips are refused, what is only unknown is warned of."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect_specs.desired import Project
from connect_specs.diagnostics import Invalid
from connect_specs.plain_text import render_diagnostics
from connect_specs.project import load_project


def load(folder: Path, properties: str) -> Project:
    file = folder / "connect.yaml"
    text = (
        f"project: p\ncluster:\n  group.id: g\n  kafka:\n    bootstrap.servers: b:1\n{properties}"
    )
    file.write_text(text)
    return load_project(file, variables={})


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("security.protocl", "did you mean 'security.protocol'?"),
        ("Security.Protocol", "did you mean 'security.protocol'?"),
        ("sasl.username", "write sasl.jaas.config"),
        ("sasl.mechanisms", "write sasl.mechanism"),
        ("ssl.ca.location", "write ssl.truststore.location, with ssl.truststore.type: PEM"),
        ("consumer.fetch.max.bytes", "write fetch.max.bytes, or move it to 'worker'"),
    ],
)
def test_a_slip_is_refused_where_it_stands(tmp_path: Path, key: str, hint: str) -> None:
    with pytest.raises(Invalid) as caught:
        load(tmp_path, f"    {key}: x\n")
    text = render_diagnostics(caught.value.diagnostics)
    assert text.startswith("error[project.client-property]: connect.yaml:6:5: ")
    assert text.endswith(f"  hint: {hint}\n")


def test_a_property_of_something_else_is_a_warning(tmp_path: Path) -> None:
    project = load(tmp_path, "    acme.interceptor.url: http://x\n    sasl.login.class: a.B\n")
    assert render_diagnostics(project.warnings, "warning") == (
        "warning[project.client-property]: connect.yaml:6:5: "
        "Kafka's clients have no property 'acme.interceptor.url'; it has no effect\n"
        "  hint: remove it, or correct its name\n"
    )


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("security.protocol: SASL-SSL", "did you mean 'SASL_SSL'?"),
        ("security.protocol: ''", "known here: PLAINTEXT, SASL_PLAINTEXT, SASL_SSL, SSL"),
        ("sasl.mechanism: SCRAM-SHA-521", "did you mean 'SCRAM-SHA-512'?"),
        ("security.protocol: sasl_ssl", None),
    ],
)
def test_a_word_that_no_client_knows_is_refused(
    tmp_path: Path, text: str, hint: str | None
) -> None:
    if hint is None:
        assert load(tmp_path, f"    {text}\n").kafka
        return
    with pytest.raises(Invalid) as caught:
        load(tmp_path, f"    {text}\n")
    (found,) = caught.value.diagnostics
    assert (str(found.where), found.hint) == ("connect.yaml:6:5", hint)
