"""Tells of the client properties that a connector overrides, with the errors of their types, of the
worker's policy and of its clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from connect_runtime.api import ConfigError
from connect_runtime.api.configdef import HIDDEN, config_text, parse_value
from connect_runtime.api.java_text import java_trim
from connect_runtime.kafka.client_checks import override_errors
from connect_runtime.settings.connector_clients import (
    CONSUMER,
    DEAD_LETTERS_KEY,
    PREFIXES,
    Kind,
    forbidden_overrides,
)
from connect_runtime.settings.worker_config import WorkerConfig
from connect_runtime.validation.client_keys import client_keys
from connect_runtime.validation.infos import ConfigInfo, ValueInfo
from connect_specs.java_map import in_hash_map_order
from connect_specs.secrets import is_secret_name

Config = Mapping[str, str | None]


def override_infos(config: Config, kind: Kind, worker: WorkerConfig) -> list[ConfigInfo]:
    """Returns the overrides of the clients that the connector has, as Connect does: a sink without
    a dead letter queue has a consumer only. Those of others are told if they have an error."""
    unfit = dict(override_errors(config, worker.resolved_properties))
    texts = {key: f"Invalid value for configuration {key}: {why}" for key, why in unfit.items()}
    texts |= dict(forbidden_overrides(config, worker.resolved_properties, kind))
    dead_letters = java_trim(config.get(DEAD_LETTERS_KEY) or "")
    shown = PREFIXES if kind == "source" or dead_letters else (CONSUMER,)
    found = []
    for prefix in PREFIXES:
        given = {
            key.removeprefix(prefix): value
            for key, value in in_hash_map_order(config).items()
            if key.startswith(prefix) and key != prefix
        }
        found += [
            _info(prefix, name, value, texts.get(f"{prefix}{name}"))
            for name, value in in_hash_map_order(given).items()
            if prefix in shown or f"{prefix}{name}" in texts
        ]
    return found


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
