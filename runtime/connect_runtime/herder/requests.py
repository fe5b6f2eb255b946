"""Builds the records that a request writes, or refuses it. Pure.

Sequences and texts are Connect's (connect-facts 1.6 and 4.5).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from connect_runtime.herder.errors import Refusal, RequestError
from connect_runtime.settings.topic_tracking import TopicTracking
from connect_runtime.storage import config_topic, status_topic
from connect_runtime.storage.log import NewRecord
from connect_runtime.storage.snapshots import ConfigSnapshot, ConnectorState, StatusSnapshot
from connect_specs.states import TargetState


def known(snapshot: ConfigSnapshot, name: str, text: str) -> ConnectorState:
    """Returns the connector, or raises 404 with Connect's text for this situation (`{}` is the
    name)."""
    state = snapshot.connectors.get(name)
    if state is None:
        raise RequestError(404, text.format(name))
    return state


def create(
    snapshot: ConfigSnapshot,
    topic: str,
    name: str,
    config: Mapping[str, str | None],
    initial_state: TargetState | None,
) -> Sequence[NewRecord]:
    """Writes the target state first, in the same transaction as the config (KIP-980)."""
    if name in snapshot.connectors:
        raise RequestError(409, f"Connector {name} already exists")
    record = config_topic.connector_record(topic, name, config)
    if initial_state is None:
        return (record,)
    return (config_topic.target_state_record(topic, name, initial_state), record)


def put_config(topic: str, name: str, config: Mapping[str, str | None]) -> Sequence[NewRecord]:
    """Writes the config even if it is unchanged, as Connect does."""
    return (config_topic.connector_record(topic, name, config),)


def patch(state: ConnectorState, changes: Mapping[str, str | None]) -> dict[str, str | None]:
    """Returns the config with `changes` merged in; None removes a key (KIP-477)."""
    stored: dict[str, str | None] = {**state.config, **dict.fromkeys(state.null_keys)}
    kept = {key: value for key, value in stored.items() if key not in changes}
    return kept | {key: value for key, value in changes.items() if value is not None}


def delete(snapshot: ConfigSnapshot, topic: str, name: str) -> Sequence[NewRecord]:
    """Removes config and target state; task records, fencing counts and offsets stay."""
    known(snapshot, name, "Connector {} not found")
    return config_topic.removal_records(topic, name)


def stop(snapshot: ConfigSnapshot, topic: str, name: str) -> Sequence[NewRecord]:
    """Writes an empty set of tasks, then the target state."""
    known(snapshot, name, "Unknown connector {}")
    return (
        config_topic.commit_record(topic, name, 0),
        config_topic.target_state_record(topic, name, TargetState.STOPPED),
    )


def target(
    snapshot: ConfigSnapshot, topic: str, name: str, state: TargetState
) -> Sequence[NewRecord]:
    """Writes the target state to pause or resume."""
    known(snapshot, name, "Unknown connector {}")
    return (config_topic.target_state_record(topic, name, state),)


def restartable_task(snapshot: ConfigSnapshot, name: str, task: int) -> None:
    """Raises if there is no such task: 409 for one that there was before the connector was stopped
    or got fewer tasks, which Connect takes for a task that is being moved."""
    state = known(snapshot, name, "Unknown connector: {}")
    if not 0 <= task < max(state.tasks_ever, len(state.task_configs)):
        raise RequestError(404, f"Unknown task: {name}-{task}")
    if task >= len(state.task_configs):
        raise RequestError(
            409,
            "Cannot complete request momentarily due to no known leader URL, likely because a "
            "rebalance was underway.",
        )


def reset_topics(
    snapshot: StatusSnapshot, topic: str, name: str, tracking: TopicTracking
) -> Sequence[NewRecord]:
    """Forgets which topics a connector uses; there need not be such a connector."""
    check_tracked(tracking)
    if not tracking.may_reset:
        raise RequestError(403, "Topic tracking reset is disabled.")
    used = sorted(snapshot.topics.get(name, frozenset()))
    return tuple(status_topic.topic_unused_record(topic, each, name) for each in used)


def check_tracked(tracking: TopicTracking) -> None:
    """Raises unless tasks record which topics they use."""
    if not tracking.enabled:
        raise RequestError(403, "Topic tracking is disabled.")


def stopped(state: ConnectorState) -> None:
    """Raises unless the connector is stopped and has no tasks: only then may offsets move
    (KIP-875)."""
    if state.target is not TargetState.STOPPED or state.task_count:
        raise RequestError(
            400,
            "Connectors must be in the STOPPED state before their offsets can be modified. This "
            "can be done for the specified connector by issuing a 'PUT' request to the "
            f"'/connectors/{state.name}/stop' endpoint",
            Refusal.NOT_STOPPED,
        )
