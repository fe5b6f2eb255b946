"""A plan as every rendering shows it: its first line, the question before an apply, a block for
each connector, deletes and moved offsets first, and the warnings, grouped by spec and code.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from connect_reconciler import actions as act
from connect_reconciler.actions.changes import GRAVE
from connect_reconciler.actions.plan import (
    EMBEDDED,
    RISKY,
    TARGETED,
    Plan,
    Target,
    grouped,
    kinds,
    summarize,
)
from connect_specs.desired import Consequence
from connect_specs.diagnostics import Diagnostic, Location
from connect_specs.plain_text import counted

Mark: TypeAlias = Literal["-", "!", "+", "~"]

# Connectors that a page or a comment shows unfolded, all of them
_FEW = 3
# Brokers that a line names
_NAMED = 2

NO_CHANGES = "no changes, the cluster matches the specs"
NOTHING_TO_ROLL_BACK = "no changes, the cluster is as it was before that apply"

CONSEQUENCES: Mapping[Consequence, str] = {
    "none": "",
    "restart": "",  # said once, of the whole config
    "new-group": "new consumer group",
    "new-offsets-topic": "new offsets topic",
    "redelivery": "re-delivery",
    "reread": "re-read",
}

# Changes that a reviewer is to see first, in the first line too
_FIRST: tuple[act.ChangeKind, ...] = ("delete", "rewind", "skip", "reset", "rename")

_COUNTED: Mapping[act.ChangeKind, tuple[str, str]] = {
    "rewind": ("rewind", "rewinds"),
    "skip": ("skip", "skips"),
    "reset": ("offset reset", "offset resets"),
}
_KIND_WORDS: Mapping[act.ChangeKind, str] = {
    "change": "change config",
    "set-offsets": "set offsets",
    "reset": "reset offsets",
}


def summary_line(plan: Plan) -> str:
    """Returns the first line: `orders [prod] → https://connect:8083, group orders: 1 to create`."""
    target = target_text(plan.target, plan.group_id)
    between = ", " if plan.target is None else " → "
    return f"{project_text(plan)}{between}{target}: {outcome(plan)}"


def target_text(target: Target | None, group_id: str) -> str:
    """Returns `https://connect.prod:8083, group orders`; of an unknown target only the group."""
    places = []
    if target is not None and target.rest:
        places.append(target.rest)
    if target is not None and target.kafka == EMBEDDED:
        places.append("embedded Kafka")
    elif target is not None and target.kafka:
        servers = target.kafka.split(",")
        more = f" and {len(servers) - _NAMED} more" if len(servers) > _NAMED else ""
        places.append(f"Kafka {','.join(servers[:_NAMED])}{more}")
    return ", ".join([*places, f"group {group_id}"])


def project_text(plan: Plan) -> str:
    """Returns `orders [prod]`, or `orders` where there is no environment."""
    return plan.project if plan.env is None else f"{plan.project} [{plan.env}]"


def outcome(plan: Plan) -> str:
    """Returns `1 rewind, 2 to create, 1 to change`, or that there is nothing to do; and the part of
    the project that this concerns."""
    back = "" if plan.rolls_back is None else f"rollback of apply {plan.rolls_back}: "
    scopes = [problem.what for problem in plan.warnings if problem.code == TARGETED]
    if scopes and plan.empty:
        return f"{back}no changes; {scopes[0]}"
    return back + "; ".join([_changes_text(plan), *scopes])


def counts_text(plan: Plan) -> str:
    """Returns `1 rewind, 2 to create`: the changes that a reviewer is to see first come first."""
    counts = summarize(plan)
    order = dict.fromkeys((*_FIRST, *counts))
    return ", ".join(_count(kind, counts[kind]) for kind in order if kind in counts)


def question(plan: Plan) -> str:
    """Returns the question to the user who applies the plan."""
    verb = "Apply to"
    if plan.rolls_back is not None:
        verb = f"Roll back apply {plan.rolls_back} of"
    return f"{verb} {project_text(plan)}: {counts_text(plan)}?"


def _changes_text(plan: Plan) -> str:
    if plan.empty:
        return NO_CHANGES if plan.rolls_back is None else NOTHING_TO_ROLL_BACK
    counts = counts_text(plan)
    if not plan.errors:
        return counts
    refused = f"{counted(len(plan.errors), 'error')}, so nothing can be applied"
    return f"{counts}; {refused}" if counts else refused


def kind_words(kind: act.ChangeKind) -> str:
    """Returns the kind in the words of a connector's heading."""
    return _KIND_WORDS.get(kind, kind)


def effects(action: act.Action) -> tuple[str, ...]:
    """Returns the action's effects on the data, without those that are shown beside its keys."""
    field_effects = {effect for change in action.shown_fields for effect in change.effects}
    return tuple(effect for effect in action.effects if effect and effect not in field_effects)


def harmless(move: act.OffsetMove) -> bool:
    """Returns whether the move redelivers nothing and jumps over nothing."""
    return move.direction in ("same", "start")


def _count(kind: act.ChangeKind, count: int) -> str:
    if kind in _COUNTED:
        return f"{count} {_COUNTED[kind][count != 1]}"
    return f"{count} to {'set offsets' if kind == 'set-offsets' else kind}"


# --- reasons ---


def step(action: act.Action) -> str:
    """Returns the action and its reason, once: of a new state only the state, of changed keys only
    that they change, of a rename the old name is in the heading."""
    if action.reason_code == "state":
        return action.reason
    verb = "recreate" if recreates(action) else action.imperative
    reason = reason_beside(action)
    return f"{verb}: {reason}" if reason else verb


def reason_beside(action: act.Action) -> str:
    """Returns the reason, unless other parts of a rendering hold it; a creation's is in the
    heading."""
    renames = isinstance(action, act.Stop) and action.renamed_to is not None
    elsewhere = isinstance(action, act.Create | act.UpdateConfig | act.CopyOffsets)
    return "" if renames or elsewhere else action.reason


def recreates(action: act.Action) -> bool:
    """Returns True if a connector is created that was there before."""
    return isinstance(action, act.Create) and action.reason_code == "deleted-outside"


# --- blocks ---


@dataclass(frozen=True, slots=True)
class Block:
    """One connector's actions, in the order in which they will happen; `place` is its spec's."""

    connector: str
    kinds: tuple[act.ChangeKind, ...]
    actions: tuple[act.Action, ...]
    few: bool
    place: Location | None

    @property
    def deletes(self) -> bool:
        """Returns whether the connector is deleted."""
        return "delete" in self.kinds

    @property
    def elsewhere(self) -> tuple[str, ...]:
        """Returns the severe consequences of its changed keys: for records read or delivered."""
        severe = {
            change.consequence
            for action in self.actions
            if isinstance(action, act.UpdateConfig)
            for change in action.changes
        }
        return tuple(CONSEQUENCES[consequence] for consequence in GRAVE if consequence in severe)

    @property
    def moves_offsets(self) -> bool:
        """Returns whether records are redelivered, or never delivered, because of it."""
        return bool(RISKY.intersection(self.kinds) or self.elsewhere)

    @property
    def risky(self) -> bool:
        """Returns whether a reviewer must see it first."""
        return self.deletes or self.moves_offsets

    @property
    def unfolded(self) -> bool:
        """Returns whether it is open before anyone clicks."""
        return self.risky or self.few

    @property
    def mark(self) -> Mark:
        """Returns one character for the most severe change."""
        if self.deletes:
            return "-"
        if "create" in self.kinds:
            return "+"
        return "!" if self.moves_offsets else "~"

    @property
    def words(self) -> str:
        """Returns the kinds of its changes, and the severe consequences."""
        return ", ".join((*map(self._kind_words, self.kinds), *self.elsewhere))

    @property
    def heading(self) -> str:
        """Returns `create (new: connectors/c.yaml:1)`: the kinds of changes, the reason if
        there is one action, and the spec."""
        first = self.actions[0]
        words = first.reason if self.alone and first.reason_code == "state" else self.words
        place = "" if self.place is None else f"{self.place.file}:{self.place.line}"
        separator = ": " if first.reason_code == "new" else "; "
        about = separator.join(filter(None, (self._reason(), place)))
        return f"{words} ({about})" if about else words

    @property
    def alone(self) -> bool:
        """Returns whether there is only one action."""
        return len(self.actions) == 1

    def _reason(self) -> str:
        first = self.actions[0]
        if isinstance(first, act.Create) and first.renamed_from is None:
            return first.reason
        return reason_beside(first) if self.alone and first.reason_code != "state" else ""

    def _kind_words(self, kind: act.ChangeKind) -> str:
        if kind == "rename":
            names = frozenset[str]().union(*(action.names for action in self.actions))
            return f"rename from {', '.join(names - {self.connector})}"
        if kind == "create" and any(map(recreates, self.actions)):
            return "recreate"
        return kind_words(kind)


def titles(drawn: Sequence[Block]) -> tuple[tuple[str, tuple[Block, ...]], ...]:
    """Returns the blocks under their headings: deletes and moved offsets, and other changes."""
    risky = tuple(block for block in drawn if block.risky)
    minor = tuple(block for block in drawn if not block.risky)
    return (
        ("Deletes and moved offsets", risky),
        ("Other changes" if risky else "Changes", minor),
    )


def blocks(plan: Plan) -> tuple[Block, ...]:
    """Returns deletes, then connectors whose offsets move, then the others in the plan's order."""
    groups = grouped(plan)
    few = len(groups) <= _FEW
    drawn = []
    for actions in groups:
        name = actions[0].group
        drawn.append(Block(name, kinds(actions), actions, few, plan.places.get(name)))
    return tuple(sorted(drawn, key=lambda block: (not block.deletes, not block.risky)))


# --- warnings ---


@dataclass(frozen=True, slots=True)
class WarningGroup:
    """Warnings with one code about one spec, or another subject. Their common reason or hint is in
    `shared` only."""

    code: str
    subject: str
    warnings: tuple[Diagnostic, ...]
    shared: Diagnostic

    @property
    def first(self) -> Diagnostic:
        """Returns the warning of a group of one, with its reason and hint."""
        return replace(self.warnings[0], why=self.shared.why, hint=self.shared.hint)


def shown_warnings(plan: Plan, *, everything: bool) -> tuple[Diagnostic, ...]:
    """Returns `everything`, or the warnings about changes. The first line has the scope of a
    targeted plan."""
    unchanged = frozenset(() if everything else plan.unchanged)
    return tuple(
        warning
        for warning in plan.warnings
        if warning.code != TARGETED and warning not in unchanged
    )


def about_unchanged(plan: Plan) -> tuple[Diagnostic, ...]:
    """Returns the warnings about connectors that the plan leaves unchanged."""
    unchanged = frozenset(plan.unchanged)
    return tuple(warning for warning in plan.warnings if warning in unchanged)


def hidden_note(plan: Plan, *, everything: bool) -> str:
    """Returns the number of warnings that are not shown, and the option that shows them; empty if
    none is left out."""
    count = 0 if everything else len(about_unchanged(plan))
    if not count:
        return ""
    if count == 1:
        return "1 more warning concerns what stays unchanged: --warnings all shows it"
    return f"{count} more warnings concern what stays unchanged: --warnings all shows them"


def warning_groups(warnings: Iterable[Diagnostic]) -> tuple[WarningGroup, ...]:
    """Returns the warnings by spec, then by code, in the order of their first occurrence."""
    subjects: dict[str, dict[str, list[Diagnostic]]] = {}
    for warning in warnings:
        place = warning.where
        subject = place.file if isinstance(place, Location) else place or ""
        subjects.setdefault(subject, {}).setdefault(warning.code, []).append(warning)
    return tuple(
        _group(code, subject, list(dict.fromkeys(group)))
        for subject, codes in subjects.items()
        for code, group in codes.items()
    )


def place_in_file(warning: Diagnostic) -> str:
    """Returns `12:5 ` for a warning below a heading that names the file."""
    place = warning.where
    return f"{place.line}:{place.column} " if isinstance(place, Location) else ""


def _group(code: str, subject: str, warnings: Sequence[Diagnostic]) -> WarningGroup:
    first = warnings[0]
    reason = first.why if all(warning.why == first.why for warning in warnings) else ""
    hint = first.hint if all(warning.hint == first.hint for warning in warnings) else ""
    own = (
        replace(warning, why="" if reason else warning.why, hint="" if hint else warning.hint)
        for warning in warnings
    )
    return WarningGroup(code, subject, tuple(own), Diagnostic(code, "", why=reason, hint=hint))
