"""Can the cluster's REST API address a connector of this name? Pure.

Tried on workers of 3.6, 4.1 and 4.3. Those of 4.x, whose server is Jetty 12, create what they never
find again; all take braces for a template, answer 500 and have created it all the same. Spaces at
the ends, control characters, `.` and `..` are no names of specs at all.
"""

from __future__ import annotations

from typing import Final

from connect_reconciler.plan.diff import Changes
from connect_reconciler.plan.live import Live
from connect_reconciler.plan.versions import parse
from connect_specs.diagnostics import Diagnostic

_STRICT_SINCE: Final = (4, 0)
# Refused in a path, however they are encoded
_IN_PATHS: Final = "/\\%"
# Refused when the answer to a creation is made
_WHEN_CREATED: Final = "{}"
_OURS_WHEN_CREATED: Final = "/"


def name_error(changes: Changes, live: Live) -> Diagnostic | None:
    """Why nothing can be done with this connector, or with its old name, if anything is to be."""
    rename = changes.rename
    if _asks_the_cluster(changes):
        refused = _refused(live, creates=changes.existence == "create")
        if any(each in changes.name for each in refused):
            return _error(changes, changes.name, refused, live)
    if rename is not None and rename.live is not None:
        refused = _refused(live, creates=False)
        if any(each in rename.old for each in refused):
            return _error(changes, rename.old, refused, live)
    return None


def _refused(live: Live, *, creates: bool) -> str:
    if live.ours:
        return _OURS_WHEN_CREATED if creates else ""
    version = parse(live.version)
    strict = version is None or version >= _STRICT_SINCE
    return (_IN_PATHS if strict else "") + (_WHEN_CREATED if creates else "")


def _asks_the_cluster(changes: Changes) -> bool:
    """What is there as its spec says may stay, and so may what only the ledger holds."""
    if changes.existence == "keep":
        now = None if changes.live is None else changes.live.target
        return bool(changes.config) or changes.moves_offsets or changes.goal is not now
    return changes.existence != "forget"


def _error(changes: Changes, name: str, refused: str, live: Live) -> Diagnostic:
    found = " and ".join(f"'{each}'" for each in refused if each in name)
    whose = "our runtime's" if live.ours else "the workers'"
    hint = "choose another name"
    if name != changes.name or changes.existence == "adopt":
        hint = "remove its spec" if name == changes.name else "leave out renamed_from"
        hint += f"; {name} can be changed and deleted by who writes the config topic only"
    elif changes.existence != "create":
        hint = "leave it as it is, with its spec; only who writes the config topic can change it"
    return Diagnostic(
        "plan.name-not-addressable",
        f"the name {name} holds {found}, which {whose} REST API cannot address",
        changes.spec.where if changes.spec else name,
        hint=hint,
    )
