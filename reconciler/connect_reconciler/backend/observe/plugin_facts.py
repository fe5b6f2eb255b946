"""Facts about connectors by their plugins: source or sink, and the keys that are secret.

Statuses are shown without secrets: a trace is any text that the connector's code put into it, often
the config itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from connect_reconciler.model.ledger import LedgerState, Owned
from connect_reconciler.model.live import Kind, Live, kind_of
from connect_reconciler.model.secrets import (
    ConfigRedactor,
    live_redactor,
    recorded_empty,
    recorded_secrets,
)
from connect_runtime.herder.verbs import ConnectorStatus, InstanceStatus
from connect_runtime.storage.snapshots import ConnectorState, OffsetSnapshot, State, Status
from connect_runtime.traces import names_own_jvm
from connect_specs.desired import Desired, DesiredConnector
from connect_specs.plain_text import one_line
from connect_specs.plugin_definitions import (
    CLASS_KEY,
    CONNECTORS,
    SOURCE,
    Definitions,
    PluginDefinition,
    keys_of,
    parts_of,
    passwords_in,
    untyped_keys,
)
from connect_specs.secrets import Redactor, holds_text

# The status of a connector, None if it has none, and those of its tasks in order
Statuses: TypeAlias = tuple[Status | InstanceStatus | None, Sequence[Status | InstanceStatus]]

# A task's number in its error makes as many reasons as there are tasks
_REASONS_MAX = 5
# Characters of a reason: the full trace is in the status
_LINE_MAX = 300
_PYTHON_STACK = "Traceback (most recent call last):"
_PYTHON_CONTEXT = "During handling of the above exception, another exception occurred:"
# Python draws a group of errors with a line before each that has its number
_PYTHON_GROUP = "+ Exception Group Traceback (most recent call last):"
_GROUP_NUMBER = re.compile(r" *\+[+-]+ (\d+) -+")
_GROUP_MARGIN = re.compile(r" *[|+] ?")
_JAVA_CAUSE = "Caused by: "
# The package of a Java or Python class at the start of an error
_PACKAGE = re.compile(r"^(?:[A-Za-z_][\w$]*\.)+(?=[A-Z][\w$]*(?::|$))")


def kinds_of(
    stored: Iterable[Mapping[str, str]], desired: Desired, plugins: Definitions
) -> dict[str, Kind]:
    """Returns the kinds by class as specs and `stored` configs write it, for known classes."""
    classes = _connector_classes(stored, desired, plugins)
    return {name: "source" if cls.type == SOURCE else "sink" for name, cls in classes.items()}


def classes_of(
    stored: Iterable[Mapping[str, str]], desired: Desired, plugins: Definitions
) -> dict[str, str]:
    """Returns the full names of known classes, by class as specs and `stored` configs write it."""
    classes = _connector_classes(stored, desired, plugins)
    return {name: cls.class_name for name, cls in classes.items()}


def _connector_classes(
    stored: Iterable[Mapping[str, str]], desired: Desired, plugins: Definitions
) -> dict[str, PluginDefinition]:
    configs = [*stored, *(spec.config for spec in desired.connectors.values())]
    names = {config.get(CLASS_KEY, "") for config in configs} - {""}
    definitions = ((name, plugins.find(name, CONNECTORS)) for name in names)
    return {name: plugin for name, plugin in definitions if plugin is not None}


def live_kind(state: ConnectorState, kinds: Mapping[str, Kind], stored: OffsetSnapshot) -> Kind:
    kind = kind_of(state.config, None, kinds)
    if kind != "unknown":
        return kind
    if state.name in stored.connectors:
        return "source"
    return "sink" if "topics" in state.config else "unknown"


def with_secret_keys(
    live: Live,
    stored: Mapping[str, Mapping[str, str]],
    desired: Desired,
    plugins: Definitions,
) -> Live:
    """Returns the live state with the keys of secrets by connector, of the `stored` configs and
    the desired ones: those whose type is PASSWORD in the plugins that a connector names or is to
    name, and those whose types could not be asked for.

    Also those that the ledger holds as fingerprints, for any type, and those that hold a secret
    value of `values/`.
    """
    keys: dict[str, frozenset[str]] = {}
    untyped: dict[str, dict[str, str]] = {}
    owners = live.ledger.connectors
    for name in stored.keys() | desired.connectors.keys():
        spec = desired.connectors.get(name)
        names = {name} if spec is None else {name, spec.renamed_from or name}
        configs = [stored[alias] for alias in names if alias in stored]
        configs += [] if spec is None else [spec.config]
        secret = {key for config in configs for key in passwords_in(config, plugins)}
        texts = desired.secrets
        if name in stored and texts:
            secret |= {key for key, text in stored[name].items() if holds_text(text, texts)}
        for owned in (owners[alias] for alias in names & owners.keys()):
            secret |= _recorded(owned, configs, plugins)
            secret |= _possibly_secret(owned, spec, configs, plugins, live.ledger)
            # It may have been applied with another class
            configs.append({**owned.config, CLASS_KEY: configs[0].get(CLASS_KEY, "")})
        unknown: dict[str, str] = {}
        for config in configs:
            unknown |= untyped_keys(config, plugins)
        if unknown:
            untyped[name] = unknown
        if secret or unknown:
            keys[name] = frozenset(secret | unknown.keys())
    return replace(live, password_keys=keys, untyped_keys=untyped)


def _recorded(
    owned: Owned, configs: Collection[Mapping[str, str]], plugins: Definitions
) -> frozenset[str]:
    """Returns the keys that the ledger holds as fingerprints. A key whose type could not be asked
    for at that time is shown once its type is known, unless the cluster lacks the plugin now."""
    if all(plugins.find(config.get(CLASS_KEY, ""), CONNECTORS) is None for config in configs):
        return recorded_secrets(owned) | owned.untyped
    plugged = (plugin for config in configs for plugin in parts_of(config))
    unknown = tuple(
        plugin.prefix for plugin in plugged if plugins.find(plugin.name, plugin.types) is None
    )
    return recorded_secrets(owned).union(key for key in owned.untyped if key.startswith(unknown))


def _possibly_secret(
    owned: Owned,
    spec: DesiredConnector | None,
    configs: Iterable[Mapping[str, str]],
    plugins: Definitions,
    ledger: LedgerState,
) -> frozenset[str]:
    """Returns the keys that were secret or had no value, and whose types are unknown now: those
    that the spec lacks, and all where the ledger has no key for fingerprints."""
    empty = recorded_empty(owned)
    if ledger.fingerprint_key is not None:
        return empty.difference(() if spec is None else spec.config)
    return empty.difference(*((keys_of(config, plugins) or {}).keys() for config in configs))


@dataclass(frozen=True, slots=True)
class SpecSecrets:
    """The secrets of a project's specs: the sensitive keys of a connector, and texts. `owned` is
    the ledger's record, with fingerprints of secrets."""

    keys: Callable[[str], Collection[str]] = lambda name: ()
    texts: tuple[str, ...] = ()
    owned: Mapping[str, Owned] = field(default_factory=dict)

    def with_ledger(self, owned: Mapping[str, Owned]) -> SpecSecrets:
        return replace(self, owned=owned)


def without_secrets(
    status: ConnectorStatus,
    configs: Collection[Mapping[str, str]],
    plugins: Definitions,
    specs: SpecSecrets,
) -> ConnectorStatus:
    """Returns the status without the secrets of `configs`, which are the connector's and its
    tasks'.

    Neither plugins nor specs are asked if nothing has failed.
    """
    instances = (status.connector, *status.tasks.values())
    if all(instance.trace is None for instance in instances):
        return status
    redactor = redactor_of(status.name, configs, plugins, specs).for_texts(*configs)

    def redacted(instance: InstanceStatus) -> InstanceStatus:
        trace = None if instance.trace is None else redactor.redact(instance.trace)
        return replace(instance, trace=trace)

    tasks = {number: redacted(task) for number, task in status.tasks.items()}
    return replace(status, connector=redacted(status.connector), tasks=tasks)


def redactor_of(
    name: str,
    configs: Collection[Mapping[str, str]],
    plugins: Definitions,
    specs: SpecSecrets,
) -> ConfigRedactor:
    """Returns a redactor of the secrets in these configs of a connector, by its plugins and its
    spec. The first is the connector's own, others are its tasks'."""
    own, *task_configs = configs
    untyped = frozenset(untyped_keys(own, plugins, task_configs))
    passwords = (passwords_in(config, plugins) for config in configs)
    sensitive = untyped.union(specs.keys(name), *passwords)
    if name in specs.owned:
        sensitive |= _recorded(specs.owned[name], (own,), plugins)
    return ConfigRedactor(name, None, sensitive, specs.texts, untyped)


def redactor_in(
    live: Live,
    name: str,
    desired: Desired,
    plugins: Definitions,
    task_configs: Iterable[Mapping[str, str]] = (),
) -> ConfigRedactor:
    """Returns a redactor of the secrets in the configs of a live connector and of its tasks."""
    redactor = live_redactor(name, live, desired.connectors.get(name))
    untyped = untyped_keys(live.connectors[name].config, plugins, task_configs)
    return replace(redactor, named=redactor.named.union(untyped), texts=desired.secrets)


def with_statuses(
    live: Live,
    statuses: Mapping[str, Statuses],
    desired: Desired,
    plugins: Definitions,
    configs_of_tasks: Callable[[str], Iterable[Mapping[str, str]]] = lambda name: (),
) -> Live:
    """Returns the live state with the states of connectors and tasks, by connector; the reasons of
    those that failed, and the errors of those that run, such as a poll that is repeated: each once,
    redacted; of many, the first ones."""
    connectors = dict(live.connectors)
    for name, (own, tasks) in statuses.items():
        spec, connector = desired.connectors.get(name), connectors[name]
        connector = connectors[name] = replace(
            connector,
            state=None if own is None else own.state.value,
            task_states=tuple(task.state.value for task in tasks),
        )
        traces = [
            (status.state, status.trace)
            for status in (own, *tasks)
            if status is not None and status.trace and reports_error(status)
        ]
        if not traces:
            continue
        task_configs = tuple(configs_of_tasks(name))
        redactor = redactor_in(live, name, desired, plugins, task_configs)
        # The cluster may show masks only, for values that the spec has
        of_spec = {} if spec is None else spec.config
        of_texts = redactor.for_texts(connector.config, *task_configs, of_spec)
        failure, error = (
            _reasons((trace for state, trace in traces if state is sought), of_texts)
            for sought in (State.FAILED, State.RUNNING)
        )
        connectors[name] = replace(connector, failure=failure, error=error)
    return replace(live, connectors=connectors)


def reports_error(status: InstanceStatus | Status) -> bool:
    """Returns whether a status has an error: that of a task that runs, but shares no JVM, has
    none."""
    alone = status.state is State.RUNNING and names_own_jvm(status.trace)
    return bool(status.trace) and not alone


def _reasons(traces: Iterable[str], redactor: Redactor) -> str:
    redacted = (error_line(redactor.redact(trace)) for trace in dict.fromkeys(traces))
    lines = tuple(dict.fromkeys(redacted))
    more = len(lines) - _REASONS_MAX
    return "; ".join((*lines[:_REASONS_MAX], *([f"and {more} more"] if more > 0 else ())))


def error_line(trace: str) -> str:
    """Returns the line of a trace that names the innermost cause, without the package of its
    class; cut if it is long."""
    line = _PACKAGE.sub("", one_line(cause_in(trace)))
    return line if len(line) <= _LINE_MAX else f"{line[:_LINE_MAX]} …"


def cause_in(trace: str | None) -> str:
    """Returns the line of a Java or Python trace that names the innermost cause.

    An error that was only raised while another one was handled is no cause of it.
    """
    lines = [line for line in (trace or "").splitlines() if line.strip()]
    if not lines:
        return "there is no trace"
    if names_own_jvm(trace):
        return lines[0].strip()
    if not any(line.startswith(_PYTHON_STACK) or _PYTHON_GROUP in line for line in lines):
        causes = [line.strip() for line in lines if line.strip().startswith(_JAVA_CAUSE)]
        return causes[-1].removeprefix(_JAVA_CAUSE) if causes else lines[0].strip()
    first = 0
    for number, line in enumerate(lines):
        if line.strip() == _PYTHON_CONTEXT:
            first = number + 1
    stack = False
    for number, line in enumerate(lines[first:], first):
        if line.strip() == _PYTHON_GROUP:
            return _cause_in_group(lines[number:])
        if line.startswith(_PYTHON_STACK):
            stack = True
        elif not (stack and line.startswith(" ")):
            return line.strip()
    return lines[-1].strip()


def _cause_in_group(lines: Sequence[str]) -> str:
    """Returns the innermost cause of the first error of a group, which may be a group itself."""
    begin = 0
    for number, line in enumerate(lines):
        if rule := _GROUP_NUMBER.fullmatch(line):
            if rule[1] != "1":
                lines = lines[:number]
                break
            begin = number + 1
    return cause_in("\n".join(_GROUP_MARGIN.sub("", line, count=1) for line in lines[begin:]))
