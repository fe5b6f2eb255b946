"""One connector's actions, each journaled as started before it runs and as done after.

Before an action everything it relies on is checked again, on what the plan predicts here with what
cluster and ledger say now. I1: a pin is recorded before anything resumes. I2: what brings a
connector back is in the ledger before it is stopped or created.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from connect_reconciler.apply.configs import cover_of, reveal_configs, spec_part
from connect_reconciler.apply.course import Course
from connect_reconciler.apply.edges import FATAL, Edges, LedgerWriter
from connect_reconciler.apply.health import Wanted
from connect_reconciler.apply.past import before_of
from connect_reconciler.apply.perform import Performer
from connect_reconciler.apply.progress import Finished, Performed, Started, Waiting
from connect_reconciler.apply.report import ActionResult, ConnectorReport, Outcome
from connect_reconciler.cluster.port import OutcomeUnknown
from connect_reconciler.cluster.readback import Found
from connect_reconciler.hiding import hide
from connect_reconciler.ledger.changes import Context, after, before
from connect_reconciler.ledger.journal import Step, StepEnd, before_records, offsets_records
from connect_reconciler.ledger.topic import owned_record, pin_record, rename_record
from connect_reconciler.plan.actions import (
    Action,
    Adopt,
    AlterOffsets,
    CarryOffsets,
    Create,
    Delete,
    DeleteOld,
    Forget,
    Pause,
    Protect,
    ResetOffsets,
    Restart,
    Resume,
    UpdateConfig,
    subject,
)
from connect_reconciler.plan.live import Live
from connect_reconciler.plan.plan import Plan
from connect_reconciler.plan.predict import ConnectorState, predict, state_before, unmet
from connect_reconciler.plan.renames.rename import pins_of, renames_of
from connect_reconciler.plan.reserved import without_reserved
from connect_reconciler.plan.secrets.sensitive import Veil, veil
from connect_runtime.herder.values import ConnectorStatus
from connect_runtime.storage.log import NewRecord
from connect_specs.desired import Desired
from connect_specs.diagnostics import ConnectError, Failed
from connect_specs.states import TargetState

_LEDGER_ONLY = (Adopt, Forget, Protect)
# After these it is looked at whether the connector is as it is to be; a stop is awaited at once
_AWAITED = (Create, UpdateConfig, Restart, Resume, Pause)
_MOVES_OFFSETS = (AlterOffsets, ResetOffsets, CarryOffsets, DeleteOld)
# Of an error's text, which the journal keeps.
_DETAIL = 500


@dataclass(frozen=True, slots=True)
class Wait:
    """A connector that was changed. `before` is its status from before the first change, where
    nothing else tells; `changed` when the last one was done."""

    wanted: Wanted
    before: ConnectorStatus | None
    changed: float


class Steps:
    """Carries out actions, several connectors at a time. `waits` holds those that are to be looked
    at once all is done."""

    def __init__(
        self, plan: Plan, desired: Desired, live: Live, edges: Edges, *, apply_id: str
    ) -> None:
        self._apply_id = apply_id
        self._plan = plan
        self._desired = desired
        self._live = live
        self._edges = edges
        self._tell = edges.settings.progress
        self._configs = reveal_configs(plan, desired, live)
        self._performer = Performer(
            edges.cluster,
            edges.read_back,
            edges.patience_in_action,
            lambda name, what: self._tell(Waiting(name, what)),
        )
        self._kept: set[str] = set()
        self.waits: dict[str, Wait] = {}

    def group(
        self, name: str, actions: Sequence[tuple[int, Action]], course: Course
    ) -> ConnectorReport:
        """One connector's actions in order, each with its number in the plan, until one is not
        done or `course` says that nothing more may begin."""
        results: list[ActionResult] = []
        bare = [action for _, action in actions]
        state = state_before(name, bare, self._live, project=self._plan.project)
        for number, action in actions:
            why_not = course.why_not(begun=bool(results))
            if results and results[-1].outcome is not Outcome.DONE:
                why_not = "an action before it was not done"
            if why_not:
                result = ActionResult(action, Outcome.SKIPPED, why_not)
            else:
                result = self._carried_out(number, action, state, course)
                state = predict(state, action)
            results.append(result)
            self._tell(Finished(number, result))
        done = all(result.outcome is Outcome.DONE for result in results)
        if done and state.target is not None and name in self.waits:
            wanted = replace(self.waits[name].wanted, target=state.target)
            self.waits[name] = replace(self.waits[name], wanted=wanted)
        elif not done:
            self.waits.pop(name, None)
            course.failed()
        left = "" if done else self._left(state, results, course)
        return ConnectorReport(name, tuple(results), left)

    def hidden(self, name: str, text: str) -> str:
        """`text` without the connector's secrets."""
        spec, live = self._desired.connectors.get(name), self._live.connectors.get(name)
        old = None if spec is None else self._live.connectors.get(spec.renamed_from or "")
        return hide(
            text,
            self._cover(name),
            {} if spec is None else spec.config,
            {} if live is None else live.config,
            {} if old is None else old.config,
        )

    def _carried_out(
        self, number: int, action: Action, state: ConnectorState, course: Course
    ) -> ActionResult:
        """What became of one action, which the journal then holds too."""
        step = Step(number, subject(action), type(action).__name__, started_ms=self._now_ms())
        begun = False
        try:
            found = self._checked(action, state)
            context = self._context(action, found)
            self._begin(step, action, state, found, context)
            begun = True
            if not isinstance(action, _LEDGER_ONLY):
                action = self._perform(number, action)
            # I1: the next action comes only when this is committed
            records = after(action, self._edges.ledger.state, context)
            self._edges.ledger.done(replace(step, ended_ms=self._now_ms()), records)
            return ActionResult(action, Outcome.DONE)
        except FATAL as error:
            # What the cluster did and the ledger does not hold, the next apply finds out.
            course.end(error)
            outcome = Outcome.UNKNOWN if begun else Outcome.SKIPPED
            return ActionResult(action, outcome, self._words(action, error))
        except ConnectError as error:
            outcome = Outcome.UNKNOWN if isinstance(error, OutcomeUnknown) else Outcome.FAILED
            result = ActionResult(action, outcome, self._words(action, error))
        self._failed(step, result, course)
        return result

    def _begin(
        self,
        step: Step,
        action: Action,
        predicted: ConnectorState,
        found: Found | None,
        context: Context,
    ) -> None:
        """I2: what brings a connector back is in the ledger before anything happens to it."""
        ledger = self._edges.ledger
        past = tuple(self._past(action, predicted, found))
        if isinstance(action, _LEDGER_ONLY):
            ledger.correct(past)
            return
        records = (*past, *before(action, ledger.state, context))
        ledger.started(step, records, then=after(action, ledger.state, context))

    def _past(
        self, action: Action, predicted: ConnectorState, found: Found | None
    ) -> Iterator[NewRecord]:
        """The way back: how the connector is before the first action, and its offsets before they
        move."""
        name, ledger = subject(action), self._edges.ledger
        if name not in self._kept:
            old = predicted.old.name if predicted.old and name == predicted.name else None
            spec = self._desired.connectors.get(action.connector)
            past = before_of(
                name,
                found,
                ledger.state,
                self._cover(name),
                renamed_from=old,
                ignore=() if spec is None else spec.ignore,
            )
            yield from before_records(ledger.topic, self._apply_id, name, past)
            self._kept.add(name)
        if found is not None and isinstance(action, _MOVES_OFFSETS):
            offsets = self._edges.cluster.offsets(name)
            yield from offsets_records(ledger.topic, self._apply_id, name, offsets)

    def _failed(self, step: Step, result: ActionResult, course: Course) -> None:
        end: StepEnd = "unknown" if result.outcome is Outcome.UNKNOWN else "failed"
        try:
            self._edges.ledger.failed(
                replace(step, end=end, ended_ms=self._now_ms(), detail=result.detail[:_DETAIL])
            )
        except FATAL as error:
            course.end(error)

    def _checked(self, action: Action, predicted: ConnectorState) -> Found | None:
        """The connector as it is now. Raises LeaseLost, or Failed where it is not as planned."""
        self._edges.lease.keep()
        now = self._now(predicted, self._edges.read_back(predicted.name))
        if predicted.old is not None:
            found_old = self._edges.read_back(predicted.old.name)
            now = replace(now, old=self._now(predicted.old, found_old))
        problems = unmet(action, now)
        if problems:
            raise Failed(*problems)
        return self._edges.read_back(subject(action))

    def _perform(self, number: int, action: Action) -> Action:
        name, cluster = action.connector, self._edges.cluster
        self._tell(Started(number, action))
        awaited = isinstance(action, _AWAITED)
        before = self._before(name) if awaited else None
        evidence = self._edges.evidence if cluster.runs_tasks else None
        if evidence is not None:
            evidence.note(subject(action), speaks=not isinstance(action, Restart))
        performed = self._performer.perform(action, self._configs.get(name, {}))
        if evidence is not None and awaited:
            evidence.changed(subject(action))
        if awaited:
            spec = self._desired.connectors.get(name)
            wanted = Wanted(zero_tasks=spec is not None and spec.allow_zero_tasks)
            self.waits[name] = Wait(wanted, before, self._edges.settings.clock.now())
        self._tell(Performed(number, action))
        return performed

    def _before(self, name: str) -> ConnectorStatus | None:
        """The connector's status from before its first change, where evidence tells no better."""
        if name in self.waits:
            return self.waits[name].before
        edges = self._edges
        if edges.evidence is not None or not edges.cluster.runs_tasks:
            return None
        return edges.cluster.status(name)

    def _now(self, predicted: ConnectorState, found: Found | None) -> ConnectorState:
        """What the plan predicts here, with what cluster and ledger say now in its place."""
        name, ledger = predicted.name, self._edges.ledger.state
        owned = ledger.connectors.get(name)
        cover = Veil(name, predicted.key, self._live.password_keys.get(name, frozenset()))
        return replace(
            predicted,
            config=None if found is None else veil(without_reserved(found.config), cover),
            target=None if found is None else found.target,
            owner=None if owned is None else owned.project,
            prevent_delete=owned is not None and owned.prevent_delete,
            held_from=None if owned is None else owned.held_from,
            pins=pins_of(ledger, name),
            renames=renames_of(ledger, name),
        )

    def _context(self, action: Action, found: Found | None) -> Context:
        name = subject(action)
        spec = spec_part(self._desired, name)
        config = {} if found is None else without_reserved(found.config)
        if isinstance(action, Create | UpdateConfig):
            config = self._configs[name]
        return Context(
            topic=self._edges.ledger.topic,
            project=self._plan.project,
            now_ms=self._now_ms(),
            config=veil(config, self._cover(name)),
            live_state=None if found is None else found.target,
            state=spec.state,
            prevent_delete=spec.prevent_delete,
            env=self._plan.env,
        )

    def _now_ms(self) -> int:
        return self._edges.settings.clock.now_ms()

    def _cover(self, name: str) -> Veil:
        """With the key for what the ledger keeps; the plan was made with the one observed."""
        key = self._live.ledger.fingerprint_key or self._edges.ledger.state.fingerprint_key
        return cover_of(self._desired, self._live, name, key)

    def _words(self, action: Action, error: ConnectError) -> str:
        # why names the request that a cluster refused
        texts = (
            f"{each.what} ({each.why})" if each.why else each.what for each in error.diagnostics
        )
        return self.hidden(action.connector, "; ".join(texts))

    def _left(self, state: ConnectorState, results: Sequence[ActionResult], course: Course) -> str:
        """In which state a connector is left, and the one that is renamed to it."""
        if all(result.outcome is Outcome.SKIPPED for result in results):
            return "as it was"
        reachable = course.ended_by is None
        goes = any(isinstance(result.action, Delete) for result in results)
        left = self._where(state.name, reachable=reachable, goes=goes)
        if state.old is None:
            return left
        old = self._where(state.old.name, reachable=reachable)
        return f"{left}; {state.old.name}, which is renamed to it: {old}"

    def _where(self, name: str, *, reachable: bool, goes: bool = False) -> str:
        """`goes`: it is deleted by the next apply, not brought back."""
        if not reachable:
            return "its state was not read"
        try:
            found = self._edges.read_back(name)
        except ConnectError:
            return "its state could not be read"
        if found is None:
            return "it is not there"
        owned = self._edges.ledger.state.connectors.get(name)
        held = None if owned is None else owned.held_from
        if held is not None and not goes and found.target is TargetState.STOPPED:
            return f"stopped; the next apply brings it back to {held.value}"
        return found.target.value


def overtaken_holds(ledger: LedgerWriter, plan: Plan, live: Live) -> list[NewRecord]:
    """Takes back what an apply wrote before a stop that never came, or that was overtaken: else a
    later stop by hand would be taken for its own."""
    return [
        owned_record(ledger.topic, name, replace(owned, held_from=None))
        for name, owned in ledger.state.connectors.items()
        if owned.held_from is not None
        and owned.project == plan.project
        and name in live.connectors
        and live.connectors[name].target is not TargetState.STOPPED
    ]


def known_from_configs(ledger: LedgerWriter, plan: Plan, live: Live) -> list[NewRecord]:
    """What only the configs of connectors told, because they were applied to by REST alone: from
    now on this ledger holds it."""
    found = {
        name: owned
        for name, owned in live.ledger.connectors.items()
        if owned.project == plan.project and name not in ledger.state.connectors
    }
    pins, renames = live.ledger.pins.items(), live.ledger.renames.items()
    return [
        *(owned_record(ledger.topic, name, owned) for name, owned in found.items()),
        *(pin_record(ledger.topic, of, pin, each) for (of, pin), each in pins if of in found),
        *(rename_record(ledger.topic, of, old, each) for (of, old), each in renames if of in found),
    ]
