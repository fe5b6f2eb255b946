"""Handles config-provider references in validation: shown as written, partly unchecked. Pure.

Unlike Apache's, the answer shows such values as they are written, and no error quotes a provided
value.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from connect_runtime.api import ConfigType
from connect_runtime.config_providers.references import aliases, references
from connect_runtime.config_providers.registry import UnresolvedReference
from connect_runtime.validation.infos import ConfigInfo, ConfigInfos, ValueInfo
from connect_specs.secrets import Redactor

Config = Mapping[str, str | None]


def referring_keys(config: Config, worker: Mapping[str, str]) -> frozenset[str]:
    """Returns the keys whose values refer to a provider that the worker's properties declare."""
    known = aliases(worker)
    return frozenset(
        key
        for key, value in config.items()
        if value is not None and any(each.provider in known for each in references(value))
    )


def as_written(
    infos: ConfigInfos,
    config: Config,
    referring: Collection[str],
    problems: Collection[UnresolvedReference],
    redactor: Redactor,
) -> ConfigInfos:
    """Turns the answer about a resolved config into one about `config`: values of `referring` keys
    as written, texts redacted, and `problems` as the only errors of their keys."""
    texts = {each.key: tuple(p.text for p in problems if p.key == each.key) for each in problems}
    configs: list[ConfigInfo] = []
    for info in infos.configs:
        value = info.value
        if value is None:
            configs.append(info)
            continue
        found = replace(
            value,
            value=_shown(info, config) if value.name in referring else value.value,
            recommended=tuple(map(redactor.redact, value.recommended)),
            errors=texts.pop(value.name, tuple(map(redactor.redact, value.errors))),
        )
        configs.append(replace(info, value=found))
    unknown = [
        ConfigInfo(None, ValueInfo(key, config.get(key), errors=errors))
        for key, errors in texts.items()
    ]
    return replace(
        infos,
        name=config.get("connector.class") or infos.name,
        configs=(*unknown, *configs),
    )


def unchecked(infos: ConfigInfos, referring: Collection[str]) -> ConfigInfos:
    """Returns the answer without errors of `referring` keys, whose values are unknown here."""
    configs: list[ConfigInfo] = []
    for info in infos.configs:
        if info.value is not None and info.value.name in referring:
            configs.append(replace(info, value=replace(info.value, errors=())))
        else:
            configs.append(info)
    return replace(infos, configs=tuple(configs))


def _shown(info: ConfigInfo, config: Config) -> str | None:
    assert info.value is not None, "asked for keys with a value"
    is_password = info.key is not None and info.key.type is ConfigType.PASSWORD
    return info.value.value if is_password else config.get(info.value.name)
