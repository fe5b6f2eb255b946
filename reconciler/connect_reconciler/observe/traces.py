"""Statuses as they may be shown: what failed tells, without the secrets of the connector's configs.

A trace is whatever the connector's code put into it, often the config itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from connect_reconciler.hiding import hide
from connect_reconciler.observe.classes import passwords_in
from connect_reconciler.plan.secrets.sensitive import Veil
from connect_runtime.herder.values import ConnectorStatus, InstanceStatus
from connect_specs.plugin_definitions import Definitions


def without_secrets(
    status: ConnectorStatus,
    configs: Collection[Mapping[str, str]],
    plugins: Definitions,
    sensitive: Callable[[str], Collection[str]],
    texts: tuple[str, ...] = (),
) -> ConnectorStatus:
    """`configs` are the connector's and its tasks'; `sensitive` are the keys that its spec names,
    and `texts` the project's secret values.

    Neither plugins nor specs are asked where nothing has failed.
    """
    parts = (status.connector, *status.tasks.values())
    if all(part.trace is None for part in parts):
        return status
    cover = cover_of(status.name, configs, plugins, sensitive, texts)

    def shown(part: InstanceStatus) -> InstanceStatus:
        trace = None if part.trace is None else hide(part.trace, cover, *configs)
        return replace(part, trace=trace)

    tasks = {number: shown(task) for number, task in status.tasks.items()}
    return replace(status, connector=shown(status.connector), tasks=tasks)


def cover_of(
    name: str,
    configs: Collection[Mapping[str, str]],
    plugins: Definitions,
    sensitive: Callable[[str], Collection[str]],
    texts: tuple[str, ...] = (),
) -> Veil:
    """Covers what is secret in these configs of a connector, by its plugins and its spec."""
    passwords = (passwords_in(config, plugins) for config in configs)
    return Veil(name, None, frozenset(sensitive(name)).union(*passwords), texts)
