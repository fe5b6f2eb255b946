"""What drift wants to know beside live: when records were written, and which groups are left over.

Reads only. The records are those that observing reads anyway, kept for a moment.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence, Set

from connect_reconciler.drift.history import history_of
from connect_reconciler.drift.model import Seen
from connect_reconciler.observe.kafka_view import KafkaView, View, fingerprint_key_given
from connect_reconciler.observe.known_plugins import known_plugins
from connect_reconciler.observe.observe import compared, observe, observe_view
from connect_reconciler.plan.live import TopicPartition
from connect_runtime.kafka.errors import is_denied
from connect_runtime.kafka.groups import idle_groups
from connect_runtime.storage.config_topic import subject
from connect_runtime.storage.log import LogRecord
from connect_specs.desired import Desired, Project
from connect_specs.diagnostics import Unreachable

_PREFIX = "connect-"


def observe_with_history(project: Project, desired: Desired, client: Mapping[str, str]) -> Seen:
    """Live, since when it is so, and what nobody has any more. Raises as `observe` does."""
    if not client:
        # REST tells neither when things were written nor what deleted connectors left
        return Seen(observe(project, desired, client))
    view = _Keeping(client)
    with known_plugins(project, client) as plugins:
        live = observe_view(
            project,
            desired,
            view,
            now_ms=lambda: time.time_ns() // 1_000_000,
            fingerprint_key=fingerprint_key_given(),
            plugins=plugins,
            client=client,
        )
    live = compared(project, desired, client, live)
    kept, topics = view.kept, project.topics
    history = history_of(
        kept.get(topics.config, ()), kept.get(topics.offsets, ()), kept.get(topics.ledger, ())
    )
    once = {found[1] for each in kept.get(topics.config, ()) if (found := subject(each.key))}
    left = _left_groups(once - live.connectors.keys(), client, view)
    return Seen(live, history, left, view.groups_hidden)


def _left_groups(gone: Set[str], client: Mapping[str, str], view: View) -> dict[str, int]:
    """The partitions of each idle group `connect-<name>` of a connector that was here once.

    Other Connect clusters on the same Kafka have groups named like that, too.
    """
    if not gone:
        return {}
    try:
        idle = idle_groups(client)
    except Unreachable as error:
        if not is_denied(error):
            raise
        return {}
    names = sorted(name for name in gone if _PREFIX + name in idle)
    committed = view.group_offsets([_PREFIX + name for name in names]) if names else {}
    counts = {name: len(committed.get(_PREFIX + name, {})) for name in names}
    return {name: count for name, count in counts.items() if count}


class _Keeping(KafkaView):
    """Keeps the records of topics read through it, and does without the offsets of sinks."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        super().__init__(properties)
        self.kept: dict[str, Sequence[LogRecord]] = {}
        self.groups_hidden = False

    def records(self, topic: str) -> Sequence[LogRecord]:
        found = super().records(topic)
        self.kept[topic] = found
        return found

    def group_offsets(self, groups: Iterable[str]) -> Mapping[str, Mapping[TopicPartition, int]]:
        try:
            return super().group_offsets(groups)
        except Unreachable as error:
            if not is_denied(error):
                raise
            self.groups_hidden = True
            return {}

    def ensure_visible(self, topics: Iterable[str]) -> None:
        try:
            super().ensure_visible(topics)
        except Unreachable as error:
            if not is_denied(error):
                raise
            self.groups_hidden = True
