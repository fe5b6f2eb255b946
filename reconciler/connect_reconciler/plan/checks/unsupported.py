"""Checks of what this cluster cannot do, by its version or because only its REST API is known.
Pure.

Over REST alone the ledger lies in the connectors' configs, which are written only together with a
config change or while the connector is stopped: what needs the ledger alone is put off until then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

from connect_reconciler.actions import Action, Adopt, Protect
from connect_reconciler.model.live import OLDEST, Feature, Live, knows, parse, shown
from connect_reconciler.model.secrets import masked_keys
from connect_reconciler.plan.diff import ConnectorDiff, Context
from connect_specs.desired import Desired, TargetState
from connect_specs.diagnostics import Diagnostic, warning

_STOPPED: Final = TargetState.STOPPED

# Names that REST cannot address. Tried on workers of 3.6, 4.1 and 4.3: those of 4.x, whose server
# is Jetty 12, create what they never find again; all take braces for a template, answer 500 and
# have created it all the same. Spaces at the ends, control characters, `.` and `..` are no names
# of specs at all.
_STRICT_SINCE: Final = (4, 0)
# Refused in a path, however they are encoded
_IN_PATHS: Final = "/\\%"
# Refused when the answer to a creation is made
_WHEN_CREATED: Final = "{}"
_OURS_WHEN_CREATED: Final = "/"


def without_put_off(actions: Iterable[Action], live: Live) -> tuple[Action, ...]:
    """Returns the actions without those that change only the ledger, where that has to wait. A
    connector that is gone has no config to wait for."""
    ready: list[Action] = []
    for name, members in groupby(actions, key=lambda action: action.group):
        group = tuple(members)
        connector = live.connectors.get(name)
        is_stopped = connector is not None and connector.target is _STOPPED
        waits = all(isinstance(action, Adopt | Protect) for action in group)
        if not (live.rest_alone and waits and not is_stopped):
            ready.extend(group)
    return tuple(ready)


def by_target(context: Context, actions: tuple[Action, ...]) -> Iterator[Diagnostic]:
    """Warns of what is done differently on this target, or later, or not at all."""
    live = context.live
    if live.rest_alone:
        message = "over REST alone there is no lease, no journal and no rollback"
        hint = "see that one apply runs at a time, or add cluster.kafka to connect.yaml"
        yield warning("plan.rest-alone", message, hint=hint)
    if not knows(live.version, Feature.ALTER_OFFSETS):
        message = f"the cluster runs Connect {live.version}, which cannot alter offsets"
        hint = f"versions from {shown(OLDEST)} on are supported"
        yield warning("plan.old-connect", message, hint=hint)
    for diff in context.changes.values():
        if diff.existence == "create" and not knows(live.version, Feature.INITIAL_STATE):
            yield from _created_idle(diff, live.version)
        if live.rest_alone and diff.prevent_delete is not None and not _is_written(diff):
            verb = "kept" if diff.prevent_delete else "lifted"
            yield warning(
                "plan.guard-put-off",
                f"{diff.name}: its protection is {verb} with its next config change",
                diff.place,
                why="over REST alone it lies in the config, and writing that restarts the tasks",
                hint="it is also written while the connector is stopped",
            )


def ledger_not_compacted(context: Context, actions: tuple[Action, ...]) -> Iterator[Diagnostic]:
    """Warns of a ledger topic from which Kafka deletes records."""
    policy = context.live.ledger_policy
    if policy not in ("", "compact"):
        yield warning(
            "plan.ledger-not-compacted",
            f"the topic of the ledger has cleanup.policy={policy}: Kafka deletes from it who owns"
            " and protects connectors, and which pins were applied",
            hint="set cleanup.policy=compact on it; an apply does nothing before",
        )


def masked_values(context: Context, actions: tuple[Action, ...]) -> Iterator[Diagnostic]:
    """Refuses to write a mask that the cluster shows in a secret's place."""
    for diff in context.changes.values():
        if diff.written is not None and (diff.config or diff.existence == "create"):
            for key in sorted(masked_keys(diff.written)):
                yield _masked(diff, key)


def name_not_addressable(diff: ConnectorDiff, context: Context) -> Iterator[Diagnostic]:
    """Refuses to change a connector that the REST API cannot address, under either of its names."""
    rename, live = diff.rename, context.live
    refused = _refused_in_names(live, creates=diff.existence == "create")
    if _asks_the_cluster(diff) and any(character in diff.name for character in refused):
        yield _not_addressable(diff, diff.name, refused, live)
    elif rename is not None and rename.live is not None:
        refused = _refused_in_names(live, creates=False)
        if any(character in rename.old for character in refused):
            yield _not_addressable(diff, rename.old, refused, live)


def names_not_creatable(desired: Desired, *, ours: bool) -> Iterator[Diagnostic]:
    """Warns of names that the cluster refuses in a new connector, before it can be asked which
    connectors it has. `ours`: our runtime is to run them."""
    refused = _refused_in_names(Live(ours=ours), creates=True)
    for spec in desired.connectors.values():
        characters = [character for character in refused if character in spec.name]
        if characters:
            text = f"the name {spec.name} holds {_quoted(characters)}"
            server = "our runtime" if ours else "a Connect cluster"
            yield warning(
                "plan.name-not-addressable",
                f"{text}, with which {server} creates no connector that its REST API can address",
                spec.where,
                hint="choose another name, unless the connector is there already",
            )


def _masked(diff: ConnectorDiff, key: str) -> Diagnostic:
    spec = diff.spec
    location = None if spec is None else spec.key_locations.get(key)
    ignored = spec is not None and key not in spec.config
    hint = "put the true value into the spec, or a ${provider:…} reference"
    if ignored:
        hint = f"stop ignoring {key} and put its true value into the spec, or a reference"
    return Diagnostic(
        "plan.masked-value",
        f"{diff.name}: {key} holds a mask, not a value, and a mask is never written",
        location or diff.place,
        why="the cluster masks its secrets, and the key is ignored" if ignored else "",
        hint=hint,
    )


def _created_idle(diff: ConnectorDiff, version: str) -> Iterator[Diagnostic]:
    if diff.goal is TargetState.RUNNING and not diff.moves_offsets:
        return
    paused = diff.goal is TargetState.PAUSED and not diff.moves_offsets
    state = "paused" if paused else "stopped"
    yield warning(
        "plan.created-idle",
        f"{diff.name}: it is created with a converter that fails its tasks, {state}, and given"
        " its own config then; it reads and writes nothing before",
        diff.place,
        why=f"Connect {version} cannot create a connector {state}; 3.7 and later can",
    )


def _is_written(diff: ConnectorDiff) -> bool:
    """Returns whether the plan writes its config, or has it stopped."""
    if diff.existence not in ("adopt", "keep") or diff.live is None:
        return True
    stops = diff.moves_offsets or diff.goal is _STOPPED or diff.live.target is _STOPPED
    return bool(diff.config) or stops


def _refused_in_names(live: Live, *, creates: bool) -> str:
    if live.ours:
        return _OURS_WHEN_CREATED if creates else ""
    version = parse(live.version)
    strict = version is None or version >= _STRICT_SINCE
    return (_IN_PATHS if strict else "") + (_WHEN_CREATED if creates else "")


def _asks_the_cluster(diff: ConnectorDiff) -> bool:
    """Returns False for a connector that is as its spec says, or that only the ledger holds: it may
    stay."""
    if diff.existence == "keep":
        target = None if diff.live is None else diff.live.target
        return bool(diff.config) or diff.moves_offsets or diff.goal is not target
    return diff.existence != "forget"


def _not_addressable(diff: ConnectorDiff, name: str, refused: str, live: Live) -> Diagnostic:
    characters = _quoted(character for character in refused if character in name)
    server = "our runtime's" if live.ours else "the workers'"
    hint = "choose another name"
    if name != diff.name or diff.existence == "adopt":
        hint = "remove its spec" if name == diff.name else "leave out renamed_from"
        hint += f"; {name} can be changed and deleted by who writes the config topic only"
    elif diff.existence != "create":
        hint = "leave it as it is, with its spec; only who writes the config topic can change it"
    return Diagnostic(
        "plan.name-not-addressable",
        f"the name {name} holds {characters}, which {server} REST API cannot address",
        diff.place,
        hint=hint,
        blocks="connector",
    )


def _quoted(characters: Iterable[str]) -> str:
    return " and ".join(f"'{character}'" for character in characters)
