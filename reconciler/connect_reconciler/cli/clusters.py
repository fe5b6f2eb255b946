"""The project's cluster, for verbs that read or change one connector manually."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from connect_reconciler.cli.connecting import backend_of
from connect_reconciler.cli.signals import may_change
from connect_specs.diagnostics import Diagnostic, Failed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from connect_reconciler.backend.backend import Backend
    from connect_reconciler.backend.port import Cluster
    from connect_runtime.herder.errors import RequestError
    from connect_specs.desired import Project

_NOT_FOUND = 404
_UNTOLD = "why is not told: its config cannot be read, and so not which secrets to hide"


@contextmanager
def cluster_of(project: Project, name: str, *, reads: bool = False) -> Iterator[Cluster]:
    """The leader, wherever it is; this process leads while the context lasts if nobody does.

    It is asked about connector `name`, and only that if it `reads`. Why it refuses is told without
    that one's secrets.
    """
    with backend_of(project) as backend, cluster_at(backend, name, reads=reads) as cluster:
        yield cluster


@contextmanager
def cluster_at(backend: Backend, name: str, *, reads: bool = False) -> Iterator[Cluster]:
    """The same of an open backend.

    Raises Invalid where the target's workers are those of another Connect cluster than its topics.
    """
    from connect_runtime.herder.errors import RequestError

    backend.ensure_one_cluster(name)
    if not reads:
        may_change()
    cluster = backend.cluster()
    try:
        yield cluster
    except RequestError as error:
        said = redacted(error.message, backend, cluster, name)
        raise Failed(_refusal(error, said, name)) from None
    finally:
        cluster.close()


def config_of(backend: Backend, name: str) -> Mapping[str, str] | None:
    """A connector's config now; None where there is no such connector."""
    from connect_runtime.herder.errors import RequestError

    # What is refused here is not about the connector, and quotes nothing of its config
    backend.ensure_one_cluster(name)
    try:
        return backend.config(name)
    except RequestError as error:
        raise Failed(_refusal(error, _UNTOLD, name)) from None


def _refusal(error: RequestError, said: str, name: str) -> Diagnostic:
    """Connect's answer; its hint names a verb where Connect's text names a request to send."""
    from connect_reconciler.backend.rest.refusals import wants_stop

    told = error.diagnostics[0]
    hint = told.hint
    if wants_stop(error):
        said = "its offsets can be changed only while it is stopped"
        hint = f"`connect stop {name}` first, then this again, then `connect resume {name}`"
    elif error.status == _NOT_FOUND:
        hint = "`connect status` lists the connectors"
    return Diagnostic(told.code, said, name, told.why, hint)


def redacted(text: str, backend: Backend, cluster: Cluster, name: str) -> str:
    """Why a cluster refused to do something with connector `name`, as it may be shown."""
    from connect_reconciler.backend.observe.plugin_facts import redactor_of
    from connect_reconciler.cli.session import sensitive_by_specs
    from connect_reconciler.model.secrets import redact
    from connect_specs.diagnostics import ConnectError

    try:
        config = cluster.config(name)
    except ConnectError:
        return _UNTOLD
    if config is None:
        return text
    project = backend.project
    with backend.plugins() as plugins:
        redactor = redactor_of(
            name, [config], plugins, sensitive_by_specs(project), project.secrets
        )
    return redact(text, redactor, config)
