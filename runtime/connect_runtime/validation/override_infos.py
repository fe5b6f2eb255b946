"""Client properties that a connector overrides, with the errors of their types, of the worker's
policy and of its clients.

client_keys.txt has a line for each property of Kafka's clients: the clients that have it (producer,
consumer, admin), its name, type, importance and default, as in connector_keys.txt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

from connect_runtime.api import ConfigDef, ConfigError, ConfigKey
from connect_runtime.api.configdef import HIDDEN, config_text, parse_value
from connect_runtime.java.scalars import java_trim
from connect_runtime.kafka.client_checks import override_errors
from connect_runtime.option_tables import define, sections
from connect_runtime.settings.connector_clients import (
    ADMIN,
    CONSUMER,
    DEAD_LETTERS_KEY,
    PREFIXES,
    PRODUCER,
    Kind,
    forbidden_overrides,
)
from connect_runtime.settings.worker_config import WorkerConfig
from connect_runtime.validation.infos import ConfigInfo, ValueInfo
from connect_specs.secrets import is_secret_name

Config = Mapping[str, str | None]

_TABLE: Final = Path(__file__).with_name("client_keys.txt")
_CLIENTS: Final = {PRODUCER: "p", CONSUMER: "c", ADMIN: "a"}


@cache
def client_keys(prefix: str) -> Mapping[str, ConfigKey]:
    """Returns the properties of the client that `prefix` overrides, by their names without it."""
    definitions = ConfigDef()
    for row in sections(_TABLE)["clients"]:
        if _CLIENTS[prefix] in row["clients"]:
            name = row["name"]
            client = prefix.partition(".")[0]
            doc = f"Kafka's {client} property {name}, as Kafka documents it"
            define(definitions, row, documentation=doc)
    return definitions.keys


def override_infos(config: Config, kind: Kind, worker: WorkerConfig) -> list[ConfigInfo]:
    """Returns the overrides of the clients that the connector has, as Connect does: a sink without
    a dead letter queue has a consumer only. Overrides of its other clients are returned if they
    have an error."""
    unfit = dict(override_errors(config, worker.resolved_properties))
    texts = {key: f"Invalid value for configuration {key}: {error}" for key, error in unfit.items()}
    texts |= dict(forbidden_overrides(config, worker.resolved_properties, kind))
    dead_letters = java_trim(config.get(DEAD_LETTERS_KEY) or "")
    prefixes = PREFIXES if kind == "source" or dead_letters else (CONSUMER,)
    infos = []
    for prefix in PREFIXES:
        overrides = {
            key.removeprefix(prefix): value
            for key, value in config.items()
            if key.startswith(prefix) and key != prefix
        }
        infos += [
            _info(prefix, name, value, texts.get(f"{prefix}{name}"))
            for name, value in overrides.items()
            if prefix in prefixes or f"{prefix}{name}" in texts
        ]
    return infos


def _info(prefix: str, name: str, value: str | None, error: str | None) -> ConfigInfo:
    """Returns one override. Secrets stay hidden, also those that no client defines."""
    key = client_keys(prefix).get(name)
    text = value
    if key is not None:
        try:
            text = config_text(parse_value(name, value, key.type), key.type)
        except ConfigError as invalid:
            error = str(invalid)
    full = f"{prefix}{name}"
    if text is not None and is_secret_name(full):
        text = HIDDEN
    errors = () if error is None else (error,)
    return ConfigInfo(key and replace(key, name=full), ValueInfo(full, text, errors=errors))
