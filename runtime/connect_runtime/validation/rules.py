"""Checks rules across keys of a config, with Connect's texts (connect-facts 4.5 and 6.6)."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from typing import Final

import orjson

from connect_runtime.api import (
    ConfigError,
    ConfigValue,
    ExactlyOnceSupport,
    SourceConnector,
    TransactionBoundaries,
)
from connect_runtime.java import regex as java_regex
from connect_runtime.java.scalars import java_list, java_trim
from connect_runtime.plugins.registry import CONVERTER_KINDS
from connect_runtime.plugins.sides import wrong_side
from connect_runtime.settings.connector_clients import OFFSETS_TOPIC_KEY
from connect_runtime.settings.connector_topics import unlisted_groups
from connect_runtime.validation.infos import Findings
from connect_runtime.validation.plugin_choice import choose, range_error
from connect_specs.names import ClusterTopics, is_topic_name

Config = Mapping[str, str | None]

_GROUP: Final = "consumer.override.group.id"
_DLQ: Final = "errors.deadletterqueue.topic.name"
_SUPPORT: Final = "exactly.once.support"
_BOUNDARY: Final = "transaction.boundary"
MATCH_LIMIT_S: Final = 5.0
_MATCH: Final = """
import json, re, sys
pattern, flags, text = json.load(sys.stdin)
sys.exit(re.compile(pattern, flags).fullmatch(text) is None)
"""


def check_nulls(config: Config, findings: Findings) -> None:
    """Refuses null values, also of unknown keys, as Connect does: before the connector's own keys
    are validated, which may be null."""
    for key, value in config.items():
        if value is None:
            findings.error(key, "Null value can not be supplied as the configuration value.")


def check_converters(config: Config, findings: Findings) -> None:
    """Checks that converters are installed classes, in the versions that are wanted."""
    for key, kind in CONVERTER_KINDS.items():
        name, version_key = config.get(key), f"{key}.plugin.version"
        version = config.get(version_key)
        if name is None:
            invalid = range_error(version)
            if invalid:
                findings.error(version_key, invalid)
            continue
        choice = choose(kind, key, name, version)
        findings.values[key].value = choice.class_name
        findings.values[version_key].visible = choice.class_name is not None
        if choice.error:
            findings.error(key, choice.error)
        if choice.version_error:
            findings.error(version_key, choice.version_error)


def check_sides(config: Config, findings: Findings) -> None:
    """Refuses Java classes for a connector in Python, in place of the errors that there is no such
    class."""
    for key, error in wrong_side(config):
        value = findings.values.setdefault(key, ConfigValue(key))
        value.errors = [text for text in value.errors if "could not be found" not in text]
        value.errors.append(error)


def check_sink(config: Config, findings: Findings, worker_group: str | None) -> None:
    """Checks a sink's topics, and that it does not use the group of the workers, if they have
    one."""
    topics = java_trim(config.get("topics") or "")
    regex = java_trim(config.get("topics.regex") or "")
    if topics and regex:
        text = "topics and topics.regex are mutually exclusive options, but both are set."
    elif not topics and not regex:
        text = "Must configure one of topics or topics.regex"
    else:
        text = ""
    if text:
        findings.error("topics", text)
        findings.error("topics.regex", text)
    _check_dead_letters(config, topics, regex, findings)
    if worker_group is not None:
        _check_group(config, findings, worker_group)


def _check_dead_letters(config: Config, topics: str, regex: str, findings: Findings) -> None:
    dlq = java_trim(config.get(_DLQ) or "")
    if not dlq:
        return
    names = list(dict.fromkeys(filter(None, java_list(topics))))
    if dlq in names:
        findings.error(
            "topics",
            f"The DLQ topic '{dlq}' may not be included in the list of topics "
            f"('topics=[{', '.join(names)}]') consumed by the connector",
        )
    if not regex or findings.values["topics.regex"].errors:
        return
    try:
        is_matched = _matches(java_regex.compile(regex), dlq)
    except TimeoutError:
        text = f"Invalid regex: it takes more than {MATCH_LIMIT_S:g} s to match the topic '{dlq}'"
        findings.error("topics.regex", text)
        return
    if is_matched:
        findings.error(
            "topics.regex",
            f"The DLQ topic '{dlq}' may not be matched by the regex for the topics "
            f"('topics.regex={regex}') consumed by the connector",
        )


def _check_group(config: Config, findings: Findings, worker_group: str) -> None:
    group, name = config.get(_GROUP), config.get("name")
    if group is not None:
        # as a value of its own, beside the override of the consumer's property
        findings.values.setdefault(_GROUP, ConfigValue(_GROUP, group))
    if group is not None and group == worker_group:
        text = f"Consumer group {group} conflicts with Connect worker group {worker_group}"
        findings.error(_GROUP, text)
    elif group is None and name and f"connect-{name}" == worker_group:
        findings.error(
            "name",
            f"Consumer group for sink connector named {name} conflicts with Connect worker group "
            f"{worker_group}",
        )


def check_source(
    connector: SourceConnector, config: Config, findings: Findings, *, exactly_once: bool
) -> None:
    """Runs KIP-618's preflight checks, on a config whose other keys are valid. `exactly_once`:
    the worker's sources write in transactions."""
    present = {key: value for key, value in config.items() if value is not None}
    if not findings.values[_SUPPORT].errors and _is(config, _SUPPORT, "required"):
        if not exactly_once:
            text = "This worker does not have exactly-once source support enabled."
            findings.error(_SUPPORT, text)
        text = _support_error(connector, present)
        if text:
            findings.error(_SUPPORT, text)
    if not findings.values[_BOUNDARY].errors and _is(config, _BOUNDARY, "connector"):
        text = _boundary_error(connector, present)
        if text:
            findings.error(_BOUNDARY, text)


def check_offsets_topic(config: Config, findings: Findings, topics: ClusterTopics) -> None:
    """Checks that a connector's own offsets topic is none of the cluster's other topics."""
    name = java_trim(config.get(OFFSETS_TOPIC_KEY) or "")
    # the value of a reference is not known here
    if not name or "${" in name or findings.values[OFFSETS_TOPIC_KEY].errors:
        return
    reason = ""
    if not is_topic_name(name):
        reason = "not a name that Kafka allows for a topic"
    elif name in (topics.config, topics.status, topics.assignments, topics.ledger):
        reason = "the Connect cluster keeps other records in this topic"
    if reason:
        findings.error(OFFSETS_TOPIC_KEY, str(ConfigError.invalid(OFFSETS_TOPIC_KEY, name, reason)))


def check_topic_creation(config: Config, findings: Findings) -> None:
    """Checks that settings of new topics are in listed groups."""
    present = {key: value for key, value in config.items() if value is not None}
    for key, text in unlisted_groups(present):
        findings.error(key, text)


def _is(config: Config, key: str, value: str) -> bool:
    return java_trim(config.get(key) or "").lower() == value


def _support_error(connector: SourceConnector, config: Mapping[str, str]) -> str:
    try:
        support = connector.exactly_once_support(config)
    except Exception as error:
        return _unexpected(error)
    if support is None:
        return (
            "The connector does not implement the API required for preflight validation of "
            "exactly-once source support. Please consult the documentation for the connector to "
            "determine whether it supports exactly-once semantics, and then consider "
            'reconfiguring the connector to use the value "requested" for this property (which '
            "will disable this preflight check and allow the connector to be created)."
        )
    if support is ExactlyOnceSupport.UNSUPPORTED:
        return (
            "The connector does not support exactly-once semantics with the provided configuration."
        )
    return ""


def _boundary_error(connector: SourceConnector, config: Mapping[str, str]) -> str:
    try:
        # a connector in Python may return anything
        boundaries: TransactionBoundaries | None = connector.can_define_transaction_boundaries(
            config
        )
    except Exception as error:
        return _unexpected(error)
    if boundaries is None:
        return (
            "This connector has returned a null value from its canDefineTransactionBoundaries "
            "method, which is not permitted. The connector will be treated as if it cannot define "
            "its own transaction boundaries, and cannot be configured with 'transaction.boundary' "
            "set to 'connector'."
        )
    if boundaries is not TransactionBoundaries.SUPPORTED:
        return (
            "The connector does not support connector-defined transaction boundaries with the "
            "given configuration. Please reconfigure it to use a different transaction boundary "
            "definition."
        )
    return ""


def _unexpected(error: Exception) -> str:
    text = "An unexpected error occurred during validation"
    return (
        f"{text}: {error}"
        if str(error)
        else f"{text}; please see the worker logs for more details."
    )


def _matches(pattern: re.Pattern[str], text: str) -> bool:
    """Returns True if the pattern matches all of the text. Raises TimeoutError if that takes too
    long.

    Runs in a process of its own: Python's matcher holds up all threads of its process, and some
    patterns take it years, such as `(a|aa)+b` for sixty times the letter a.
    """
    arguments = orjson.dumps([pattern.pattern, pattern.flags, text])
    command = [sys.executable, "-I", "-S", "-c", _MATCH]
    try:
        result = subprocess.run(
            command, input=arguments, timeout=MATCH_LIMIT_S, capture_output=True, check=False
        )
    except subprocess.TimeoutExpired:
        raise TimeoutError from None
    return result.returncode == 0
