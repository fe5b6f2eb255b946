"""The Kafka of a project. Its own is started when it does not run, and ended after.

Verbs at the same time share the broker: the last of them ends it, if one of them started it. The
broker of `up` is left alone. A killed verb leaves a broker that the next one recognises.
"""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

from connect_reconciler.cli.output import progress
from connect_reconciler.cli.project_files import broker_folder, make_data_folder
from connect_reconciler.cli.signals import time_to_stop_kafka

if TYPE_CHECKING:
    from connect_reconciler.backend.backend import Backend
    from connect_runtime.kafka.embedded import EmbeddedBroker
    from connect_specs.desired import Project

_IN_USE = "broker.in-use"
_FOR_VERBS = "broker.for-verbs"
_CLIENT = "client.properties"


def has_own_broker(project: Project) -> bool:
    """Returns true if connect.yaml asks for the embedded broker."""
    return project.kafka is None and project.uses_runtime


@contextlib.contextmanager
def backend_of(project: Project) -> Iterator[Backend]:
    """Opens the project's cluster. Raises Unreachable if the project's own Kafka cannot be had."""
    from connect_reconciler.backend import open_backend

    with contextlib.ExitStack() as stack:
        kafka = project.kafka or {}
        if has_own_broker(project):
            kafka = stack.enter_context(own_broker(project)).client_properties
        yield open_backend(project, kafka)


@contextlib.contextmanager
def own_broker(project: Project, *, for_up: bool = False) -> Iterator[EmbeddedBroker]:
    """Runs the embedded broker for as long as the context lasts.

    `for_up`: it is the runtime's from now on, and no other verb ends it.
    """
    make_data_folder(project)
    with time_to_stop_kafka(), (project.data / _IN_USE).open("w") as in_use:
        fcntl.flock(in_use, fcntl.LOCK_SH)
        broker = _start(project)
        _write_client_properties(project, broker)
        for_verbs = project.data / _FOR_VERBS
        if for_up:
            for_verbs.unlink(missing_ok=True)
        elif not broker.adopted and not _is_up(project):
            for_verbs.write_text(f"{broker.pid}\n")
        try:
            yield broker
        finally:
            if not for_up and _is_last(in_use) and is_for_verbs(project, broker.pid):
                broker.stop()
                for_verbs.unlink(missing_ok=True)


def is_for_verbs(project: Project, pid: int) -> bool:
    """Returns true if the broker was started by a verb that meant to end it."""
    try:
        return (project.data / _FOR_VERBS).read_text() == f"{pid}\n"
    except FileNotFoundError:
        return False


def _is_up(project: Project) -> bool:
    """Returns true if a runtime is up: a broker that comes back under it belongs to it."""
    from connect_reconciler.cli.runtime_process import find_runtime

    return find_runtime(project) is not None


def _is_last(in_use: IO[str]) -> bool:
    try:
        fcntl.flock(in_use, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _start(project: Project) -> EmbeddedBroker:
    from connect_runtime.kafka.embedded import EmbeddedBroker, find_broker

    folder = broker_folder(project)
    if find_broker(folder) is None:
        progress("starting Kafka in .connect/ (the first start downloads it)")
    return EmbeddedBroker.start(folder, authentication=project.embedded_authentication)


def _write_client_properties(project: Project, broker: EmbeddedBroker) -> None:
    """Writes a file for Kafka's own tools, which need the password."""
    from connect_runtime.files import replace_file

    if project.embedded_authentication:
        lines = [f"{key}={value}\n" for key, value in broker.client_properties.items()]
        replace_file(project.data / _CLIENT, "".join(lines), mode=0o600)
