"""What a plugin's upgrade changes, in words."""

from __future__ import annotations

from dataclasses import replace

from connect_reconciler.render.plugin_changes import PluginChange, plugin_changes
from connect_specs.plugin_definitions import KeyDefinition, PluginDefinition, PluginSet

SIZE = KeyDefinition("batch.size", "INT", default="2000")
OLD = PluginDefinition(
    "com.example.Sink",
    "sink",
    "1.0",
    {
        "batch.size": SIZE,
        "gone": KeyDefinition("gone", "STRING", default=""),
        "same": KeyDefinition("same", "STRING", required=True),
    },
)
NEW = replace(
    OLD,
    version="2.0",
    keys={
        "same": OLD.keys["same"],
        "batch.size": replace(SIZE, type="LONG", default=None, required=True, dependents=("same",)),
        "fresh": KeyDefinition("fresh", "PASSWORD"),
        "must": KeyDefinition("must", "LIST", required=True),
    },
)


def test_what_differs_is_told_key_by_key() -> None:
    """What an upgrade changes against the lock file of plugins."""
    assert plugin_changes(PluginSet((OLD,)), PluginSet((NEW,))) == (
        PluginChange(
            "com.example.Sink",
            "sink",
            "1.0 → 2.0",
            (
                "+ fresh: PASSWORD, default none",
                "+ must: LIST, required",
                '- gone: was STRING, default ""',
                "~ batch.size: default 2000 → none, dependents none → same, required now,"
                " type INT → LONG",
            ),
        ),
    )


def test_plugins_that_come_and_go() -> None:
    other = PluginDefinition("com.example.Mask", "transformation", None)
    assert plugin_changes(PluginSet((OLD,)), PluginSet((other,))) == (
        PluginChange("com.example.Mask", "transformation", "is new, no version"),
        PluginChange("com.example.Sink", "sink", "is gone, was 1.0"),
    )


def test_the_same_in_another_order_is_no_change() -> None:
    turned = replace(OLD, keys=dict(reversed(OLD.keys.items())))
    assert plugin_changes(PluginSet((OLD,)), PluginSet((turned,))) == ()
