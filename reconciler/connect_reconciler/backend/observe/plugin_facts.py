"""What plugins say of connectors: source or sink, and which keys are passwords.

Statuses are shown without them: a trace is whatever the connector's code put into it, often the
config itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from connect_reconciler.model.ledger import LedgerState, Owned
from connect_reconciler.model.live import Kind, Live, kind_of
from connect_reconciler.model.secrets import (
    ConfigRedactor,
    recorded_empty,
    recorded_secrets,
    redactor_of_texts,
)
from connect_runtime.herder.verbs import ConnectorStatus, InstanceStatus
from connect_runtime.storage.snapshots import ConnectorState, OffsetSnapshot, State, Status
from connect_specs.desired import Desired, DesiredConnector
from connect_specs.plugin_definitions import (
    CLASS_KEY,
    CONNECTORS,
    SOURCE,
    Definitions,
    KeyDefinition,
    keys_of,
    keys_of_parts,
    parts_of,
)
from connect_specs.printable import one_line
from connect_specs.redaction import Redactor
from connect_specs.untyped_keys import untyped_keys
from connect_specs.value_secrets import holds_text

_NONE: Mapping[str, Iterable[str]] = {}
# A task's number in its error makes as many reasons as there are tasks
_REASONS_MAX = 5
# Of a reason: the whole trace is in the status
_LINE_MAX = 300
_PYTHON_STACK = "Traceback (most recent call last):"
_PYTHON_CONTEXT = "During handling of the above exception, another exception occurred:"
# How Python draws a group of errors: each after a line with its number
_PYTHON_GROUP = "+ Exception Group Traceback (most recent call last):"
_GROUP_NUMBER = re.compile(r" *\+[+-]+ (\d+) -+")
_GROUP_MARGIN = re.compile(r" *[|+] ?")
_JAVA_CAUSE = "Caused by: "
# The package of a Java or Python class at the start of an error
_PACKAGE = re.compile(r"^(?:[A-Za-z_][\w$]*\.)+(?=[A-Z][\w$]*(?::|$))")


def kinds_of(
    live: Iterable[ConnectorState], desired: Desired, plugins: Definitions
) -> dict[str, Kind]:
    """By class as specs and configs write it, for those that are known."""
    configs = [state.config for state in live]
    configs += [spec.config for spec in desired.connectors.values()]
    found: dict[str, Kind] = {}
    for name in {config.get(CLASS_KEY, "") for config in configs} - {""}:
        plugin = plugins.find(name, CONNECTORS)
        if plugin is not None:
            found[name] = "source" if plugin.type == SOURCE else "sink"
    return found


def live_kind(state: ConnectorState, kinds: Mapping[str, Kind], stored: OffsetSnapshot) -> Kind:
    told = kind_of(state.config, None, kinds)
    if told != "unknown":
        return told
    if state.name in stored.connectors:
        return "source"
    return "sink" if "topics" in state.config else "unknown"


@dataclass(frozen=True, slots=True)
class SecretKeys:
    """By connector, the keys of secrets. Among `keys` are those that are `untyped`, each with the
    request that failed: what it would have told of their types."""

    keys: Mapping[str, frozenset[str]]
    untyped: Mapping[str, Mapping[str, str]]


def secret_keys(
    live: Mapping[str, ConnectorState],
    desired: Desired,
    plugins: Definitions,
    ledger: LedgerState,
) -> SecretKeys:
    """The keys whose type is PASSWORD in the plugins that a connector names or is to name, and
    those whose types could not be asked for.

    Also those that the ledger holds as fingerprints, whatever the plugins say, and those that hold
    a secret value of `values/`.
    """
    keys: dict[str, frozenset[str]] = {}
    untyped: dict[str, dict[str, str]] = {}
    for name in live.keys() | desired.connectors.keys():
        spec = desired.connectors.get(name)
        names = {name} if spec is None else {name, spec.renamed_from or name}
        configs = [live[each].config for each in names if each in live]
        configs += [] if spec is None else [spec.config]
        found = {key for config in configs for key in passwords_in(config, plugins)}
        texts = desired.secrets
        if name in live and texts:
            found |= {key for key, text in live[name].config.items() if holds_text(text, texts)}
        for each in names & ledger.connectors.keys():
            owned = ledger.connectors[each]
            found |= _recorded(owned, configs, plugins) | _perhaps_secret(
                owned, spec, configs, plugins, ledger
            )
            # It may have been applied with another class
            configs.append({**owned.config, CLASS_KEY: configs[0].get(CLASS_KEY, "")})
        unknown = {key: why for each in configs for key, why in untyped_keys(each, plugins).items()}
        if unknown:
            untyped[name] = unknown
        if found or unknown:
            keys[name] = frozenset(found | unknown.keys())
    return SecretKeys(keys, untyped)


def _recorded(
    owned: Owned, configs: Collection[Mapping[str, str]], plugins: Definitions
) -> frozenset[str]:
    """Keys that the ledger holds as fingerprints. Those whose types could not be asked for then
    are shown again once they are known, and not where the cluster has no such plugin by now."""
    if all(plugins.find(each.get(CLASS_KEY, ""), CONNECTORS) is None for each in configs):
        return recorded_secrets(owned) | owned.untyped
    parts = (part for each in configs for part in parts_of(each))
    unknown = tuple(each.prefix for each in parts if plugins.find(each.name, each.types) is None)
    return recorded_secrets(owned).union(key for key in owned.untyped if key.startswith(unknown))


def _perhaps_secret(
    owned: Owned,
    spec: DesiredConnector | None,
    configs: Iterable[Mapping[str, str]],
    plugins: Definitions,
    ledger: LedgerState,
) -> frozenset[str]:
    """Keys that were secret or had no value, and whose types nothing tells now: those that the spec
    has no more, and all where the ledger has no key for fingerprints."""
    empty = recorded_empty(owned)
    if ledger.fingerprint_key is not None:
        return empty.difference(() if spec is None else spec.config)
    return empty.difference(*((keys_of(each, plugins) or {}).keys() for each in configs))


def passwords_in(config: Mapping[str, str], plugins: Definitions) -> frozenset[str]:
    """The keys whose type is PASSWORD in the plugins that this config names."""
    connector = plugins.find(config.get(CLASS_KEY, ""), CONNECTORS)
    own = () if connector is None else connector.keys.values()
    return passwords((*own, *keys_of_parts(config, plugins).values()))


def passwords(keys: Iterable[KeyDefinition]) -> frozenset[str]:
    return frozenset(key.name for key in keys if key.type == "PASSWORD")


@dataclass(frozen=True, slots=True)
class SpecSecrets:
    """What a project's specs say is secret: the sensitive keys of a connector, and texts. `owned`
    is what the ledger holds, with fingerprints of secrets."""

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
    """The status without the secrets of `configs`, which are the connector's and its tasks'.

    Neither plugins nor specs are asked where nothing has failed.
    """
    parts = (status.connector, *status.tasks.values())
    if all(part.trace is None for part in parts):
        return status
    redactor = redactor_of(status.name, configs, plugins, specs)
    of_texts = redactor_of_texts(redactor, *configs)

    def shown(part: InstanceStatus) -> InstanceStatus:
        trace = None if part.trace is None else of_texts.redact(part.trace)
        return replace(part, trace=trace)

    tasks = {number: shown(task) for number, task in status.tasks.items()}
    return replace(status, connector=shown(status.connector), tasks=tasks)


def redactor_of(
    name: str,
    configs: Collection[Mapping[str, str]],
    plugins: Definitions,
    specs: SpecSecrets,
) -> ConfigRedactor:
    """Covers what is secret in these configs of a connector, by its plugins and its spec. The first
    is the connector's own, others are its tasks'."""
    own, *of_tasks = configs
    untyped = frozenset(untyped_keys(own, plugins, of_tasks))
    passwords = (passwords_in(config, plugins) for config in configs)
    named = untyped.union(specs.keys(name), *passwords)
    if name in specs.owned:
        named |= _recorded(specs.owned[name], (own,), plugins)
    return ConfigRedactor(name, None, named, specs.texts, untyped)


def failed_traces(
    parts: Iterable[tuple[str, Status | InstanceStatus]], state: State = State.FAILED
) -> dict[str, list[str]]:
    """By connector, the traces of its failed parts, the connector itself and its tasks; or of those
    in another `state`: what runs may report an error, such as a poll that it repeats."""
    traces: dict[str, list[str]] = {}
    for name, part in parts:
        if part.state is state and part.trace:
            traces.setdefault(name, []).append(part.trace)
    return traces


def with_failures(
    live: Live,
    traces: Mapping[str, Iterable[str]],
    desired: Desired,
    plugins: Definitions,
    task_configs: Callable[[str], Iterable[Mapping[str, str]]] = lambda name: (),
    running: Mapping[str, Iterable[str]] = _NONE,
) -> Live:
    """The live state with the reasons why connectors failed, and the errors of those that are
    `running`, each once, redacted; of many, the first ones. Both by connector."""
    connectors = dict(live.connectors)
    for name in {**traces, **running}:
        spec, found = desired.connectors.get(name), connectors[name]
        named = frozenset(() if spec is None else spec.sensitive)
        of_tasks = tuple(task_configs(name))
        named |= live.password_keys.get(name, frozenset())
        named |= untyped_keys(found.config, plugins, of_tasks).keys()
        redactor = ConfigRedactor(name, None, named, desired.secrets)
        # The cluster may show masks only, for values that the spec has
        wanted = {} if spec is None else spec.config
        of_texts = redactor_of_texts(redactor, found.config, wanted, *of_tasks)
        connectors[name] = replace(
            found,
            failure=_reasons(traces.get(name, ()), of_texts),
            error=_reasons(running.get(name, ()), of_texts),
        )
    return replace(live, connectors=connectors)


def _reasons(traces: Iterable[str], redactor: Redactor) -> str:
    found = (error_line(redactor.redact(each)) for each in dict.fromkeys(traces))
    lines = tuple(dict.fromkeys(found))
    more = len(lines) - _REASONS_MAX
    shown = (*lines[:_REASONS_MAX], *([f"and {more} more"] if more > 0 else ()))
    return "; ".join(shown)


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
