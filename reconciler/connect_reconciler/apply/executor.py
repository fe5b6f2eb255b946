"""Runs one connector's actions, each journalled as started before it runs and as done after.

Before an action everything it relies on is checked again: the state that the plan predicts, with
what cluster and ledger say now in its place. I4: a pin is recorded before anything resumes. I5: the
state to restore is in the ledger before a connector is stopped or created.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from connect_reconciler.actions import (
    Action,
    AlterOffsets,
    ConfigAction,
    Delete,
    OffsetsAction,
    ResetOffsets,
    Restart,
    Stop,
)
from connect_reconciler.actions.connector_state import ConnectorState, States, state_now
from connect_reconciler.actions.plan import Plan
from connect_reconciler.actions.records import RecordContext
from connect_reconciler.apply.cluster_operations import ClusterOperations
from connect_reconciler.apply.context import FATAL, ApplyContext, MoveRefused, NewStarts
from connect_reconciler.apply.health import HealthGoal
from connect_reconciler.apply.report import (
    ActionResult,
    ConnectorReport,
    Finished,
    Outcome,
    Performed,
    Started,
    Waiting,
)
from connect_reconciler.apply.sink_moves import at_final_offsets, ensure_movable
from connect_reconciler.backend.followed_topics import StoredConnector
from connect_reconciler.backend.rest.client import OutcomeUnknown
from connect_reconciler.ledger.journal import (
    JournalEntry,
    StepEnd,
    offsets_records,
    snapshot_of,
    snapshot_records,
)
from connect_reconciler.model.config_values import LEDGER_KEY, without_reserved
from connect_reconciler.model.ledger import carried
from connect_reconciler.model.live import Live
from connect_reconciler.model.offsets import Offsets
from connect_reconciler.model.secrets import (
    ConfigRedactor,
    applying_redactor,
    live_redactor,
)
from connect_reconciler.plan.diff import managed_state
from connect_reconciler.plan.remaining import reveal_configs, states_before, unmet
from connect_runtime.herder.verbs import ConnectorStatus
from connect_runtime.storage.log import NewRecord
from connect_specs.desired import Desired, TargetState
from connect_specs.diagnostics import ConnectError, Failed

# The journal keeps the beginning of an error's text
_DETAIL_CHARS = 500


@dataclass(frozen=True, slots=True)
class ChangedConnector:
    """A connector that was changed, for the health check. `earlier` is its status from before the
    first change, without an observer of statuses; `at` is the time of the last change."""

    goal: HealthGoal
    earlier: ConnectorStatus | None
    at: float


class Executor:
    """Runs actions, called from one thread for each connector. `changed` holds the connectors whose
    health is to be checked once all actions are done."""

    def __init__(
        self, plan: Plan, desired: Desired, live: Live, context: ApplyContext, *, apply_id: str
    ) -> None:
        self._apply_id = apply_id
        self._plan = plan
        self._desired = desired
        self._live = live
        self._context = context
        self._ledger = context.ledger
        self._configs = reveal_configs(plan, desired, live)
        self._operations = ClusterOperations(
            context.cluster, self._read_connector, context.waiter_in_action, self._waiting
        )
        self._snapshots: set[str] = set()
        self._refused: set[str] = set()
        self._moving: dict[str, Offsets] = {}
        self.changed: dict[str, ChangedConnector] = {}

    def run(
        self, name: str, actions: Sequence[tuple[int, Action]], starts: NewStarts
    ) -> ConnectorReport:
        """Runs one connector's actions in order, each with its number in the plan, until one is not
        done or `starts` refuses the next one."""
        results: list[ActionResult] = []
        bare = [action for _, action in actions]
        states = states_before(bare, self._live, project=self._plan.project)
        for number, action in actions:
            reason = starts.skip_reason(in_progress=bool(results))
            if results and results[-1].outcome is not Outcome.DONE:
                reason = "an action before it was not done"
            if self._restores(action, results):
                action, reason = replace(action, requires=()), ""
            if reason:
                result = ActionResult(action, Outcome.SKIPPED, reason)
            else:
                result = self._execute(number, action, states, starts)
                states = action.predict(states)
            results.append(result)
            self._context.progress(Finished(number, result))
        if not all(result.outcome is Outcome.DONE for result in results):
            self.changed.pop(name, None)
            starts.connector_failed()
            state = self._state_left(name, states, results, starts)
            return ConnectorReport(name, tuple(results), state)
        target = states[name].target
        if target is not None and name in self.changed:
            changed = self.changed[name]
            self.changed[name] = replace(changed, goal=replace(changed.goal, target=target))
        return ConnectorReport(name, tuple(results))

    def watch(self, name: str) -> bool:
        """Adds a connector that an earlier apply changed to those whose health is checked. Returns
        False if it is not there. Raises ConnectError."""
        context = self._context
        connector = self._read_connector(name)
        if connector is None:
            return False
        earlier = self._earlier_status(name)
        if context.observer is not None and context.cluster.runs_tasks:
            context.observer.mark(name)
        goal = self._goal(name, connector.target)
        self.changed[name] = ChangedConnector(goal, earlier, context.clock.now())
        return True

    def redact(self, name: str, text: str) -> str:
        """Returns the text without the connector's secrets."""
        actions = (action for action in self._plan.actions if action.group == name)
        names = {name}.union(*(action.names for action in actions))
        configs = [live.config for live in self._live.connectors.values() if live.name in names]
        spec = self._desired.connectors.get(name)
        return self._redactor(name).redact(text, {} if spec is None else spec.config, *configs)

    # --- one action ---

    def _execute(
        self, number: int, action: Action, states: States, starts: NewStarts
    ) -> ActionResult:
        """Runs one action. The journal has its outcome before this returns."""
        entry = JournalEntry(
            number, action.connector, action.journal_name, started_ms=self._now_ms()
        )
        is_started = False
        try:
            connector = self._checked(action, states)
            if isinstance(action, Stop) and action.restore_to is not None:
                ensure_movable(action.connector, self._live, self._context, self._waiting)
            context = self._record_context(action, connector)
            self._start(entry, action, states, connector, context)
            is_started = True
            if isinstance(action, AlterOffsets) and action.to is not None and connector is not None:
                action = at_final_offsets(action, connector.config, self._context)
            if not action.ledger_only:
                action = self._perform(number, action)
            if isinstance(action, ConfigAction):
                context = replace(context, added=self._added(action.connector, connector))
            # I4: the next action starts only when this is committed
            records = tuple(action.records_after(self._ledger.state, context))
            records += tuple(self._offsets_after(action))
            self._ledger.done(replace(entry, ended_ms=self._now_ms()), records)
            return ActionResult(action, Outcome.DONE)
        except FATAL as error:
            # The next apply compares the cluster with what the ledger holds
            starts.end(error)
            outcome = Outcome.UNKNOWN if is_started else Outcome.SKIPPED
            return ActionResult(action, outcome, self._error_text(action, error))
        except ConnectError as error:
            if isinstance(error, MoveRefused):
                self._refused.add(action.connector)
            outcome = Outcome.UNKNOWN if isinstance(error, OutcomeUnknown) else Outcome.FAILED
            result = ActionResult(action, outcome, self._error_text(action, error))
        self._record_failure(entry, result, starts)
        return result

    def _checked(self, action: Action, predicted: States) -> StoredConnector | None:
        """Reads the connector back. Raises LeaseLost, or Failed where it is not as planned."""
        self._context.lease.keep()
        connectors = {name: self._read_connector(name) for name in predicted}
        states = {name: self._current(state, connectors[name]) for name, state in predicted.items()}
        if problems := unmet(action, states):
            raise Failed(*problems)
        return connectors[action.connector]

    def _current(
        self, predicted: ConnectorState, connector: StoredConnector | None
    ) -> ConnectorState:
        stored = None if connector is None else (connector.config, connector.target)
        redactor = live_redactor(predicted.name, self._live)
        state = state_now(predicted, stored, self._ledger.state, redactor)
        return replace(state, relied_on=predicted.config)

    def _start(
        self,
        entry: JournalEntry,
        action: Action,
        predicted: States,
        connector: StoredConnector | None,
        context: RecordContext,
    ) -> None:
        """Records that the action starts. I5: the state to restore is in the ledger before anything
        happens to the connector."""
        ledger = self._ledger
        snapshot = tuple(self._snapshot(action, predicted, connector))
        if action.ledger_only:
            ledger.correct(snapshot)
            return
        records = (*snapshot, *action.records_before(ledger.state, context))
        upcoming = tuple(action.records_after(ledger.state, context))
        ledger.started(entry, records, upcoming=upcoming)

    def _perform(self, number: int, action: Action) -> Action:
        name, context = action.connector, self._context
        context.progress(Started(number, action))
        earlier = self._earlier_status(name) if action.settles else None
        observer = context.observer if context.cluster.runs_tasks else None
        if observer is not None:
            observer.mark(name, expects_status=not isinstance(action, Restart))
        performed = action.perform(self._operations, self._configs.get(name, {}))
        if action.settles:
            if observer is not None:
                observer.mark(name)
            self.changed[name] = ChangedConnector(self._goal(name), earlier, context.clock.now())
        context.progress(Performed(number, action))
        return performed

    def _record_failure(self, entry: JournalEntry, result: ActionResult, starts: NewStarts) -> None:
        end: StepEnd = "unknown" if result.outcome is Outcome.UNKNOWN else "failed"
        detail = result.detail[:_DETAIL_CHARS]
        try:
            self._ledger.failed(replace(entry, end=end, ended_ms=self._now_ms(), detail=detail))
        except FATAL as error:
            starts.end(error)

    def _restores(self, action: Action, results: Sequence[ActionResult]) -> bool:
        """Returns True if the action restores a connector that was stopped only for a move of
        offsets that was refused, with its config unchanged."""
        if not results or action.connector not in self._refused:
            return False
        first, target = results[0], self._ledger.state.restore_to(action.connector)
        is_stopped = isinstance(first.action, Stop) and first.outcome is Outcome.DONE
        is_stopped = is_stopped and first.action.connector == action.connector
        is_changed = any(isinstance(result.action, ConfigAction) for result in results)
        return is_stopped and not is_changed and target is not None and action.asks_for is target

    # --- records ---

    def _snapshot(
        self, action: Action, predicted: States, connector: StoredConnector | None
    ) -> Iterator[NewRecord]:
        """Yields the records for a rollback: the connector before its first action, and its offsets
        before they move."""
        name, ledger = action.connector, self._ledger
        if name not in self._snapshots:
            renamed = (alias for alias in predicted if name == action.group != alias)
            spec = self._desired.connectors.get(action.group)
            snapshot = snapshot_of(
                name,
                None if connector is None else without_reserved(connector.config),
                None if connector is None else connector.target,
                ledger.state,
                self._redactor(name),
                renamed_from=next(renamed, None),
                ignore=() if spec is None else spec.ignore,
            )
            yield from snapshot_records(ledger.topic, self._apply_id, name, snapshot)
            self._snapshots.add(name)
        if connector is not None and action.records_offsets:
            offsets = self._context.cluster.offsets(name)
            self._moving[name] = Offsets(offsets)
            yield from offsets_records(ledger.topic, self._apply_id, name, offsets)

    def _offsets_after(self, action: Action) -> Iterator[NewRecord]:
        """Yields the record of the offsets that the action set, for `connect history`."""
        name = action.connector
        offsets = self._moving.pop(name, None)
        if offsets is not None and isinstance(action, OffsetsAction):
            moves = () if isinstance(action, ResetOffsets) else action.moves
            base = offsets if isinstance(action, AlterOffsets) else Offsets()
            result = tuple(base.after(move.entry for move in moves))
            topic = self._ledger.topic
            yield from offsets_records(topic, self._apply_id, name, tuple(offsets), result)

    def _record_context(self, action: Action, connector: StoredConnector | None) -> RecordContext:
        name = action.connector
        spec = self._desired.connectors.get(name)
        config = {} if connector is None else without_reserved(connector.config)
        if isinstance(action, ConfigAction):
            config = self._configs[name]
        redactor = self._redactor(name)
        return RecordContext(
            topic=self._ledger.topic,
            project=self._plan.project,
            now_ms=self._now_ms(),
            config=redactor.values(config),
            live_state=None if connector is None else connector.target,
            state=None if spec is None else managed_state(spec),
            prevent_delete=spec is not None and spec.prevent_delete,
            env=self._env,
            untyped=redactor.hidden(config),
        )

    def _added(self, name: str, connector: StoredConnector | None) -> frozenset[str]:
        """Returns the keys that the cluster has added to a config that was just written."""
        owned = self._ledger.state.connectors.get(name)
        recorded = frozenset[str]() if owned is None else owned.added
        if self._ledger.topic == LEDGER_KEY:
            # It has no place for them
            return recorded
        stored, config = self._context.read_connector(name), self._configs[name]
        arrived = stored is not None and (
            connector is None or stored.written_at != connector.written_at
        )
        if stored is None or not arrived or not config.items() <= stored.config.items():
            # It comes later, or another config was written since
            return recorded
        return frozenset(without_reserved(stored.config)) - config.keys() - {"name"}

    @property
    def _env(self) -> str | None:
        """Returns the environment to record. A rollback applies no spec's values, and keeps it."""
        last = self._ledger.state.last_applied(self._plan.project)
        return self._plan.env if self._plan.rolls_back is None or last is None else last.env

    # --- reading ---

    def _goal(self, name: str, target: TargetState = TargetState.RUNNING) -> HealthGoal:
        spec = self._desired.connectors.get(name)
        return HealthGoal(target, zero_tasks=spec is not None and spec.allow_zero_tasks)

    def _waiting(self, name: str, condition: str) -> None:
        self._context.progress(Waiting(name, condition))

    def _earlier_status(self, name: str) -> ConnectorStatus | None:
        """Returns the status from before the first change; None if an observer has better
        evidence."""
        if name in self.changed:
            return self.changed[name].earlier
        context = self._context
        if context.observer is not None or not context.cluster.runs_tasks:
            return None
        return context.cluster.status(name)

    def _read_connector(self, name: str) -> StoredConnector | None:
        """Reads a connector, without keys that the cluster added."""
        connector, spec = self._context.read_connector(name), self._desired.connectors.get(name)
        if connector is None:
            return None
        in_spec = () if spec is None else spec.config.keys()
        config = self._ledger.state.without_added(name, connector.config, in_spec)
        return replace(connector, config=config)

    def _now_ms(self) -> int:
        return self._context.clock.now_ms()

    def _redactor(self, name: str) -> ConfigRedactor:
        """Returns the redactor with the key of the ledger; the plan was made with the observed
        one."""
        key = self._live.ledger.fingerprint_key or self._ledger.state.fingerprint_key
        return applying_redactor(name, self._live, self._desired, key)

    def _error_text(self, action: Action, error: ConnectError) -> str:
        # `why` names the request that a cluster refused
        texts = (
            f"{problem.what} ({problem.why})" if problem.why else problem.what
            for problem in error.diagnostics
        )
        return self.redact(action.group, "; ".join(texts))

    # --- the state that a connector is left in ---

    def _state_left(
        self, name: str, states: States, results: Sequence[ActionResult], starts: NewStarts
    ) -> str:
        """Returns the state of a connector that is not done, and of its old name in a rename."""
        if all(result.outcome is Outcome.SKIPPED for result in results):
            return "as it was"
        reachable = starts.ended_by is None
        actions = (result.action for result in results)
        to_delete = any(
            isinstance(action, Delete) and action.connector == name for action in actions
        )
        texts = [self._state_text(name, reachable=reachable, to_delete=to_delete)]
        texts += [
            self._old_name_text(name, alias, reachable=reachable)
            for alias in states
            if alias != name
        ]
        return "; ".join(texts)

    def _old_name_text(self, name: str, renamed: str, *, reachable: bool) -> str:
        """Returns the state of the old name in a rename, and what the next apply does with it."""
        ledger = self._ledger.state
        state = self._state_text(renamed, reachable=reachable, to_delete=True)
        text, target = f"{renamed}, which is renamed to it: {state}", ledger.restore_to(renamed)
        if state != TargetState.STOPPED.value:
            return text
        if carried(ledger.renames_of(name), renamed):
            return f"{text}; the next apply deletes it"
        text += "; the next apply goes on with the rename"
        if target is None:
            return text
        back = f"brings {renamed} back to {target.value}"
        return f"{text}, or {back} if its spec replaces that of {name}"

    def _state_text(self, name: str, *, reachable: bool, to_delete: bool) -> str:
        """Returns a connector's state. `to_delete`: the next apply deletes the connector, and does
        not restore its state."""
        if not reachable:
            return "its state was not read"
        try:
            connector = self._read_connector(name)
        except ConnectError:
            return "its state could not be read"
        if connector is None:
            return "it is not there"
        target = self._ledger.state.restore_to(name)
        if target is not None and not to_delete and connector.target is TargetState.STOPPED:
            return f"stopped; the next apply brings it back to {target.value}"
        return connector.target.value
