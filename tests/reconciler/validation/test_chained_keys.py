"""What no transformation can have meant: told by `connect validate`, with file, line and column."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from connect_reconciler.backend.plugins import InstalledDefinitions, InstalledPlugins, locked
from connect_reconciler.validation.configs import check_specs
from connect_reconciler.validation.keys import mistyped_options, undefined_predicates
from connect_specs.desired import Desired
from connect_specs.diagnostics import Diagnostic
from connect_specs.plugin_definitions import KeyDefinition, PluginDefinition, PluginSet
from connect_specs.project import load_project
from support.spec_files import load_connectors

MASK = "org.apache.kafka.connect.transforms.MaskField$Value"
CHAIN = {"transforms": "a", "transforms.a.type": "Filter", "transforms.a.predicate": "empty"}
THEIRS = PluginSet(
    (
        PluginDefinition(
            "com.example.Mask", "transformation", "1", {"field": KeyDefinition("field", "STRING")}
        ),
    )
)


@pytest.mark.parametrize(
    ("config", "hint"),
    (
        (CHAIN, "add empty to 'predicates', with its type"),
        ({**CHAIN, "predicates": "emptyy"}, "did you mean emptyy?"),
        ({**CHAIN, "predicates": "other"}, "add empty to 'predicates', with its type"),
        ({**CHAIN, "predicates": "other, empty"}, None),
        ({**CHAIN, "predicates": "${env:P}"}, None),
        ({**CHAIN, "transforms.a.predicate": "${env:P}"}, None),
        ({**CHAIN, "transforms.a.predicate": " "}, None),
        ({**CHAIN, "transforms": "b"}, None),
    ),
)
def test_undefined_predicates(config: dict[str, str], hint: str | None) -> None:
    found = [(each.key, each.hint) for each in undefined_predicates(config)]
    assert found == ([] if hint is None else [("transforms.a.predicate", hint)])


@pytest.mark.parametrize(
    ("kind", "option", "hint"),
    (
        (MASK, "replacment", "did you mean transforms.a.replacement?"),
        (MASK, "field", "did you mean transforms.a.fields?"),
        (MASK, "predicat", "did you mean transforms.a.predicate?"),
        (MASK, "fields", None),
        (MASK, "negate", None),
        (MASK, "plugin.version", None),
        (MASK, "wholly.other", None),
        ("com.example.Mask", "fild", None),
        ("com.example.Unknown", "fild", None),
    ),
)
def test_mistyped_options(kind: str, option: str, hint: str | None) -> None:
    config = {"transforms": "a", "transforms.a.type": kind, f"transforms.a.{option}": "x"}
    plugins = InstalledDefinitions() if kind == MASK else THEIRS
    found = [(each.key, each.hint) for each in mistyped_options(config, plugins)]
    assert found == ([] if hint is None else [(f"transforms.a.{option}", hint)])


PROJECT = """\
project: p
cluster:
  group.id: g
  kafka: {bootstrap.servers: "localhost:1"}
"""
TARGET = "  target: {rest: 'http://localhost:8083'}\n"
SPEC = f"""\
name: a
config:
  connector.class: FileStreamSink
  topics: t
  file: /tmp/out
  transforms: mask, route
  transforms.mask.type: {MASK}
  transforms.mask.fields: card
  transforms.mask.replacment: x
  transforms.mask.predicate: emty
  transforms.route.type: RegexRouter
  transforms.route.regex: "["
  transforms.route.replacement: x
  predicates: empty
  predicates.empty.type: RecordIsTombstone
"""


def checked(folder: Path, spec: str, project: str = PROJECT) -> list[Diagnostic]:
    (folder / "connect.yaml").write_text(project)
    (folder / "a.yaml").write_text(spec)
    desired = Desired("p", load_connectors([folder / "a.yaml"], folder))
    return list(check_specs(load_project(folder / "connect.yaml"), desired))


@pytest.mark.parametrize("target", ("", TARGET))
def test_each_error_has_its_place_and_what_was_meant(tmp_path: Path, target: str) -> None:
    """Of our runtime and of a Connect cluster, which have the same transformations."""
    found = checked(tmp_path, SPEC, PROJECT + target)
    said = [(each.code, each.severity, str(each.where), each.hint) for each in found]
    expression = "correct transforms.route.regex in the spec's config"
    assert said == [
        (
            "config.unknown-option",
            "error",
            "a.yaml:9:3",
            "did you mean transforms.mask.replacement?",
        ),
        ("config.undefined-predicate", "error", "a.yaml:10:3", "did you mean empty?"),
        ("config.refused", "error", "a.yaml:12:3", expression),
    ]


def test_a_missing_option_and_an_unknown_class(tmp_path: Path) -> None:
    spec = SPEC.replace("RegexRouter", "RegexRooter").replace(
        "  transforms.mask.fields: card\n", ""
    )
    refused = [each for each in checked(tmp_path, spec) if each.code == "config.refused"]
    assert [(str(each.where), each.what, each.hint) for each in refused] == [
        (
            "a.yaml:7:3",
            'a: Missing required configuration "transforms.mask.fields" which has no default '
            "value.",
            "correct transforms.mask.fields in the spec's config",
        ),
        (
            "a.yaml:10:3",
            "a: Invalid value RegexRooter for configuration transforms.route.type: Class "
            "RegexRooter could not be found.",
            "did you mean RegexRouter? `connect plugins list` shows all classes",
        ),
    ]


@pytest.mark.parametrize("regex", (r"(?U)\w+", r"\p{IsGreek}", "(?<=a+)b"))
def test_expressions_that_only_java_has_are_refused_by_our_runtime_alone(
    tmp_path: Path, regex: str
) -> None:
    spec = (
        "name: a\nconfig:\n  connector.class: FileStreamSink\n  file: /tmp/out\n"
        f"  topics.regex: '{regex}'\n  transforms: r\n  transforms.r.type: RegexRouter\n"
        f"  transforms.r.regex: '{regex}'\n  transforms.r.replacement: x\n"
    )
    assert [str(each.where) for each in checked(tmp_path, spec)] == ["a.yaml:5:3", "a.yaml:8:3"]
    assert checked(tmp_path, spec, PROJECT + TARGET) == []


def test_values_of_connects_own_classes_are_checked_for_any_cluster(tmp_path: Path) -> None:
    spec = (
        "name: a\nconfig:\n  connector.class: com.acme.OrdersSink\n  topics: t\n  transforms: h\n"
        "  transforms.h.type: org.apache.kafka.connect.transforms.HeaderFrom$Value\n"
        "  transforms.h.fields: x\n  transforms.h.headers: x\n  transforms.h.operation: shift\n"
    )
    found = [each for each in checked(tmp_path, spec, PROJECT + TARGET) if each.severity == "error"]
    assert [(str(each.where), each.what) for each in found] == [
        (
            "a.yaml:9:3",
            "a: Invalid value shift for configuration operation: String must be one of: move, copy",
        )
    ]


def test_a_class_of_an_unlisted_module_is_not_imported(tmp_path: Path) -> None:
    found = checked(tmp_path, SPEC.replace("type: RegexRouter", "type: this:Router"))
    (refused,) = [each for each in found if each.code == "config.refused"]
    assert str(refused.where) == "a.yaml:11:3"
    assert refused.hint == 'add `plugin.modules: "this"` to connect.yaml, under cluster: worker:'
    assert "this" not in sys.modules


def test_a_lock_holds_the_transformations_and_predicates_that_specs_name(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(SPEC)
    desired = Desired("p", load_connectors([tmp_path / "a.yaml"], tmp_path))
    found = {
        plugin.class_name.rpartition(".")[2]: plugin
        for plugin in locked(InstalledPlugins(), desired).plugins
    }
    chain = {
        name for name, plugin in found.items() if plugin.type in ("transformation", "predicate")
    }
    assert chain == {"MaskField$Value", "RegexRouter", "RecordIsTombstone"}
    assert found["MaskField$Value"].keys["fields"].required
    assert found["MaskField$Value"].version == found["FileStreamSinkConnector"].version
    assert not found["RecordIsTombstone"].keys
