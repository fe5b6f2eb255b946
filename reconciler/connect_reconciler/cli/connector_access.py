"""One connector on the cluster, for verbs that need no plan: reached, with its owner."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from connect_reconciler.backend.backend import Backend, Cluster
from connect_reconciler.backend.observe.plugin_facts import redactor_of
from connect_reconciler.backend.rest.refusals import wants_stop
from connect_reconciler.cli.connecting import backend_of
from connect_reconciler.cli.output import progress_of_wait
from connect_reconciler.cli.session import secrets_of_specs
from connect_reconciler.cli.signals import may_change
from connect_reconciler.ledger.config_entry import load_ledger, with_configs
from connect_reconciler.model.ledger import LedgerState, Owned
from connect_runtime.herder.verbs import RequestError
from connect_specs.desired import Project, TargetState
from connect_specs.diagnostics import ConnectError, Diagnostic, Failed, Invalid
from connect_specs.loader import load_specs

_NOT_FOUND = 404
_UNTOLD = "why is not told: its config cannot be read, and so not which secrets to hide"
# Owners are also found in configs and specs, so Kafka is not waited for long
_KAFKA_S = 3.0
OWNERS_UNSEEN = "owners cannot be seen without cluster.kafka"


@contextmanager
def cluster_of(
    project: Project, name: str, *, reads: bool = False, force: bool = True
) -> Iterator[Cluster]:
    """Reaches the leader, wherever it is; without one, this process leads while the context lasts.

    It is asked about connector `name`, and only that if it `reads`. Reasons of refusals are without
    the connector's secrets. Without `force` raises Invalid for a connector of another project.
    """
    with backend_of(project) as backend:
        if not force:
            ensure_owner(known(backend, name), project)
        with cluster_at(backend, name, reads=reads) as cluster:
            yield cluster


@contextmanager
def cluster_at(backend: Backend, name: str, *, reads: bool = False) -> Iterator[Cluster]:
    """Reaches the leader of an open backend.

    Raises Invalid where the target's workers are those of another Connect cluster than its topics.
    """
    backend.ensure_one_cluster(name)
    if not reads:
        may_change()
    cluster = backend.cluster(progress_of_wait)
    try:
        yield cluster
    except RequestError as error:
        message = redacted(error.message, backend, cluster, name)
        raise Failed(_refusal(error, message, name)) from None
    finally:
        cluster.close()


def _refusal(error: RequestError, reason: str, name: str) -> Diagnostic:
    """Returns Connect's answer; its hint names a verb where Connect's text names a request."""
    diagnostic = error.diagnostics[0]
    hint = diagnostic.hint
    if wants_stop(error):
        reason = "its offsets can be changed only while it is stopped"
        hint = f"`connect stop {name}` first, then this again, then `connect resume {name}`"
    elif error.status == _NOT_FOUND:
        hint = "`connect status` lists the connectors"
    return Diagnostic(diagnostic.code, reason, name, diagnostic.why, hint)


def redacted(text: str, backend: Backend, cluster: Cluster, name: str) -> str:
    """Returns a cluster's refusal about connector `name` without the secrets of its config."""
    try:
        config = cluster.config(name)
    except ConnectError:
        return _UNTOLD
    if config is None:
        return text
    owned = owners_of(backend, {name: config}).owned
    secrets = secrets_of_specs(backend.project).with_ledger(owned)
    with backend.plugins() as plugins:
        redactor = redactor_of(name, [config], plugins, secrets)
    return redactor.redact(text, config)


@dataclass(frozen=True, slots=True)
class Owners:
    """The project that owns each connector, and the target state of each connector in the specs.

    `specs` is None if they cannot be read. `unread` is why the ledger could not be read. `owned`
    is what the ledger and the configs say of each connector. `uncreated` are connectors
    whose creation an apply began, and of which none says that it took place.
    """

    project: str
    by_name: Mapping[str, str]
    specs: Mapping[str, TargetState] | None
    unread: str
    owned: Mapping[str, Owned]
    uncreated: frozenset[str] = frozenset()

    def holds(self, name: str) -> bool:
        """Returns true if the project owns the connector, has a spec for it, or its specs cannot be
        read."""
        return self.specs is None or name in self.specs or self.owns(name)

    def owns(self, name: str) -> bool:
        """Returns true if an apply recorded the connector as this project's."""
        return self.by_name.get(name) == self.project

    def why_missing(self, name: str) -> str:
        """Returns why a connector of the specs is not on the cluster, as the ledger has it."""
        if not self.owns(name):
            return "not applied yet"
        if name in self.uncreated:
            return "an apply began to create it, and it was not created"
        # Or these are the workers of another cluster, which `connect plan` would say
        return "no longer on the cluster"


def owners_of(backend: Backend, configs: Mapping[str, Mapping[str, str]]) -> Owners:
    """Finds owners in the ledger, the configs and the specs, as far as they can be read."""
    ledger, unread = LedgerState(), ""
    try:
        # A runtime's statuses came from there
        if not backend.project.uses_runtime:
            backend.ensure_kafka(_KAFKA_S)
        ledger = backend.ledger().state
    except ConnectError as error:
        unread = str(error)
    owned = with_configs(ledger, configs).connectors
    by_name = {name: owner.project for name, owner in owned.items()}
    project = backend.project
    uncreated = frozenset(name for name, owner in owned.items() if not owner.applied_ms)
    return Owners(project.name, by_name, _target_states(project), unread, owned, uncreated)


def _target_states(project: Project) -> Mapping[str, TargetState] | None:

    try:
        specs = load_specs(project).connectors
    except ConnectError:
        return None
    return {name: spec.state or TargetState.RUNNING for name, spec in specs.items()}


@dataclass(frozen=True, slots=True)
class Known:
    """A connector as a verb finds it: `config` is None if it does not exist, `owned` if it is
    unmanaged."""

    name: str
    config: Mapping[str, str] | None
    owned: Owned | None


def known(backend: Backend, name: str) -> Known:
    """Reads the connector's config and owner; starts no leader.

    Raises LedgerUnreadable, Unreachable.
    """
    backend.ensure_one_cluster(name)
    try:
        config = backend.config(name)
    except RequestError as error:
        # A refusal here is not about the connector, and quotes nothing of its config
        raise Failed(_refusal(error, _UNTOLD, name)) from None
    owned = backend.ledger().state.connectors.get(name)
    # Applied over REST alone, only its config names the owner
    if owned is None and config is not None:
        ledger, unreadable = load_ledger({name: config})
        if name in unreadable:
            raise unreadable[name]
        owned = ledger.connectors.get(name)
    return Known(name, config, owned)


def ensure_owner(connector: Known, project: Project) -> None:
    """Raises Invalid for a connector that another project owns."""
    owned = connector.owned
    if owned is None or owned.project == project.name:
        return
    problem = f"it belongs to project {owned.project}, and this is project {project.name}"
    hint = f"change it from project {owned.project}, or use --force"
    raise Invalid(Diagnostic("connector.owned-by-other", problem, connector.name, hint=hint))


def ensure_owner_seen(connector: Known, project: Project) -> None:
    """Raises Invalid over REST alone for a connector that its own config does not call the
    project's: who owns or protects it cannot be seen."""
    if not project.rest_only or connector.config is None or connector.owned is not None:
        return
    problem = "its config does not say that it is this project's"
    reason = f"{OWNERS_UNSEEN}: another project may own or protect it"
    hint = "add cluster.kafka to connect.yaml, or use --force"
    raise Invalid(Diagnostic("connector.owner-unseen", problem, connector.name, reason, hint))


def ensure_unprotected(connector: Known) -> None:
    """Raises Failed for a connector that prevent_delete protects."""
    if connector.owned is not None and connector.owned.prevent_delete:
        problem = "it is protected against deletion"
        hint = "set prevent_delete: false in its spec and apply, then delete it"
        raise Failed(Diagnostic("delete.protected", problem, connector.name, hint=hint))
