"""The plan: ordered actions, their preconditions, and the cluster that they are for; and its
summary: how many connectors it creates, changes, stops, ...

A value; apply executes exactly this value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import attrgetter
from typing import get_args
from urllib.parse import urlsplit, urlunsplit

from connect_reconciler.actions.base import Action
from connect_reconciler.actions.changes import ChangeKind
from connect_specs.desired import Project
from connect_specs.diagnostics import Diagnostic, Location

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
    """Returns the cluster that connect.yaml names."""
    return Target(
        rest=None if project.target is None else _without_login(project.target.url),
        kafka=_kafka(project.kafka, alone=project.target is not None),
    )


def _kafka(properties: Mapping[str, str] | None, *, alone: bool) -> str | None:
    if properties is None:
        return None if alone else EMBEDDED
    return ",".join(map(str.strip, properties.get(_BOOTSTRAP, "").split(","))) or None


def _without_login(url: str) -> str:
    split = urlsplit(url)
    return urlunsplit(split._replace(netloc=split.netloc.rpartition("@")[2]))


@dataclass(frozen=True, slots=True)
class Plan:
    """What an apply would do.

    `actions` are grouped by connector, groups in safe order. `warnings` do not stop an apply;
    `errors` do: a plan with errors can be shown, never applied. `cluster_id` is the Kafka cluster
    that was observed, and `observed_ms` when. `key_id` identifies the key of its fingerprints, and
    is empty if there was none. `env` is the environment whose values the specs were read with.
    `rolls_back` is the apply that it reverses; None: it leads to the specs. `saved_as` is
    the hash of the file that was approved; empty for a plan that no file holds. `target` is the
    cluster by its addresses; None while it is not known. `places` say where the
    specs of connectors are. `unchanged` are those of the warnings that concern what the plan
    leaves as it is.
    """

    project: str
    group_id: str
    cluster_id: str
    observed_ms: int
    actions: tuple[Action, ...] = ()
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
        """Returns True if it leaves connectors out: a warning says so."""
        return any(problem.code == TARGETED for problem in self.warnings)

    def untargeted(self) -> Plan:
        """Returns the plan without the warning that connectors are left out."""
        warnings = tuple(problem for problem in self.warnings if problem.code != TARGETED)
        return replace(self, warnings=warnings)

    @property
    def empty(self) -> bool:
        """Returns True if there is nothing to do."""
        return not self.actions and not self.errors


# --- the summary ---

KINDS: tuple[ChangeKind, ...] = get_args(ChangeKind)
RISKY: frozenset[ChangeKind] = frozenset({"rename", "rewind", "skip", "set-offsets", "reset"})


def grouped(plan: Plan) -> tuple[tuple[Action, ...], ...]:
    """Returns the plan's actions, a tuple for each connector, whose rename is part of it."""
    return tuple(tuple(actions) for _, actions in groupby(plan.actions, key=attrgetter("group")))


def kinds(actions: tuple[Action, ...]) -> tuple[ChangeKind, ...]:
    """Returns the kinds of changes that the actions of one connector amount to, each once.

    A stop that only serves other actions, and the resume after it, do not count: the user did not
    ask for them.
    """
    holding = any(action.holds for action in actions)
    counted = {action.counts_as(holding=holding) for action in actions}
    return tuple(kind for kind in KINDS if kind in counted)


def summarize(plan: Plan) -> Mapping[ChangeKind, int]:
    """Returns the number of connectors for each kind of change; kinds without any are left out."""
    counts = Counter(kind for actions in grouped(plan) for kind in kinds(actions))
    return {kind: counts[kind] for kind in KINDS if counts[kind]}
