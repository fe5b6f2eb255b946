"""Looks at what Java plugins need, before a runtime starts: readable jars, and rights of sources to
their transactional ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from connect_runtime.api import ConnectorError
from connect_runtime.engine.catalog import JavaCatalog, use_catalog, used_catalog
from connect_runtime.engine.jvm import PluginJvm
from connect_runtime.engine.plugin_path import PLUGIN_PATH, has_java_plugins
from connect_runtime.plugins import registry, sides
from connect_runtime.settings.worker_config import from_project
from connect_runtime.storage.snapshots import ConnectorState
from connect_runtime.tasks.launch import exactly_once
from connect_runtime.traces import JavaError
from connect_runtime.waiting import TakesTooLong
from connect_specs.desired import Project
from connect_specs.diagnostics import ConnectError, Diagnostic, warning
from connect_specs.names import task_transactional_id
from connect_specs.plain_text import listed
from connect_specs.secrets import secrets_in

_PRODUCER: Final = "producer."
_OVERRIDE: Final = "producer.override."
_ADMIN_OVERRIDE: Final = "admin.override."
_CALL_S: Final = 70.0
_LOGIN: Final = ("sasl.", "ssl.", "security.")


def plugin_problems(sentences: Iterable[str]) -> Iterator[Diagnostic]:
    """Yields a warning for each file or class on plugin.path that cannot be used."""
    for sentence in sentences:
        yield warning("doctor.java-plugin", sentence, "plugin.path")


def problems_here(project: Project, client: Mapping[str, str]) -> Iterator[Diagnostic]:
    """Yields the problems of the Java plugins on the project's plugin.path, as a runtime would
    find them here."""
    catalog = _catalog(project, client)
    if not has_java_plugins(catalog.worker):
        return
    try:
        catalog.find()
    except (ConnectError, ConnectorError, TakesTooLong, OSError) as error:
        text = str(error) or "their scan takes too long"
        yield Diagnostic("doctor.java-plugins", "Java plugins cannot be used", why=text)
        return
    yield from plugin_problems(catalog.problems)


def missing_rights(
    project: Project, client: Mapping[str, str], sources: Iterable[ConnectorState]
) -> Iterator[Diagnostic]:
    """Yields the transactional ids of sources that their logins may not write with. Asks in a JVM,
    as only Java's client can: where there are Java connectors, and somebody logs in."""
    catalog = _catalog(project, client)
    with_login = [s for s in sources if _logs_in(catalog.worker) or _logs_in(s.config)]
    in_jvm = has_java_plugins(catalog.worker) or any(_may_be_javas(s.config) for s in with_login)
    if not (in_jvm and with_login and exactly_once(catalog.worker)):
        return
    former = used_catalog()
    jvm = None
    try:
        if has_java_plugins(catalog.worker):
            catalog.find()
        use_catalog(catalog)
        jvm = _jvm(catalog)
        for source in with_login:
            yield from _rights_of(source, project, catalog.worker, jvm)
    except (ConnectError, ConnectorError, TakesTooLong, OSError) as error:
        problem = "the rights of sources to their transactional ids could not be looked up"
        yield warning("doctor.rights-unknown", problem, why=str(error))
    finally:
        use_catalog(former)
        if jvm is not None:
            jvm.end()


def _may_be_javas(config: Mapping[str, str]) -> bool:
    """Returns whether Python has no such connector here: its plugins may be where workers are."""
    name = config.get("connector.class", "")
    try:
        registry.connector(name)
    except ConnectorError:
        return ":" not in name
    return False


def _catalog(project: Project, client: Mapping[str, str]) -> JavaCatalog:
    worker, _ = from_project(replace(project, kafka=client), None, resolve=False)
    return JavaCatalog(worker.properties, "doctor")


def _jvm(catalog: JavaCatalog) -> PluginJvm:
    if catalog.plugins:
        return catalog.new_jvm(catalog.worker)
    # Connect's own are enough, and all of them have manifests
    worker = {key: value for key, value in catalog.worker.items() if key != PLUGIN_PATH}
    return PluginJvm({**worker, "plugin.discovery": "service_load"}, "doctor")


def _logs_in(properties: Mapping[str, str]) -> bool:
    return any("sasl." in key or "security.protocol" in key for key in properties)


def _rights_of(
    source: ConnectorState, project: Project, worker: Mapping[str, str], jvm: PluginJvm
) -> Iterator[Diagnostic]:
    ids = [
        task_transactional_id(project.group_id, source.name, task)
        for task in range(max(1, len(source.task_configs)))
    ]
    configs = {"producer": _as_producer(source.config, worker)}
    if sides.is_java(source.config):  # its admin client fences
        configs["admin client"] = dict(source.config)
    for name, config in configs.items():
        jvm.hide(secrets_in(config))
        try:
            denied = jvm.call("denied-ids", _CALL_S, config=config, ids=ids)
        except JavaError as error:
            problem = f"the rights of {source.name} to its transactional ids are not known"
            yield warning("doctor.rights-unknown", problem, source.name, error.text)
            continue
        if denied:
            yield Diagnostic(
                "doctor.transactional-id",
                f"the {name} of {source.name} lacks Write on {listed(denied)}",
                source.name,
                "its tasks write exactly once, with these transactional ids, and will be FAILED",
                "allow it, or set exactly.once.source.support to disabled for the workers",
            )


def _as_producer(config: Mapping[str, str], worker: Mapping[str, str]) -> dict[str, str]:
    """Returns a config whose admin client logs in as the connector's producer."""
    properties = {key: value for key, value in worker.items() if key.startswith(_LOGIN)}
    for prefix, configs in ((_PRODUCER, worker), (_OVERRIDE, config)):
        properties |= {
            key.removeprefix(prefix): value
            for key, value in configs.items()
            if key.startswith(prefix)
        }
    remaining = {key: text for key, text in config.items() if not key.startswith(_ADMIN_OVERRIDE)}
    return remaining | {f"{_ADMIN_OVERRIDE}{key}": value for key, value in properties.items()}
