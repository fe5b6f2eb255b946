"""The project's cluster, for verbs that ask it about a connector or change it by hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from connect_reconciler.cli.connecting import client
from connect_reconciler.cli.interruption import may_change
from connect_specs.diagnostics import Diagnostic, Failed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from connect_reconciler.cluster.port import Cluster
    from connect_runtime.herder.errors import RequestError
    from connect_specs.desired import Project

_NOT_FOUND = 404
_NOT_STOPPED = "must be in the STOPPED state before their offsets"


@contextmanager
def cluster_of(project: Project, name: str, *, reads: bool = False) -> Iterator[Cluster]:
    """The leader, wherever it is; this process leads while the context lasts if nobody does.

    It is asked about connector `name`, and only that if it `reads`. Why it refuses is told without
    that one's secrets.
    """
    with (
        client(project) as properties,
        cluster_at(project, properties, name, reads=reads) as cluster,
    ):
        yield cluster


@contextmanager
def cluster_at(
    project: Project, properties: Mapping[str, str], name: str, *, reads: bool = False
) -> Iterator[Cluster]:
    """The same over the Kafka that client properties lead to.

    Raises Invalid where the target's workers are those of another Connect cluster than its topics.
    """
    from connect_reconciler.cluster.choose import open_cluster
    from connect_runtime.herder.errors import RequestError
    from connect_runtime.kafka.clients import check_reachable

    if project.target is not None and properties:
        from connect_reconciler.cluster.rest_client import RestClient
        from connect_reconciler.observe.same_cluster import ensure_same_cluster

        with RestClient(project.target) as rest:
            ensure_same_cluster(project, properties, rest, (name,))
    if project.target is None:
        check_reachable(properties)
    if not reads:
        may_change()
    cluster = open_cluster(project, properties)
    try:
        yield cluster
    except RequestError as error:
        said = told_without_secrets(error.message, project, properties, cluster, name)
        raise Failed(_refusal(error, said, name)) from None
    finally:
        cluster.close()


def _refusal(error: RequestError, said: str, name: str) -> Diagnostic:
    """Connect's answer, with what to do in our words where its own name a request to send."""
    told = error.diagnostics[0]
    hint = told.hint
    if _NOT_STOPPED in said:
        said = "its offsets can be changed only while it is stopped"
        hint = f"`connect stop {name}` first, then this again, then `connect resume {name}`"
    elif error.status == _NOT_FOUND:
        hint = "`connect status` lists the connectors"
    return Diagnostic(told.code, said, name, told.why, hint)


def told_without_secrets(
    text: str, project: Project, properties: Mapping[str, str], cluster: Cluster, name: str
) -> str:
    """Why a cluster refused to do something with connector `name`, as it may be shown."""
    from connect_reconciler.cli.spec_secrets import sensitive_by_specs
    from connect_reconciler.hiding import hide
    from connect_reconciler.observe.known_plugins import known_plugins
    from connect_reconciler.observe.traces import cover_of
    from connect_specs.diagnostics import ConnectError

    try:
        config = cluster.config(name)
    except ConnectError:
        return "why is not told: its config cannot be read, and so not which secrets to hide"
    if config is None:
        return text
    with known_plugins(project, properties) as plugins:
        cover = cover_of(name, [config], plugins, sensitive_by_specs(project), project.secrets)
    return hide(text, cover, config)
