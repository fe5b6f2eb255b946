"""The plan: ordered actions, what they rely on, the cluster that they are for; and what it amounts
to: how many connectors it creates, changes, stops, ...

A value; apply executes exactly this value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import get_args
from urllib.parse import urlsplit, urlunsplit

from connect_reconciler.model import actions as act
from connect_specs.desired import Project
from connect_specs.diagnostics import Diagnostic, Location
from connect_specs.states import TargetState

EMBEDDED = "embedded"
# The code of the warning that a plan is about some connectors only; a code keeps its name
TARGETED = "plan.partial"

_BOOTSTRAP = "bootstrap.servers"


@dataclass(frozen=True, slots=True)
class Target:
    """`rest` is the URL of a Connect cluster's REST API, without user and password, and None for
    our own runtime. `kafka` holds the bootstrap servers, or `embedded`; None over REST alone."""

    rest: str | None
    kafka: str | None


def target_of(project: Project) -> Target:
    """The cluster that connect.yaml names."""
    return Target(
        rest=None if project.target is None else _without_login(project.target.url),
        kafka=_kafka(project.kafka, alone=project.target is not None),
    )


def _kafka(properties: Mapping[str, str] | None, *, alone: bool) -> str | None:
    if properties is None:
        return None if alone else EMBEDDED
    return ",".join(each.strip() for each in properties.get(_BOOTSTRAP, "").split(",")) or None


def _without_login(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


@dataclass(frozen=True, slots=True)
class Plan:
    """What an apply would do.

    `actions` are grouped by connector, groups in safe order. `warnings` do not stop an apply;
    `errors` do: a plan with errors can be shown, never applied. `cluster_id` is the Kafka cluster
    that was observed, and `observed_ms` when. `key_id` tells the key behind its fingerprints, and
    is empty if there was none. `env` is the environment whose values the specs were read with.
    `rolls_back` is the apply that it reverses; None: it leads to the specs. `saved_as` is
    the hash of the file that was approved; empty for a plan that no file holds. `target` is the
    cluster by its addresses; None where an old plan file does not say it. `places` say where the
    specs of connectors are. `unchanged` are those of the warnings that concern what the plan
    leaves as it is.
    """

    project: str
    group_id: str
    cluster_id: str
    observed_ms: int
    actions: tuple[act.Action, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()
    errors: tuple[Diagnostic, ...] = ()
    key_id: str = ""
    env: str | None = None
    rolls_back: str | None = None
    saved_as: str = ""
    target: Target | None = None
    places: Mapping[str, Location] = field(default_factory=dict)
    unchanged: tuple[Diagnostic, ...] = ()

    @property
    def targeted(self) -> bool:
        """Whether it leaves connectors out: a warning says so."""
        return any(each.code == TARGETED for each in self.warnings)

    def untargeted(self) -> Plan:
        """The plan without the warning that connectors are left out."""
        kept = tuple(each for each in self.warnings if each.code != TARGETED)
        return replace(self, warnings=kept)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.actions and not self.errors


# --- what it amounts to ---

KINDS: tuple[act.ChangeKind, ...] = get_args(act.ChangeKind)
RISKY: frozenset[act.ChangeKind] = frozenset({"rename", "rewind", "skip", "set-offsets", "reset"})


def grouped(plan: Plan) -> tuple[tuple[act.Action, ...], ...]:
    """The plan's actions, a tuple a connector."""
    return tuple(
        tuple(actions) for _, actions in groupby(plan.actions, key=lambda action: action.connector)
    )


def kinds(actions: tuple[act.Action, ...]) -> tuple[act.ChangeKind, ...]:
    """What the actions of one connector amount to, each once.

    A stop that only serves other actions, and the resume after it, do not count: nobody asked for
    them.
    """
    held = any(
        (isinstance(action, act.Stop | act.Create) and action.restore_to is not None)
        or act.old_name(action)
        for action in actions
    )
    found = {kind for action in actions if (kind := _kind(action, held=held)) is not None}
    return tuple(kind for kind in KINDS if kind in found)


def summarize(plan: Plan) -> Mapping[act.ChangeKind, int]:
    """How many connectors each kind of change concerns; kinds without any are left out."""
    counts = Counter(kind for actions in grouped(plan) for kind in kinds(actions))
    return {kind: counts[kind] for kind in KINDS if counts[kind]}


def _kind(action: act.Action, *, held: bool) -> act.ChangeKind | None:
    match action:
        case act.Stop(restore_to=TargetState()):
            return None
        case act.Pause() | act.Resume() if held:
            return None
        case act.Create(renamed_from=str()):
            return "rename"
        case act.Protect(prevent_delete=False):
            return "unprotect"
        case act.AlterOffsets():
            return _offsets(action)
        case _:
            return action.kind


def _offsets(action: act.AlterOffsets) -> act.ChangeKind:
    """By the worst of its moves: what is delivered twice, before what is never delivered."""
    directions = {move.direction for move in action.moves}
    if "back" in directions:
        return "rewind"
    if "forgotten" in directions:
        return "reset"
    return "skip" if "ahead" in directions else "set-offsets"
