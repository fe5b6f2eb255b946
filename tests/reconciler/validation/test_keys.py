"""What definitions say about configs: slips are told, and what may be meant is left alone.

The cases are in keys.yaml.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from connect_reconciler.backend.plugins import InstalledDefinitions
from connect_reconciler.validation.keys import (
    mistyped_options,
    sensitive_slips,
    slips,
    undefined_predicates,
    unknown_keys,
    wrong_values,
)
from connect_specs.plugin_definitions import KeyDefinition, PluginDefinition, PluginSet, keys_of

CASES = yaml.safe_load(Path(__file__).with_name("keys.yaml").read_text())
PLUGINS = PluginSet(
    tuple(
        PluginDefinition(
            name,
            kind,
            "1.0",
            {
                key: KeyDefinition(key, type_.rstrip("!"), type_.endswith("!"))
                for key, type_ in keys
            },
        )
        for name, definition in CASES["plugins"].items()
        for kind, keys in ((kind, types.items()) for kind, types in definition.items())
    )
)
MASK = PluginDefinition(
    "com.example.Mask", "transformation", "1", {"field": KeyDefinition("field", "STRING")}
)


@pytest.mark.parametrize(("config", "errors"), CASES["values"])
def test_wrong_values(config: dict[str, str], errors: dict[str, str]) -> None:
    keys = keys_of(config, PLUGINS)
    assert keys is not None
    assert {finding.key: finding.error for finding in wrong_values(config, keys)} == errors


@pytest.mark.parametrize(("config", "hints"), CASES["unknown keys"])
def test_unknown_keys(config: dict[str, str], hints: dict[str, str]) -> None:
    keys = keys_of(config, PLUGINS)
    assert keys is not None
    assert {finding.key: finding.hint for finding in unknown_keys(config, keys)} == hints


@pytest.mark.parametrize(("name", "known"), CASES["names"].items())
def test_names_that_a_class_goes_by(name: str, known: bool) -> None:
    assert (keys_of({"connector.class": name}, PLUGINS) is not None) is known


@pytest.mark.parametrize(("key", "value", "says", "hint"), CASES["slips"])
def test_a_slip(key: str, value: str, says: str, hint: str) -> None:
    (found,) = slips({"name": "c", key: value}, is_sink=True)
    assert found.key == key
    assert says in found.error
    assert found.hint.startswith(hint)


def test_the_group_of_icebergs_sink_is_named_twice() -> None:
    """The trap: it elects the task that commits among the members of the group that it knows."""
    iceberg = {
        "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
        "consumer.override.group.id": "g",
    }
    (slip,) = slips(iceberg, is_sink=True)
    assert "adds nothing to its tables" in slip.error
    assert slip.hint == "write iceberg.connect.group-id: g"
    assert list(slips(iceberg | {"iceberg.connect.group-id": "g"}, is_sink=True)) == []
    assert list(slips({"consumer.override.group.id": "g"}, is_sink=True)) == []


@pytest.mark.parametrize(("key", "value"), CASES["no slips"])
def test_no_slip(key: str, value: str) -> None:
    assert list(slips({key: value}, is_sink=True)) == []


def test_a_sources_topics_may_be_patterns() -> None:
    assert list(slips({"topics": "a.*, b c"}, is_sink=False)) == []


def test_a_sensitive_key_that_is_nearly_one() -> None:
    config = {"passphrase": "x", "url": "y"}
    found = list(sensitive_slips(["pasphrase", "passphrase", "pass*", "gone.by.now"], config))
    assert found == [("pasphrase", "passphrase")]


@pytest.mark.parametrize(("class_name", "option", "hint"), CASES["options of transformations"])
def test_mistyped_options_of_transformations(
    class_name: str, option: str, hint: str | None
) -> None:
    config = {"transforms": "a", "transforms.a.type": class_name, f"transforms.a.{option}": "x"}
    is_ours = class_name.startswith("org.apache.")
    plugins = InstalledDefinitions() if is_ours else PluginSet((MASK,))
    found = [(each.key, each.hint) for each in mistyped_options(config, plugins)]
    assert found == ([] if hint is None else [(f"transforms.a.{option}", hint)])


@pytest.mark.parametrize(("changes", "hint"), CASES["predicates"])
def test_undefined_predicates(changes: dict[str, str], hint: str | None) -> None:
    chain = {"transforms": "a", "transforms.a.type": "Filter", "transforms.a.predicate": "empty"}
    found = [(each.key, each.hint) for each in undefined_predicates(chain | changes)]
    assert found == ([] if hint is None else [("transforms.a.predicate", hint)])
