"""Names the client properties that connectors override and workers of Kafka 5.0 will refuse.

Their default policy allows what the workers list, and they list nothing (KIP-1188).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from connect_runtime.settings.connector_clients import (
    ALLOWLIST_KEY,
    POLICY_KEY,
    PREFIXES,
    forbidden_overrides,
)
from connect_specs.desired import Project
from connect_specs.diagnostics import Diagnostic, warning

_COMING: Final = {POLICY_KEY: "Allowlist"}
_SHOWN_MOST: Final = 8


def refused_later(
    project: Project, connectors: Iterable[tuple[str, Mapping[str, str], bool]], code: str
) -> tuple[Diagnostic, ...]:
    """Returns one warning for all connectors, each with its name, its config, and whether it is a
    sink; none if connect.yaml names the workers' policy."""
    if POLICY_KEY in project.worker:
        return ()
    found: dict[str, list[str]] = {}
    for name, config, is_sink in connectors:
        for key, _ in forbidden_overrides(config, _COMING, "sink" if is_sink else "source"):
            found.setdefault(name, []).append(key)
    if not found:
        return ()
    shown = [f"{name} ({', '.join(sorted(found[name]))})" for name in sorted(found)[:_SHOWN_MOST]]
    more = f" and {len(found) - _SHOWN_MOST} more connectors" if len(found) > _SHOWN_MOST else ""
    what = (
        "overrides of client properties that workers of Kafka 5.0 refuse unless they list them: "
        f"{'; '.join(shown)}{more}"
    )
    listed = ",".join(sorted({_property(key) for keys in found.values() for key in keys}))
    where = "under cluster.worker" if project.uses_runtime else "on the workers"
    also = "" if project.uses_runtime else ", and write the policy under cluster.worker as well"
    hint = f"set {POLICY_KEY} {where}: Allowlist, with {ALLOWLIST_KEY}: {listed}; or All{also}"
    return (warning(code, what, project.file.name, hint=hint),)


def _property(key: str) -> str:
    return next(key.removeprefix(prefix) for prefix in PREFIXES if key.startswith(prefix))
