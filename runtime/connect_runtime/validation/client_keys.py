"""Defines the properties of Kafka's clients, as Connect shows those that a connector overrides.

client_keys.txt has a line for each of their properties: the clients that have it (producer,
consumer, admin), its name, type, importance and default: `!` is none, `-` null, `''` the empty
text.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from connect_runtime.api import NO_DEFAULT, ConfigDef, ConfigKey, ConfigType, Importance
from connect_runtime.settings.connector_clients import ADMIN, CONSUMER, PRODUCER

_TABLE: Final = Path(__file__).with_name("client_keys.txt")
_CLIENTS: Final = {PRODUCER: "p", CONSUMER: "c", ADMIN: "a"}

_DEFAULTS: Final = {"!": NO_DEFAULT, "-": None, "''": ""}


@cache
def client_keys(prefix: str) -> Mapping[str, ConfigKey]:
    """Returns the properties of the client that `prefix` overrides, by their names without it."""
    found = ConfigDef()
    for line in _TABLE.read_text().splitlines():
        clients, name, type, importance, default = line.split(" ", 4)
        if _CLIENTS[prefix] in clients:
            found.define(
                name,
                ConfigType[type],
                _DEFAULTS.get(default, default),
                importance=Importance[importance],
                doc=f"Kafka's {prefix.partition('.')[0]} property {name}, as Kafka documents it",
            )
    return found.keys
