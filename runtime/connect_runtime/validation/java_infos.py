"""Has Connect's own code validate configs of Java connectors, in a JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from connect_runtime.config_providers.references import holds_reference
from connect_runtime.engine.catalog import TIMEOUT, used_catalog
from connect_runtime.engine.jvm_connection import JvmEnded
from connect_runtime.herder.verbs import Refusal, RequestError
from connect_runtime.plugins import sides
from connect_runtime.plugins.definitions import java_key
from connect_runtime.settings.jvm_options import (
    OPTIONS_KEY,
    TASKS_KEY,
    options_problem,
    tasks_problem,
)
from connect_runtime.traces import JavaError
from connect_runtime.validation.infos import Config, ConfigInfo, ConfigInfos, ValueInfo
from connect_runtime.waiting import TakesTooLong


def validate_java(config: Config) -> ConfigInfos:
    """Returns Apache's answer to the config, with values that hold references as they are written,
    and no text that quotes what they stand for. Raises RequestError as Apache refuses a create;
    its cause is the JavaError, if there is one."""
    catalog = used_catalog()
    assert catalog is not None, "it has named the connector's class"
    try:
        validation = catalog.validate(config)
    except JavaError as error:
        if error.type == TIMEOUT:
            raise RequestError(500, error.text, Refusal.PLUGIN_FAILED) from None
        refusal = Refusal.PLUGIN_FAILED if error.status >= 500 else None
        raise RequestError(error.status, error.text, refusal) from error
    except JvmEnded as error:
        raise RequestError(500, str(error), Refusal.PLUGIN_FAILED) from error
    except TakesTooLong:
        raise RequestError(500, "Request timed out", Refusal.PLUGIN_FAILED) from None
    answer = validation.answer
    infos = [_info(info, config, validation.redact) for info in answer["configs"]]
    errors = dict(sides.wrong_side(config))
    defined = {info.value.name for info in infos if info.value is not None}
    further = [
        ConfigInfo(None, ValueInfo(key, config.get(key), errors=(error,)))
        for key, error in errors.items()
        if key not in defined
    ]
    configs = (*_of_jvm(config), *further, *(_with_error(info, errors) for info in infos))
    return ConfigInfos(answer["name"], tuple(answer["groups"]), configs)


def _of_jvm(config: Config) -> Iterator[ConfigInfo]:
    """Yields the keys that are not Connect's and whose values are refused."""
    for key, problem_of in ((OPTIONS_KEY, options_problem), (TASKS_KEY, tasks_problem)):
        text = config.get(key)
        problem = None if text is None else problem_of(text)
        if problem is not None:
            error = f"Invalid value {text} for configuration {key}: {problem}"
            yield ConfigInfo(None, ValueInfo(key, text, errors=(error,)))


def _with_error(info: ConfigInfo, errors: Mapping[str, str]) -> ConfigInfo:
    """Returns the key with the error of a class that is Python's: Java says only that there is no
    such class."""
    value = info.value
    if value is None or value.name not in errors:
        return info
    texts = [text for text in value.errors if "could not be found" not in text]
    return replace(info, value=replace(value, errors=(*texts, errors[value.name])))


def _info(info: Mapping[str, Any], config: Config, redact: Callable[[str], str]) -> ConfigInfo:
    definition, value = info["definition"], info["value"]
    return ConfigInfo(
        None if definition is None else java_key(definition),
        None if value is None else _value(value, config, redact),
    )


def _value(value: Mapping[str, Any], config: Config, redact: Callable[[str], str]) -> ValueInfo:
    name, answer = value["name"], value["value"]
    text = config.get(name)
    if text is not None and holds_reference(text):
        answer = text
    elif answer is not None and answer != text:
        # a plugin may put what it has resolved into another key
        answer = redact(answer)
    return ValueInfo(
        name,
        answer,
        tuple(value["recommended_values"]),
        tuple(redact(error) for error in value["errors"]),
        value["visible"],
    )
