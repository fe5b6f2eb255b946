"""A runtime in this process, until Ctrl-C, SIGTERM or the end of its terminal (SIGHUP).

Those end it in order; a second one of them ends it at once. Shows a table on a terminal, else one
line for each change of state. The table has connectors, tasks, slots and rates: a sink's rate is
that of its committed offsets; a source's is that of the ends of the topics it writes to, to which
other producers count too, hence the tilde.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
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
from connect_runtime.kafka.clients import admin
from connect_runtime.kafka.embedded import EmbeddedBroker, find_broker
from connect_runtime.kafka.topics import list_offsets
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
# Each rate costs Kafka a request or two a second; the other rates are unknown.
_RATES_MOST = 30
_ASK_S = 2.0
# Rates are averages over this time
_WINDOW_S = 5.0
_UNKNOWN = "unknown"
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
    with stop_requested() as stop, _every(_ROTATE_EVERY_S, partial(_rotate, log)):
        runtime = Runtime(config, connectors)
        with at_once():
            runtime.start()
        try:
            on_url(runtime.url)
            progress(f"REST is at {runtime.url}; Ctrl-C stops")
            look = looking(runtime.verbs, secrets)
            if on_terminal:
                _draw_table(stop, look, runtime.verbs, config.client)
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
    stop: StopFlag,
    look: Callable[[], Mapping[str, Row]],
    verbs: ConnectCluster,
    client: Mapping[str, str],
) -> None:
    """Draws the table once a second until `stop` is set."""
    console = Console(no_color=not colour(sys.stdout), highlight=False)
    rates, kafka = Rates(), admin(client)
    with Live(console=console, auto_refresh=False) as live:
        while True:
            rows = look()
            rates.see(time.monotonic(), _positions(rows, verbs, kafka))
            live.update(_drawn(rows, rates, verbs, console.width), refresh=True)
            if stop.wait(_CHECK_EVERY_S):
                return


def _positions(
    rows: Mapping[str, Row], verbs: ConnectCluster, kafka: AdminClient
) -> dict[str, int]:
    positions: dict[str, int] = {}
    for row in list(rows.values())[:_RATES_MOST]:
        try:
            position = _position(row, verbs, kafka)
        except RequestError:
            continue
        if position is not None:
            positions[row.name] = position
    return positions


def _position(row: Row, verbs: ConnectCluster, kafka: AdminClient) -> int | None:
    """Returns the sum of its offsets; None if it has none, or if Kafka does not answer."""
    if row.kind == "source":
        return _sum_of_ends(kafka, verbs.topics(row.name))
    if row.kind != "sink":
        return None
    offsets = [entry.offset["kafka_offset"] for entry in verbs.offsets(row.name) if entry.offset]
    return sum(offset for offset in offsets if isinstance(offset, int)) if offsets else None


def _sum_of_ends(kafka: AdminClient, topics: Sequence[str]) -> int | None:
    """Returns the sum of the end offsets of all partitions; None without any, or an answer."""
    if not topics:
        return None
    try:
        existing = kafka.list_topics(timeout=_ASK_S).topics
    except KafkaException:
        return None
    latest = {
        TopicPartition(topic, number): OffsetSpec.latest()
        for topic in topics
        if topic in existing
        for number in existing[topic].partitions
    }
    if not latest:
        return None
    (ends,) = list_offsets(kafka, [latest], timeout_s=_ASK_S)
    offsets = [end for end in ends.values() if not isinstance(end, KafkaError)]
    return sum(int(end.offset) for end in offsets) if len(offsets) == len(ends) else None


def _drawn(rows: Mapping[str, Row], rates: Rates, verbs: ConnectCluster, width: int) -> Text:
    if not verbs.ready():
        return Text("starting: reading the topics")
    if not rows:
        return Text("no connectors yet: `connect apply` creates those of the specs")
    texts = {name: rates.text(name) for name in rows}
    texts |= {
        name: f"~{texts[name]}"
        for name, row in rows.items()
        if row.kind == "source" and texts[name] != _UNKNOWN
    }
    text = Text(f"{draw(list(rows.values()), texts, width=width)}\n{_slots(verbs.runtime())}")
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


class Rates:
    """The positions of each connector over the last seconds: its offsets, summed up."""

    def __init__(self) -> None:
        self._samples: dict[str, deque[tuple[float, int]]] = {}

    def see(self, time_s: float, positions: Mapping[str, int]) -> None:
        """Adds the positions of all connectors; connectors without one are forgotten."""
        for gone in self._samples.keys() - positions.keys():
            del self._samples[gone]
        for name, position in positions.items():
            samples = self._samples.setdefault(name, deque())
            if samples and position < samples[-1][1]:
                samples.clear()
            samples.append((time_s, position))
            while len(samples) > 2 and time_s - samples[1][0] >= _WINDOW_S:
                samples.popleft()

    def text(self, name: str) -> str:
        """Returns the records per second over the last seconds, or that they are unknown."""
        samples = self._samples.get(name)
        if not samples or samples[-1][0] <= samples[0][0]:
            return _UNKNOWN
        (first_s, first), (last_s, last) = samples[0], samples[-1]
        return f"{(last - first) / (last_s - first_s):,.0f}/s"


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
