"""A runtime in this process, until Ctrl-C, SIGTERM or the end of its terminal (SIGHUP).

Those end it in order; a second one of them ends it at once. Shows a table on a terminal, else one
line for each change of state.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from connect_reconciler.backend.observe.plugin_facts import SpecSecrets, without_secrets
from connect_reconciler.backend.plugins import InstalledDefinitions
from connect_reconciler.cli.connector_table import Row, changes, row_of
from connect_reconciler.cli.output import PROGRESS, progress, progress_of, result
from connect_reconciler.cli.project_files import broker_folder
from connect_reconciler.cli.running.logs import LOG, log_to, rotate_when_large
from connect_reconciler.cli.signals import StopFlag, at_once, may_change, stop_requested
from connect_runtime.files import make_private_folder
from connect_runtime.herder.verbs import RequestError
from connect_runtime.kafka.embedded import EmbeddedBroker, find_broker
from connect_runtime.logs.log_output import LogFormat, chosen, text_about
from connect_runtime.server import Runtime
from connect_specs.diagnostics import ConnectError

if TYPE_CHECKING:
    from connect_runtime.herder.verbs import Verbs
    from connect_runtime.settings.worker_config import WorkerConfig
    from connect_specs.connector_files import FirstConnector
    from connect_specs.desired import Project


_CHECK_EVERY_S = 1.0
_LOOK_ANYWAY_S = 10.0
_KAFKA_EVERY_S = 0.5
_NO_SECRETS = SpecSecrets()


def run_until_stopped(
    config: WorkerConfig,
    warnings: Sequence[str],
    *,
    on_url: Callable[[str], None] = lambda url: None,
    secrets: SpecSecrets = _NO_SECRETS,
    connectors: Sequence[FirstConnector] = (),
    as_json: bool,
    to_stderr: bool = False,
) -> None:
    """Starts the runtime with these connectors, calls `on_url` once REST listens, and stops it on a
    signal. Statuses are shown without `secrets`, on a terminal as a table; `to_stderr` leaves
    stdout to the connectors. Raises Failed if the runtime stops by itself.
    """
    may_change()
    make_private_folder(config.data_folder)
    on_terminal = sys.stdout.isatty() and not as_json and not to_stderr
    log = config.data_folder / LOG
    # log lines must not overwrite the table on a terminal
    log_to(log if on_terminal else None)
    for warning in warnings:
        progress(f"warning: {warning}")
    with stop_requested() as stop, rotate_when_large(log):
        runtime = Runtime(config, connectors)
        with at_once():
            runtime.start()
        try:
            on_url(runtime.url)
            progress(f"REST is at {runtime.url}; Ctrl-C stops")
            if on_terminal:
                from connect_reconciler.cli.running.live_table import show_until

                show_until(stop, looking(runtime.verbs, secrets), runtime.verbs, config.client)
            else:
                look = looking(runtime.verbs, secrets)
                _print_changes(stop, look, as_json=as_json, to_stderr=to_stderr)
        finally:
            progress("stopping: tasks flush and commit, then Spark stops")
            runtime.stop()


def looking(
    verbs: Verbs, secrets: SpecSecrets, clock: Callable[[], float] = time.monotonic
) -> Callable[[], Mapping[str, Row]]:
    """Returns a function of the rows of all connectors. They are made again only when something has
    changed, or after a while."""
    rows: Mapping[str, Row] = {}
    made_of, made_at = -1, 0.0

    def rows_now() -> Mapping[str, Row]:
        nonlocal rows, made_of, made_at
        time_s, changes = clock(), verbs.changes()
        if changes != made_of or time_s - made_at >= _LOOK_ANYWAY_S:
            rows, made_of, made_at = _rows(verbs, secrets), changes, time_s
        return rows

    return rows_now


def _rows(verbs: Verbs, secrets: SpecSecrets) -> dict[str, Row]:
    """Returns the rows of all connectors, without those that were deleted in between."""
    runtime = verbs.runtime()
    # While Spark starts there are no slots yet, so none are missing.
    waiting = runtime.waiting if runtime.slots else ()
    rows = {}
    for name in verbs.connectors():
        try:
            status, config = verbs.status(name), verbs.config(name)
            redacted = without_secrets(status, (config,), InstalledDefinitions(), secrets)
            rows[name] = row_of(redacted, waiting)
        except RequestError:
            continue
    return rows


def _print_changes(
    stop: StopFlag,
    look: Callable[[], Mapping[str, Row]],
    *,
    as_json: bool,
    to_stderr: bool = False,
) -> None:
    def say(name: str, line: str) -> None:
        show = progress if to_stderr else _show
        if chosen() is LogFormat.JSON and (to_stderr or not as_json):
            progress_of(name, line)
        elif as_json:
            show(json.dumps({"event": line}))
        else:
            # as in a log, which it is for `up --detach`
            show(text_about(name, line, PROGRESS))

    earlier: Mapping[str, Row] = {}
    while not stop.wait(_CHECK_EVERY_S):
        rows = look()
        if rows is earlier:
            continue
        for name in sorted(earlier.keys() | rows.keys()):
            for line in changes(_only(name, earlier), _only(name, rows)):
                say(name, line)
        earlier = rows


def _show(line: str) -> None:
    """Connectors run on though the output takes nothing: a file on a full disk, for which Python
    keeps the line, or a `sys.stdout` that a plugin has replaced and closed."""
    try:
        result(line)
    except BrokenPipeError:
        raise
    except (OSError, ValueError, AttributeError):
        pass


def _only(name: str, rows: Mapping[str, Row]) -> Mapping[str, Row]:
    return {name: rows[name]} if name in rows else {}


@contextlib.contextmanager
def keep_kafka_alive(project: Project, broker: EmbeddedBroker) -> Iterator[None]:
    """Restarts the broker, on the same port and data, whenever it dies; stops it at the end."""
    over = threading.Event()
    port = int(broker.bootstrap_servers.rpartition(":")[2])
    keeper = threading.Thread(
        target=_keep, args=(project, port, over), name="keep-kafka", daemon=True
    )
    keeper.start()
    try:
        yield
    finally:
        over.set()
        keeper.join()
        progress("stopping Kafka")
        # not `broker`: it may have been replaced since, also by another verb
        living = find_broker(broker_folder(project))
        if living is not None:
            EmbeddedBroker(broker_folder(project), living, adopted=True).stop()


def _keep(project: Project, port: int, over: threading.Event) -> None:
    folder = broker_folder(project)
    problem = ""
    while not over.wait(_KAFKA_EVERY_S):
        try:
            if find_broker(folder) is None:
                progress("Kafka stopped unexpectedly: restarting it with the same data")
                authentication = project.embedded_authentication
                EmbeddedBroker.start(folder, port=port, authentication=authentication)
                problem = ""
        except ConnectError as error:
            if str(error) != problem:
                problem = str(error)
                progress(f"Kafka does not start; retrying: {problem}")
