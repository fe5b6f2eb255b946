"""Runs one connector's actions, each journalled as started before it runs and as done after.

Before an action everything it relies on is checked again: the state that the plan predicts, with
what cluster and ledger say now in its place. I4: a pin is recorded before anything resumes. I5: the
state to restore is in the ledger before a connector is stopped or created.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
from connect_reconciler.apply.edges import FATAL, Edges, MoveRefused
from connect_reconciler.apply.group_members import ensure_movable
from connect_reconciler.apply.health import Wanted
from connect_reconciler.apply.positions import at_final_offsets
from connect_reconciler.apply.preconditions import reveal_configs
from connect_reconciler.apply.report import (
    ActionResult,
    ConnectorReport,
    Finished,
    Outcome,
    Performed,
    Started,
    Waiting,
)
from connect_reconciler.backend.port import Found, OutcomeUnknown
from connect_reconciler.ledger.journal import Step, StepEnd, offsets_records, snapshot_records
from connect_reconciler.ledger.snapshots import snapshot_of
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
from connect_reconciler.plan.staleness import states_before, unmet
from connect_runtime.herder.verbs import ConnectorStatus
from connect_runtime.storage.log import NewRecord
from connect_specs.desired import Desired
from connect_specs.diagnostics import ConnectError, Failed
from connect_specs.states import TargetState

# How much of an error's text the journal keeps
_DETAIL_CHARS = 500


@dataclass(frozen=True, slots=True)
class Changed:
    """A connector that was changed, for the health check. `before` is its status from before the
    first change, where there is no other evidence; `changed` the time of the last one."""

    wanted: Wanted
    before: ConnectorStatus | None
    changed: float


class NewStarts:
    """Decides whether anything new may start, on any connector.

    `ended_by` is the error that ended the apply, if one did.
    """

    def __init__(self, stop: Callable[[], bool], *, fail_fast: bool) -> None:
        self._stop = stop
        self._fail_fast = fail_fast
        self._failed = False
        self.ended_by: ConnectError | None = None

    def end(self, error: ConnectError) -> None:
        """Starts nothing new on any connector from now on."""
        if self.ended_by is None:
            self.ended_by = error

    def connector_failed(self) -> None:
        """With `fail_fast`, starts no new connector from now on."""
        self._failed = True

    def reason_to_skip(self, *, begun: bool) -> str:
        """Why the next action must not start; empty if it may. `begun`: its connector is in
        progress, and a failure elsewhere is no reason to leave it half done."""
        if self.ended_by is not None:
            return "the apply ended before"
        if self._stop():
            return "interrupted"
        if self._fail_fast and self._failed and not begun:
            return "another connector failed before"
        return ""


class Executor:
    """Runs actions, called from one thread for each connector. `changed` holds the connectors whose
    health is to be checked once all actions are done."""

    def __init__(
        self, plan: Plan, desired: Desired, live: Live, edges: Edges, *, apply_id: str
    ) -> None:
        self._apply_id = apply_id
        self._plan = plan
        self._desired = desired
        self._live = live
        self._edges = edges
        self._progress = edges.settings.progress
        self._configs = reveal_configs(plan, desired, live)
        self._operations = ClusterOperations(
            edges.cluster,
            self._read_back,
            edges.patience_in_action,
            self._waiting,
        )
        self._snapshots: set[str] = set()
        self._refused: set[str] = set()
        self._moving: dict[str, Offsets] = {}
        self.changed: dict[str, Changed] = {}

    def run(
        self, name: str, actions: Sequence[tuple[int, Action]], starts: NewStarts
    ) -> ConnectorReport:
        """Runs one connector's actions in order, each with its number in the plan, until one is not
        done or `starts` refuses the next one."""
        results: list[ActionResult] = []
        bare = [action for _, action in actions]
        states = states_before(bare, self._live, project=self._plan.project)
        for number, action in actions:
            reason = starts.reason_to_skip(begun=bool(results))
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
            self._progress(Finished(number, result))
        done = all(result.outcome is Outcome.DONE for result in results)
        target = states[name].target
        if done and target is not None and name in self.changed:
            wanted = replace(self.changed[name].wanted, target=target)
            self.changed[name] = replace(self.changed[name], wanted=wanted)
        elif not done:
            self.changed.pop(name, None)
            starts.connector_failed()
        left = "" if done else self._left(name, states, results, starts)
        return ConnectorReport(name, tuple(results), left)

    def _restores(self, action: Action, results: Sequence[ActionResult]) -> bool:
        """Whether the action brings back what was stopped only for a move of offsets that was
        refused, with its config as it was."""
        if not results or action.connector not in self._refused:
            return False
        first, before = results[0].action, self._edges.ledger.state.restore_to(action.connector)
        stopped = isinstance(first, Stop) and first.connector == action.connector
        stopped = stopped and results[0].outcome is Outcome.DONE
        written = any(isinstance(each.action, ConfigAction) for each in results)
        return stopped and not written and before is not None and action.asks_for is before

    def watch(self, name: str) -> bool:
        """Adds a connector that an earlier apply changed to those whose health is checked. Returns
        whether it is there. Raises ConnectError."""
        edges = self._edges
        found = self._read_back(name)
        if found is None:
            return False
        before = self._before(name)
        if edges.evidence is not None and edges.cluster.runs_tasks:
            edges.evidence.note(name, speaks=False)
        self.changed[name] = Changed(
            self._wanted(name, found.target), before, edges.settings.clock.now()
        )
        return True

    def _wanted(self, name: str, target: TargetState = TargetState.RUNNING) -> Wanted:
        spec = self._desired.connectors.get(name)
        return Wanted(target, zero_tasks=spec is not None and spec.allow_zero_tasks)

    def _waiting(self, name: str, what: str) -> None:
        self._progress(Waiting(name, what))

    def redact(self, name: str, text: str) -> str:
        """`text` without the connector's secrets."""
        spec, live = self._desired.connectors.get(name), self._live.connectors.get(name)
        others = _other_names(self._plan, name)
        renamed = (
            self._live.connectors[other] for other in others if other in self._live.connectors
        )
        return self._redactor(name).redact(
            text,
            {} if spec is None else spec.config,
            {} if live is None else live.config,
            *(connector.config for connector in renamed),
        )

    def _execute(
        self, number: int, action: Action, states: States, starts: NewStarts
    ) -> ActionResult:
        """Runs one action; the journal then holds what became of it, too."""
        step = Step(number, action.connector, type(action).__name__, started_ms=self._now_ms())
        begun = False
        try:
            found = self._checked(action, states)
            if isinstance(action, Stop) and action.restore_to is not None:
                ensure_movable(action.connector, self._live, self._edges, self._waiting)
            context = self._context(action, found)
            self._begin(step, action, states, found, context)
            begun = True
            if isinstance(action, AlterOffsets) and action.to is not None and found is not None:
                action = at_final_offsets(action, found.config, self._edges)
            if not action.ledger_only:
                action = self._perform(number, action)
            if isinstance(action, ConfigAction):
                context = replace(context, added=self._added(action.connector, found))
            # I4: the next action starts only when this is committed
            records = tuple(action.records_after(self._edges.ledger.state, context))
            records += tuple(self._offsets_after(action))
            self._edges.ledger.done(replace(step, ended_ms=self._now_ms()), records)
            return ActionResult(action, Outcome.DONE)
        except FATAL as error:
            # The next apply finds out what the cluster did and the ledger does not hold
            starts.end(error)
            outcome = Outcome.UNKNOWN if begun else Outcome.SKIPPED
            return ActionResult(action, outcome, self._error_text(action, error))
        except ConnectError as error:
            if isinstance(error, MoveRefused):
                self._refused.add(action.connector)
            outcome = Outcome.UNKNOWN if isinstance(error, OutcomeUnknown) else Outcome.FAILED
            result = ActionResult(action, outcome, self._error_text(action, error))
        self._failed(step, result, starts)
        return result

    def _begin(
        self,
        step: Step,
        action: Action,
        predicted: States,
        found: Found | None,
        context: RecordContext,
    ) -> None:
        """I5: the state to restore is in the ledger before anything happens to the connector."""
        ledger = self._edges.ledger
        snapshot = tuple(self._snapshot(action, predicted, found))
        if action.ledger_only:
            ledger.correct(snapshot)
            return
        records = (*snapshot, *action.records_before(ledger.state, context))
        ledger.started(step, records, then=tuple(action.records_after(ledger.state, context)))

    def _snapshot(
        self, action: Action, predicted: States, found: Found | None
    ) -> Iterator[NewRecord]:
        """What a rollback returns to: the connector before its first action, and its offsets before
        they move."""
        name, ledger = action.connector, self._edges.ledger
        if name not in self._snapshots:
            others = (other for other in predicted if name == action.group != other)
            spec = self._desired.connectors.get(action.group)
            snapshot = snapshot_of(
                name,
                None if found is None else without_reserved(found.config),
                None if found is None else found.target,
                ledger.state,
                self._redactor(name),
                renamed_from=next(others, None),
                ignore=() if spec is None else spec.ignore,
            )
            yield from snapshot_records(ledger.topic, self._apply_id, name, snapshot)
            self._snapshots.add(name)
        if found is not None and action.changes_offsets:
            offsets = self._edges.cluster.offsets(name)
            self._moving[name] = Offsets(offsets)
            yield from offsets_records(ledger.topic, self._apply_id, name, offsets)

    def _offsets_after(self, action: Action) -> Iterator[NewRecord]:
        """Where the action moved offsets to, for who looks at it later."""
        name, ledger = action.connector, self._edges.ledger
        before = self._moving.pop(name, None)
        if before is not None and isinstance(action, OffsetsAction):
            moves = () if isinstance(action, ResetOffsets) else action.moves
            base = before if isinstance(action, AlterOffsets) else Offsets()
            after = tuple(base.after(move.entry for move in moves))
            yield from offsets_records(ledger.topic, self._apply_id, name, tuple(before), after)

    def _failed(self, step: Step, result: ActionResult, starts: NewStarts) -> None:
        end: StepEnd = "unknown" if result.outcome is Outcome.UNKNOWN else "failed"
        try:
            detail = result.detail[:_DETAIL_CHARS]
            self._edges.ledger.failed(
                replace(step, end=end, ended_ms=self._now_ms(), detail=detail)
            )
        except FATAL as error:
            starts.end(error)

    def _checked(self, action: Action, predicted: States) -> Found | None:
        """The connector as it is now. Raises LeaseLost, or Failed where it is not as planned."""
        self._edges.lease.keep()
        states = {name: self._now(state) for name, state in predicted.items()}
        problems = unmet(action, states)
        if problems:
            raise Failed(*problems)
        return self._read_back(action.connector)

    def _perform(self, number: int, action: Action) -> Action:
        name, cluster = action.connector, self._edges.cluster
        self._progress(Started(number, action))
        before = self._before(name) if action.settles else None
        evidence = self._edges.evidence if cluster.runs_tasks else None
        if evidence is not None:
            evidence.note(action.connector, speaks=not isinstance(action, Restart))
        performed = action.perform(self._operations, self._configs.get(name, {}))
        if evidence is not None and action.settles:
            evidence.changed(action.connector)
        if action.settles:
            now = self._edges.settings.clock.now()
            self.changed[name] = Changed(self._wanted(name), before, now)
        self._progress(Performed(number, action))
        return performed

    def _before(self, name: str) -> ConnectorStatus | None:
        """The connector's status from before its first change, where evidence tells no better."""
        if name in self.changed:
            return self.changed[name].before
        edges = self._edges
        if edges.evidence is not None or not edges.cluster.runs_tasks:
            return None
        return edges.cluster.status(name)

    def _now(self, predicted: ConnectorState) -> ConnectorState:
        name = predicted.name
        there = self._read_back(name)
        found = None if there is None else (there.config, there.target)
        redactor = live_redactor(name, self._live)
        state = state_now(predicted, found, self._edges.ledger.state, redactor)
        return replace(state, relied_on=predicted.config)

    def _read_back(self, name: str) -> Found | None:
        """The connector as it is now, without keys that are the cluster's."""
        found, spec = self._edges.read_back(name), self._desired.connectors.get(name)
        if found is None:
            return None
        named, ledger = () if spec is None else spec.config.keys(), self._edges.ledger.state
        return replace(found, config=ledger.without_added(name, found.config, named))

    def _added(self, name: str, before: Found | None) -> frozenset[str]:
        """The keys that the cluster has added to a config that was just written."""
        owned = self._edges.ledger.state.connectors.get(name)
        known = frozenset[str]() if owned is None else owned.added
        if self._edges.ledger.topic == LEDGER_KEY:
            # It has no place for them
            return known
        now, ours = self._edges.read_back(name), self._configs[name]
        arrived = now is not None and (before is None or now.written != before.written)
        if now is None or not arrived or not ours.items() <= now.config.items():
            # It comes later, or somebody has written another one since
            return known
        return frozenset(without_reserved(now.config)) - ours.keys() - {"name"}

    def _context(self, action: Action, found: Found | None) -> RecordContext:
        name = action.connector
        spec = self._desired.connectors.get(name)
        config = {} if found is None else without_reserved(found.config)
        if isinstance(action, ConfigAction):
            config = self._configs[name]
        redactor = self._redactor(name)
        return RecordContext(
            topic=self._edges.ledger.topic,
            project=self._plan.project,
            now_ms=self._now_ms(),
            config=redactor.values(config),
            live_state=None if found is None else found.target,
            state=None if spec is None else managed_state(spec),
            prevent_delete=spec is not None and spec.prevent_delete,
            env=self._env,
            untyped=redactor.hidden(config),
        )

    @property
    def _env(self) -> str | None:
        """The environment to record. A rollback applies no spec's values: it leaves it as it is."""
        last = self._edges.ledger.state.last_applied(self._plan.project)
        return self._plan.env if self._plan.rolls_back is None or last is None else last.env

    def _now_ms(self) -> int:
        return self._edges.settings.clock.now_ms()

    def _redactor(self, name: str) -> ConfigRedactor:
        """With the key for what the ledger keeps; the plan was made with the observed one."""
        key = self._live.ledger.fingerprint_key or self._edges.ledger.state.fingerprint_key
        return applying_redactor(name, self._live, self._desired, key)

    def _error_text(self, action: Action, error: ConnectError) -> str:
        # `why` names the request that a cluster refused
        texts = (
            f"{each.what} ({each.why})" if each.why else each.what for each in error.diagnostics
        )
        return self.redact(action.group, "; ".join(texts))

    def _left(
        self, name: str, states: States, results: Sequence[ActionResult], starts: NewStarts
    ) -> str:
        """The state that the connector is left in, and the connector that is renamed to it."""
        if all(result.outcome is Outcome.SKIPPED for result in results):
            return "as it was"
        reachable = starts.ended_by is None
        goes = any(
            isinstance(result.action, Delete) and result.action.connector == name
            for result in results
        )
        left = [self._where(name, reachable=reachable, goes=goes)]
        left += [
            self._old_left(name, other, reachable=reachable) for other in states if other != name
        ]
        return "; ".join(left)

    def _old_left(self, name: str, old: str, *, reachable: bool) -> str:
        """The state that the old name of a rename is left in, and what the next apply does."""
        where, ledger = self._where(old, reachable=reachable, goes=True), self._edges.ledger.state
        text, held = f"{old}, which is renamed to it: {where}", ledger.restore_to(old)
        if where != TargetState.STOPPED.value:
            return text
        if carried(ledger.renames_of(name), old):
            return f"{text}; the next apply deletes it"
        text += "; the next apply goes on with the rename"
        if held is None:
            return text
        return f"{text}, or brings {old} back to {held.value} if its spec replaces that of {name}"

    def _where(self, name: str, *, reachable: bool, goes: bool = False) -> str:
        """`goes`: the next apply deletes it, and does not restore its state."""
        if not reachable:
            return "its state was not read"
        try:
            found = self._read_back(name)
        except ConnectError:
            return "its state could not be read"
        if found is None:
            return "it is not there"
        held = self._edges.ledger.state.restore_to(name)
        if held is not None and not goes and found.target is TargetState.STOPPED:
            return f"stopped; the next apply brings it back to {held.value}"
        return found.target.value


def _other_names(plan: Plan, name: str) -> frozenset[str]:
    """Returns the other connectors of a connector's group of actions: its old name."""
    names = (action.names for action in plan.actions if action.group == name)
    return frozenset[str]().union(*names) - {name}
