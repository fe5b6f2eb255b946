"""A runtime in this process, until Ctrl-C, SIGTERM or the end of its terminal (SIGHUP).

Those end it in order; a second one of them ends it at once. Shows a table of connectors, tasks and
slots on a terminal, else one line for each change of state.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.text import Text

from connect_reconciler.backend.observe.plugin_facts import SpecSecrets, without_secrets
from connect_reconciler.backend.plugins import InstalledDefinitions
from connect_reconciler.cli.connector_table import Row, changes, draw, row_of
from connect_reconciler.cli.output import PROGRESS, colour, progress, progress_of, result
from connect_reconciler.cli.project_files import broker_folder
from connect_reconciler.cli.runtime_logs import LOG, log_to
from connect_reconciler.cli.signals import StopFlag, at_once, may_change, stop_requested
from connect_runtime.files import make_private_folder
from connect_runtime.herder.verbs import RequestError
from connect_runtime.kafka.embedded import EmbeddedBroker, find_broker
from connect_runtime.logs.log_output import LogFormat, chosen, rotate, text_about
from connect_runtime.server import Runtime
from connect_specs.diagnostics import ConnectError

if TYPE_CHECKING:
    from connect_runtime.herder.connect_cluster import ConnectCluster
    from connect_runtime.herder.verbs import RuntimeInfo
    from connect_runtime.settings.worker_config import WorkerConfig
    from connect_specs.desired import Project
    from connect_specs.worker_files import FirstConnector


_CHECK_EVERY_S = 1.0
_LOOK_ANYWAY_S = 10.0
_KAFKA_EVERY_S = 0.5
_ROTATE_EVERY_S = 5.0
_LOGS_KEPT = 3
_NO_SECRETS = SpecSecrets()


def run_until_stopped(
    config: WorkerConfig,
    warnings: Sequence[str],
    *,
    on_url: Callable[[str], None] = lambda url: None,
    scanning: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
    secrets: SpecSecrets = _NO_SECRETS,
    connectors: Sequence[FirstConnector] = (),
    as_json: bool,
    to_stderr: bool = False,
) -> None:
    """Starts the runtime with these connectors, calls `on_url` once REST listens, and stops it on a
    signal. `scanning` is entered while it looks for Java plugins. Statuses are shown without
    `secrets`, on a terminal as a table; `to_stderr` leaves stdout to the connectors. Raises Failed
    if the runtime stops by itself.
    """
    may_change()
    make_private_folder(config.data_folder)
    on_terminal = sys.stdout.isatty() and not as_json and not to_stderr
    log = config.data_folder / LOG
    # log lines must not overwrite the table on a terminal
    log_to(log if on_terminal else None)
    for warning in warnings:
        progress(f"warning: {warning}")
    with stop_requested() as stop, _every(_ROTATE_EVERY_S, partial(_rotate, log)):
        runtime = Runtime(config, connectors, scanning)
        with at_once():
            runtime.start()
        try:
            on_url(runtime.url)
            progress(f"REST is at {runtime.url}; Ctrl-C stops")
            look = looking(runtime.verbs, secrets)
            if on_terminal:
                _draw_table(stop, look, runtime.verbs)
            else:
                _print_changes(stop, look, as_json=as_json, to_stderr=to_stderr)
        finally:
            progress("stopping: tasks flush and commit, then Spark stops")
            runtime.stop()


def looking(
    verbs: ConnectCluster, secrets: SpecSecrets, clock: Callable[[], float] = time.monotonic
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


def _rows(verbs: ConnectCluster, secrets: SpecSecrets) -> dict[str, Row]:
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
            for line in changes(earlier.get(name), rows.get(name)):
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


# --- the table on a terminal ---


def _draw_table(
    stop: StopFlag, look: Callable[[], Mapping[str, Row]], verbs: ConnectCluster
) -> None:
    """Draws the table once a second until `stop` is set."""
    console = Console(no_color=not colour(sys.stdout), highlight=False)
    with Live(console=console, auto_refresh=False) as live:
        while True:
            live.update(_drawn(look(), verbs, console.width), refresh=True)
            if stop.wait(_CHECK_EVERY_S):
                return


def _drawn(rows: Mapping[str, Row], verbs: ConnectCluster, width: int) -> Text:
    if not verbs.ready():
        return Text("starting: reading the topics")
    if not rows:
        return Text("no connectors yet: `connect apply` creates those of the specs")
    text = Text(f"{draw(list(rows.values()), width=width)}\n{_slots(verbs.runtime())}")
    text.highlight_words(["FAILED"], "bold red")
    text.highlight_words(["RUNNING"], "green")
    return text


def _slots(runtime: RuntimeInfo) -> str:
    if not runtime.slots:
        waits = runtime.problem is None
        return "Spark is starting" if waits else f"No task can run: {runtime.problem}"
    short = len(runtime.waiting)
    text = f"{runtime.running} of {runtime.slots} slots in use"
    if short:
        text += f", {short} short: `connect up --slots` gives more"
    return text if runtime.problem is None else f"{text}\n{runtime.problem}"


# --- what is done beside it: restarts of Kafka, and rotation of the log ---


@contextlib.contextmanager
def _every(pause_s: float, act: Callable[[], None]) -> Iterator[None]:
    """Acts on a thread every `pause_s` seconds while the context lasts."""
    over = threading.Event()

    def repeat() -> None:
        while not over.wait(pause_s):
            act()

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _rotate(log: Path) -> None:
    with contextlib.suppress(OSError):
        rotate(log, copies=_LOGS_KEPT)


@contextlib.contextmanager
def keep_kafka_alive(project: Project, broker: EmbeddedBroker) -> Iterator[None]:
    """Restarts the broker, on the same port and data, whenever it dies; stops it at the end."""
    folder, port = broker_folder(project), int(broker.bootstrap_servers.rpartition(":")[2])
    problem = ""

    def restart_if_dead() -> None:
        nonlocal problem
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

    try:
        with _every(_KAFKA_EVERY_S, restart_if_dead):
            yield
    finally:
        progress("stopping Kafka")
        # not `broker`: it may have been replaced since, also by another verb
        living = find_broker(folder)
        if living is not None:
            EmbeddedBroker(folder, living, adopted=True).stop()
