"""Which classes do connectors have: source or sink, and which of their keys are passwords?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from connect_reconciler.plan.checks.config import keys_of_parts
from connect_reconciler.plan.kinds import kind_of
from connect_reconciler.plan.live import Kind, Owned
from connect_reconciler.plan.secrets.sensitive import recorded_secrets
from connect_runtime.storage.snapshots import ConnectorState, OffsetSnapshot
from connect_specs.desired import Desired
from connect_specs.plugin_definitions import CONNECTORS, SOURCE, Definitions, KeyDefinition
from connect_specs.value_secrets import holds_text

_CLASS = "connector.class"


def kinds_of(
    live: Iterable[ConnectorState], desired: Desired, plugins: Definitions
) -> dict[str, Kind]:
    """By class as specs and configs write it, for those that are known."""
    configs = [state.config for state in live]
    configs += [spec.config for spec in desired.connectors.values()]
    found: dict[str, Kind] = {}
    for name in {config.get(_CLASS, "") for config in configs} - {""}:
        plugin = plugins.find(name, CONNECTORS)
        if plugin is not None:
            found[name] = "source" if plugin.type == SOURCE else "sink"
    return found


def live_kind(state: ConnectorState, kinds: Mapping[str, Kind], stored: OffsetSnapshot) -> Kind:
    told = kind_of(state.config, None, kinds)
    if told != "unknown":
        return told
    if state.name in stored.connectors:
        return "source"
    return "sink" if "topics" in state.config else "unknown"


def password_keys(
    live: Mapping[str, ConnectorState],
    desired: Desired,
    plugins: Definitions,
    owned: Mapping[str, Owned],
) -> dict[str, frozenset[str]]:
    """By connector, the keys whose type is PASSWORD in the plugins that it names or is to name.

    Also those that hold a secret value of `values/`, and those that the last apply took for secret
    and that the spec has not any more: what it said of them is gone.
    """
    found: dict[str, frozenset[str]] = {}
    secrets = desired.secrets
    for name in live.keys() | desired.connectors.keys():
        keys: set[str] = set()
        if name in live:
            keys |= passwords_in(live[name].config, plugins)
            config = live[name].config.items()
            keys |= {key for key, text in config if secrets and holds_text(text, secrets)}
        spec = desired.connectors.get(name)
        if spec is not None:
            keys |= passwords_in(spec.config, plugins)
        if name in owned:
            kept = () if spec is None else spec.config
            keys |= recorded_secrets(owned[name].config).difference(kept)
        if keys:
            found[name] = frozenset(keys)
    return found


def passwords_in(config: Mapping[str, str], plugins: Definitions) -> frozenset[str]:
    """The keys whose type is PASSWORD in the plugins that this config names."""
    connector = plugins.find(config.get(_CLASS, ""), CONNECTORS)
    own = () if connector is None else connector.keys.values()
    return passwords((*own, *keys_of_parts(config, plugins).values()))


def passwords(keys: Iterable[KeyDefinition]) -> frozenset[str]:
    return frozenset(key.name for key in keys if key.type == "PASSWORD")
