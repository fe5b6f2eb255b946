"""Which classes do connectors have: source or sink, and which of their keys are passwords?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from connect_reconciler.plan.kinds import kind_of
from connect_reconciler.plan.live import Kind
from connect_runtime import plugins
from connect_runtime.api import ConnectorError
from connect_runtime.api.configdef import ConfigType
from connect_runtime.storage.snapshots import ConnectorState, OffsetSnapshot
from connect_specs.desired import Desired


def kinds_of(live: Iterable[ConnectorState], desired: Desired) -> dict[str, Kind]:
    """By class as specs and configs write it, for those that are installed here."""
    configs = [state.config for state in live]
    configs += [spec.config for spec in desired.connectors.values()]
    found: dict[str, Kind] = {}
    for name in {config.get("connector.class", "") for config in configs} - {""}:
        plugin = _plugin(name)
        if plugin is not None and plugin.kind != "converter":
            found[name] = plugin.kind
    return found


def _plugin(class_name: str) -> plugins.Plugin | None:
    try:
        return plugins.connector(class_name)
    except ConnectorError:
        return None


def live_kind(state: ConnectorState, kinds: Mapping[str, Kind], stored: OffsetSnapshot) -> Kind:
    told = kind_of(state.config, None, kinds)
    if told != "unknown":
        return told
    if state.name in stored.connectors:
        return "source"
    return "sink" if "topics" in state.config else "unknown"


def password_keys(
    live: Mapping[str, ConnectorState], desired: Desired
) -> dict[str, frozenset[str]]:
    """The keys whose type is PASSWORD in the class that is there or that the spec asks for."""
    found: dict[str, frozenset[str]] = {}
    for name in live.keys() | desired.connectors.keys():
        classes = set()
        if name in live:
            classes.add(live[name].config.get("connector.class", ""))
        if name in desired.connectors:
            classes.add(desired.connectors[name].config.get("connector.class", ""))
        keys = frozenset(key for each in classes - {""} for key in _passwords(each))
        if keys:
            found[name] = keys
    return found


def _passwords(class_name: str) -> Iterator[str]:
    plugin = _plugin(class_name)
    if plugin is not None:
        for key, definition in plugin.cls().config().keys.items():
            if definition.type is ConfigType.PASSWORD:
                yield key
