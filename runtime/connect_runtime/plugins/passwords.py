"""Which keys of a connector's config are passwords, by its own definition? Their values are kept
out of traces, whatever their names."""

from __future__ import annotations

from collections.abc import Mapping

from connect_runtime.api import ConfigType
from connect_runtime.plugins import registry


def password_keys(config: Mapping[str, str]) -> frozenset[str]:
    """Returns the keys of type PASSWORD; none if the connector's definition is not available."""
    try:
        definition = registry.connector(config["connector.class"]).cls().config()
        return frozenset(key.name for key in definition if key.type is ConfigType.PASSWORD)
    except (Exception, SystemExit):  # of a plugin's code: the error must still be reported
        return frozenset()
