"""Validates a connector's config and reports the errors of each key.

`validate` answers key by key, `check` refuses. Neither starts anything; any thread may call them.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import cast

from connect_runtime.api import (
    ConfigDef,
    ConfigError,
    ConfigValue,
    Connector,
    ConnectorError,
    SourceConnector,
)
from connect_runtime.api.configdef import HIDDEN, config_text, parse_value
from connect_runtime.api.validators import INVALID_REGEX
from connect_runtime.config_providers.registry import ConfigProviders
from connect_runtime.herder.verbs import Refusal, RequestError
from connect_runtime.java import regex as java_regex
from connect_runtime.java.scalars import java_text, java_trim
from connect_runtime.kafka.client_checks import override_errors
from connect_runtime.plugins import registry
from connect_runtime.plugins.definitions import (
    NoDefinition,
    NotADefinition,
    definition_of,
    password_keys,
)
from connect_runtime.plugins.modules import UnlistedModule
from connect_runtime.plugins.registry import CONVERTER_KINDS, Plugin
from connect_runtime.plugins.sides import is_java
from connect_runtime.settings.connector_clients import (
    CONSUMER,
    DEAD_LETTERS_KEY,
    PREFIXES,
    Kind,
    forbidden_overrides,
)
from connect_runtime.settings.worker_config import WorkerConfig
from connect_runtime.tasks.launch import exactly_once
from connect_runtime.validation import rules
from connect_runtime.validation.chains import (
    check_members,
    check_negations,
    generic_definitions,
    member_definitions,
    members,
)
from connect_runtime.validation.connector_keys import (
    client_keys,
    connector_definitions,
    topic_creation_definitions,
)
from connect_runtime.validation.infos import (
    ConfigInfo,
    ConfigInfos,
    Findings,
    ValueInfo,
    as_written,
    prefixed,
    referring_keys,
    unchecked,
)
from connect_runtime.validation.java_infos import validate_java
from connect_runtime.validation.plugin_choice import choose, version_errors
from connect_runtime.waiting import Exits, TakesTooLong, within
from connect_specs.diagnostics import Diagnostic, Invalid
from connect_specs.secrets import Redactor, is_secret_name, is_sensitive

_log = logging.getLogger(__name__)

Config = Mapping[str, str | None]

_VERSION = "connector.plugin.version"
# a request waits for a plugin no longer: it may take 90 s, and a create does more than validating
PATIENCE_S = 60
_TYPES = {"key.converter": "key", "value.converter": "value", "header.converter": "header"}
_ENDPOINT = (
    "\nYou can also find the above list of errors at the endpoint "
    "`/connector-plugins/{connectorType}/config/validate`"
)


def check(config: Config, worker: WorkerConfig, providers: ConfigProviders | None = None) -> None:
    """Raises RequestError 400 with all errors. `providers` as for `validate`."""
    infos = validate(config, worker, providers)
    if infos.error_count:
        lines = "".join(f"\n{error}" for error in infos.errors)
        raise RequestError(
            400,
            "Connector configuration is invalid and contains the following "
            f"{infos.error_count} error(s):{lines}{_ENDPOINT}",
        )


def validate(
    config: Config, worker: WorkerConfig, providers: ConfigProviders | None = None
) -> ConfigInfos:
    """Returns all keys with their errors. Raises RequestError 400 if the class is missing or
    unknown.

    `providers` resolve references, in the process that runs the connector; without them, values
    that hold references are not checked. A connector validates resolved values only: its own checks
    are skipped if there are others. Raises RequestError PLUGIN_FAILED if the connector's class
    throws, exits, takes too long, or answers with something else.
    """
    if is_java(config):
        return validate_java(config)
    subject = f"The validation of {config.get('connector.class')}"
    try:
        return within(PATIENCE_S, lambda: _validated(config, worker, providers))
    except TakesTooLong as error:
        text = f"{subject} has not returned in {PATIENCE_S} s"
        raise RequestError(500, text, Refusal.PLUGIN_FAILED) from error
    except Exits as error:
        text = f"{subject} raised {error}"
        raise RequestError(500, text, Refusal.PLUGIN_FAILED) from None
    except RequestError:
        raise
    except Exception as error:  # a plugin's code, such as that of a recommender
        trace = "".join(traceback.format_tb(error.__traceback__))
        _log.error("%s failed with %s:\n%s", subject, type(error).__name__, trace)
        text = f"{subject} raised {type(error).__name__}: {_redacted(config, error)}"
        raise RequestError(500, text, Refusal.PLUGIN_FAILED) from error


def _validated(
    config: Config, worker: WorkerConfig, providers: ConfigProviders | None
) -> ConfigInfos:
    referring = referring_keys(config, worker.properties)
    if not referring:
        return _validate(config, worker)
    if providers is None:
        return unchecked(_validate(config, worker, ask=False), referring)
    resolved = providers.look_up({k: v for k, v in config.items() if v is not None})
    redactor = providers.redactor(resolved)
    try:
        infos = _validate({**config, **resolved.config}, worker, ask=not resolved.problems)
    except RequestError as error:
        # without its cause, which may quote values
        raise RequestError(error.status, redactor.redact(error.message), error.refusal) from None
    except Exception as error:  # a plugin's code
        text = redactor.redact(f"{type(error).__name__}: {error}")
        raise RequestError(500, text, Refusal.PLUGIN_FAILED) from None
    return as_written(infos, config, referring, resolved.problems, redactor)


def _validate(config: Config, worker: WorkerConfig, *, ask: bool = True) -> ConfigInfos:
    name = config.get("connector.class")
    plugin = connector_plugin(config)
    connector = _created(plugin)
    class_error, version_error = version_errors(plugin, config.get(_VERSION))
    if class_error:
        return _of_other_version(
            plugin, config, {"connector.class": class_error, _VERSION: version_error}
        )
    if version_error:
        raise RequestError(400, version_error)
    chain = members(config)
    definitions = connector_definitions(plugin.kind, plugin.version, worker.converters, config)
    definitions.embed(member_definitions(chain))
    if plugin.kind != "sink":
        definitions.embed(topic_creation_definitions(config))
    findings = Findings()
    findings.take(definitions.validate(config))
    rules.check_converters(config, findings)
    check_members(config, chain, findings)
    rules.check_sides(config, findings)
    if plugin.kind == "sink":
        rules.check_sink(config, findings, worker.workers_group)
    else:
        rules.check_source(
            cast(SourceConnector, connector),
            config,
            findings,
            exactly_once=exactly_once(worker.properties),
        )
        rules.check_offsets_topic(config, findings, worker.topics)
        rules.check_topic_creation(config, findings)
    rules.check_nulls(config, findings)
    own = _own(plugin, connector, config, findings, ask=ask)
    options = _option_infos(config, findings)
    # where both define a key, the connector's definition counts, in Connect's place
    keys = {**definitions.keys, **own.keys}
    groups = dict.fromkeys((*definitions.groups, *own.groups))
    infos = findings.infos(cast(str, name), keys, tuple(groups))
    overrides = _override_infos(config, "sink" if plugin.kind == "sink" else "source", worker)
    return _with(infos, [*overrides, *options])


def check_common(config: Config, *, is_sink: bool, worker_group: str) -> Iterator[tuple[str, str]]:
    """Yields the errors of keys that Connect itself defines for every class: key and error.

    For connectors that are not installed here; nor need their converters and transformations be.
    Expressions are refused only if Java does: here they are not used.
    """
    chain = members(config)
    definitions = connector_definitions("sink" if is_sink else "source", "", config=config)
    findings = Findings()
    findings.take(definitions.embed(generic_definitions(chain)).validate(config))
    check_negations(config, chain, findings)
    if is_sink:
        rules.check_sink(config, findings, worker_group)
    for key, value in findings.values.items():
        for error in value.errors:
            if not (INVALID_REGEX in error and _is_for_java_only(config.get(key) or "")):
                yield key, error


def _is_for_java_only(pattern: str) -> bool:
    try:
        java_regex.compile(pattern.strip())
    except java_regex.UnsupportedPattern:
        return True
    except java_regex.InvalidPattern:
        pass
    return False


def connector_plugin(config: Config) -> Plugin:
    """Returns the plugin that a config names. Raises RequestError 400."""
    name = config.get("connector.class")
    if name is None:
        hidden = {
            key: HIDDEN for key, value in config.items() if value and is_sensitive(key, value)
        }
        text = java_text({**config, **hidden})
        raise RequestError(400, f"Connector config {text} contains no connector type")
    try:
        return registry.connector(name)
    except registry.NoSuchClass as error:
        raise RequestError(400, str(error), Refusal.NO_SUCH_CLASS) from error
    except UnlistedModule as error:
        raise RequestError(400, str(error), Refusal.UNLISTED_MODULE) from error
    except ConnectorError as error:
        raise RequestError(400, str(error)) from error


def _of_other_version(plugin: Plugin, config: Config, errors: Mapping[str, str]) -> ConfigInfos:
    """Returns the errors of a connector that is not installed in the required version. Only the
    keys of every connector are known then."""
    definitions = connector_definitions(None, plugin.version)
    findings = Findings()
    findings.take(definitions.validate(config))
    for key, error in errors.items():
        findings.error(key, error)
    rules.check_nulls(config, findings)
    name = config["connector.class"]
    return findings.infos(cast(str, name), definitions.keys, tuple(definitions.groups))


def _created(plugin: Plugin) -> Connector:
    try:
        connector: Connector = plugin.cls()
    except Exception as error:
        text = f"{plugin.class_name} cannot be instantiated: {type(error).__name__}: {error}"
        raise RequestError(500, text, Refusal.PLUGIN_FAILED) from error
    return connector


def _own(
    plugin: Plugin, connector: Connector, config: Config, findings: Findings, *, ask: bool
) -> ConfigDef:
    """Returns the connector's own keys, with its own validation errors if `ask`."""
    try:
        own = definition_of(plugin)
    except NoDefinition as error:
        status = 400 if isinstance(error, NotADefinition) else 500
        raise RequestError(status, str(error), Refusal.PLUGIN_FAILED) from error
    try:
        values = connector.validate(config) if ask else own.validate(config)
    except Exception as error:
        text = _redacted(config, error) or type(error).__name__
        raise RequestError(500, text, Refusal.PLUGIN_FAILED) from error
    if not isinstance(values, list | tuple) or not all(isinstance(v, ConfigValue) for v in values):
        expected = "Config that is not null" if values is None else "list of ConfigValue"
        text = f"{plugin.class_name}.validate() must return a {expected}."
        raise RequestError(400, text, Refusal.PLUGIN_FAILED)
    # also in place of the error of a null, as in Connect
    findings.take(values)
    return own


def _redacted(config: Config, error: Exception) -> str:
    present = {key: value for key, value in config.items() if value is not None}
    return Redactor.of_configs(present, named=password_keys(present)).redact(str(error))


def _option_infos(config: Config, findings: Findings) -> list[ConfigInfo]:
    """Returns options of the converters that the connector sets itself. A converter without a
    definition is an error of the key that names it."""
    infos: list[ConfigInfo] = []
    for key in ("header.converter", "key.converter", "value.converter"):
        name, version_key = config.get(key), f"{key}.plugin.version"
        version = config.get(version_key)
        if name is None or (version is None and version_key in config):  # null is an error
            continue
        plugin = choose(CONVERTER_KINDS[key], key, name, version).usable
        if plugin is None:
            continue
        prefix = f"{key}."
        options = {k.removeprefix(prefix): v for k, v in config.items() if k.startswith(prefix)}
        options.pop("plugin.version", None)
        if options.get("converter.type") is None:
            options["converter.type"] = _TYPES[key]
        kind = key.replace(".", " ")
        try:
            definitions = definition_of(plugin)
            values = {value.name: value for value in definitions.validate(options)}
        except NoDefinition as error:
            findings.error(key, f"Failed to load ConfigDef from {kind}: {error}")
        except Exception as error:
            text = f"Failed to perform config validation for {kind}: {_redacted(config, error)}"
            findings.error(key, text)
        else:
            infos.extend(prefixed(prefix, definitions, values))
    return infos


def _override_infos(config: Config, kind: Kind, worker: WorkerConfig) -> list[ConfigInfo]:
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
            _override_info(prefix, name, value, texts.get(f"{prefix}{name}"))
            for name, value in overrides.items()
            if prefix in prefixes or f"{prefix}{name}" in texts
        ]
    return infos


def _override_info(prefix: str, name: str, value: str | None, error: str | None) -> ConfigInfo:
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


def _with(infos: ConfigInfos, added: list[ConfigInfo]) -> ConfigInfos:
    """Adds options."""
    groups = (info.key.group for info in added if info.key is not None and info.key.group)
    return replace(
        infos,
        groups=tuple(dict.fromkeys((*infos.groups, *groups))),
        configs=(*infos.configs, *(replace(info, is_option=True) for info in added)),
    )


def check_worker_converters(worker: WorkerConfig) -> None:
    """Raises Invalid if a converter of the worker is not installed: connectors without their own
    would all fail. It may be a Java class, which is no default for those in Python."""
    errors = {
        key: choose(CONVERTER_KINDS[key], key, name).error
        for key, name in worker.converters.items()
        if not any(java.kind == CONVERTER_KINDS[key] for java in registry.java_plugins(name))
    }
    problems = [Diagnostic("worker.invalid", error, key) for key, error in errors.items() if error]
    if problems:
        raise Invalid(*problems)
