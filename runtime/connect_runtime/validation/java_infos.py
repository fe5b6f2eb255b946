"""Has Connect's own code validate configs of Java connectors, in a JVM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from connect_runtime.config_providers.references import holds_reference
from connect_runtime.engine.catalog import used_catalog
from connect_runtime.engine.jvm import JvmEnded
from connect_runtime.herder.verbs import Refusal, RequestError
from connect_runtime.plugins.definitions import java_key
from connect_runtime.settings.jvm_options import OPTIONS_KEY, options_problem
from connect_runtime.traces import JavaError
from connect_runtime.validation.infos import Config, ConfigInfo, ConfigInfos, ValueInfo
from connect_runtime.waiting import TakesTooLong


def validate_java(config: Config) -> ConfigInfos:
    """Returns Apache's answer to the config, with values that hold references as they are written,
    and no error that quotes what they stand for. Raises RequestError with Apache's status."""
    catalog = used_catalog()
    assert catalog is not None, "it has named the connector's class"
    try:
        answer = catalog.validate(config)
    except JavaError as error:
        text = error.text if error.status < 500 else str(error)
        raise RequestError(error.status, text) from error
    except JvmEnded as error:
        raise RequestError(500, str(error), Refusal.PLUGIN_FAILED) from error
    except TakesTooLong:
        raise RequestError(500, "Request timed out", Refusal.PLUGIN_FAILED) from None
    infos = (_info(info, config, catalog.redact) for info in answer["configs"])
    return ConfigInfos(answer["name"], tuple(answer["groups"]), (*_of_jvm(config), *infos))


def _of_jvm(config: Config) -> Iterator[ConfigInfo]:
    """Yields the key that is not Connect's if its options are refused."""
    text = config.get(OPTIONS_KEY)
    problem = None if text is None else options_problem(text)
    if problem is not None:
        error = f"Invalid value {text} for configuration {OPTIONS_KEY}: {problem}"
        yield ConfigInfo(None, ValueInfo(OPTIONS_KEY, text, errors=(error,)))


def _info(info: Mapping[str, Any], config: Config, redact: Any) -> ConfigInfo:
    definition, value = info["definition"], info["value"]
    return ConfigInfo(
        None if definition is None else java_key(definition),
        None if value is None else _value(value, config, redact),
    )


def _value(value: Mapping[str, Any], config: Config, redact: Any) -> ValueInfo:
    name = value["name"]
    text = config.get(name)
    refers = text is not None and holds_reference(text)
    return ValueInfo(
        name,
        text if refers else value["value"],
        tuple(value["recommended_values"]),
        tuple(redact(error) for error in value["errors"]),
        value["visible"],
    )
