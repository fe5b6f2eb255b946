"""The table that `up` shows on a terminal: connectors, tasks, slots and rates, once a second.

A sink's rate is that of its committed offsets. A source's is that of the ends of the topics it
writes to: other producers to them count too, hence the tilde. A rate without offsets is "unknown".
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec
from rich.console import Console
from rich.live import Live
from rich.text import Text

from connect_reconciler.cli.connector_table import Row, draw
from connect_reconciler.cli.output import colour
from connect_runtime.herder.verbs import RequestError
from connect_runtime.kafka.clients import admin
from connect_runtime.kafka.topics import list_offsets

if TYPE_CHECKING:
    from connect_reconciler.cli.signals import StopFlag
    from connect_runtime.herder.verbs import RuntimeInfo, Verbs


_CHECK_EVERY_S = 1.0
# Each rate costs Kafka a request or two a second; the other rates are unknown.
_RATES_MOST = 30
_ASK_S = 2.0
# Rates are averages over this time
_WINDOW_S = 5.0


def show_until(
    stop: StopFlag,
    look: Callable[[], Mapping[str, Row]],
    verbs: Verbs,
    client: Mapping[str, str],
) -> None:
    """Draws the table until `stop` is set."""
    console = Console(no_color=not colour(sys.stdout), highlight=False)
    rates, ends = Rates(), LogEnds(client)
    with Live(console=console, auto_refresh=False) as live:
        while True:
            rows = look()
            rates.see(time.monotonic(), _positions(rows, verbs, ends))
            live.update(_drawn(rows, rates, verbs, console.width), refresh=True)
            if stop.wait(_CHECK_EVERY_S):
                return


class LogEnds:
    """The sum of the end offsets of topics' partitions."""

    def __init__(self, client: Mapping[str, str]) -> None:
        self._admin = admin(client)

    def of(self, topics: Sequence[str]) -> int | None:
        """Sums the end offsets of the topics' partitions; None if Kafka does not answer."""
        try:
            existing = self._admin.list_topics(timeout=_ASK_S).topics
            latest = {
                TopicPartition(topic, number): OffsetSpec.latest()
                for topic in topics
                if topic in existing
                for number in existing[topic].partitions
            }
            if not latest:
                return None
        except KafkaException:
            return None
        (ends,) = list_offsets(self._admin, [latest], timeout_s=_ASK_S)
        offsets = [end for end in ends.values() if not isinstance(end, KafkaError)]
        return sum(int(end.offset) for end in offsets) if len(offsets) == len(ends) else None


def _positions(rows: Mapping[str, Row], verbs: Verbs, ends: LogEnds) -> dict[str, int]:
    positions: dict[str, int] = {}
    for row in list(rows.values())[:_RATES_MOST]:
        try:
            position = _position(row, verbs, ends)
        except RequestError:
            continue
        if position is not None:
            positions[row.name] = position
    return positions


def _position(row: Row, verbs: Verbs, ends: LogEnds) -> int | None:
    if row.kind == "source":
        topics = verbs.topics(row.name)
        return ends.of(topics) if topics else None
    if row.kind == "sink":
        offsets = [
            entry.offset["kafka_offset"] for entry in verbs.offsets(row.name) if entry.offset
        ]
        return sum(offset for offset in offsets if isinstance(offset, int)) if offsets else None
    return None


def _drawn(rows: Mapping[str, Row], rates: Rates, verbs: Verbs, width: int) -> Text:
    if not verbs.ready():
        return Text("starting: reading the topics")
    if not rows:
        return Text("no connectors yet: `connect apply` creates those of the specs")
    rate_texts = {
        name: ("~" if row.kind == "source" and rates.known(name) else "") + rates.text(name)
        for name, row in rows.items()
    }
    text = Text(f"{draw(list(rows.values()), rate_texts, width=width)}\n{_slots(verbs.runtime())}")
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

    def per_second(self, name: str) -> float | None:
        """Records per second over the last seconds; None if unknown."""
        samples = self._samples.get(name)
        if not samples or samples[-1][0] <= samples[0][0]:
            return None
        return (samples[-1][1] - samples[0][1]) / (samples[-1][0] - samples[0][0])

    def known(self, name: str) -> bool:
        return self.per_second(name) is not None

    def text(self, name: str) -> str:
        rate = self.per_second(name)
        return "unknown" if rate is None else f"{rate:,.0f}/s"
