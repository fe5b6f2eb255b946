"""Checks that the `renamed_from` of all specs agree.

An old name has one successor, and two specs do not exchange their names. Whether a rename is still
to be made, and its old name may not have a spec, depends on the cluster: the plan checks it.
"""

from __future__ import annotations

from collections.abc import Mapping

from connect_specs.desired import DesiredConnector
from connect_specs.diagnostics import Diagnostic

_CODE = "spec.bad-rename"


def check_renames(connectors: Mapping[str, DesiredConnector], problems: list[Diagnostic]) -> None:
    """Reports renames that cannot be carried out together."""
    first: dict[str, DesiredConnector] = {}
    for connector in connectors.values():
        old, where, why = connector.renamed_from, connector.renamed_from_where, ""
        if old is None:
            continue
        if old == connector.name:
            what = "a connector cannot be renamed from its own name"
            hint = "write the connector's old name, or remove 'renamed_from'"
        elif old in connectors and connectors[old].renamed_from == connector.name:
            what = f"{old!r} and {connector.name!r} cannot be renamed to each other"
            why = f"the spec of {old!r} is at {connectors[old].where}"
            hint = "rename one of them to a third name first"
        elif first.setdefault(old, connector) is not connector:
            what = f"{old!r} cannot be renamed to two connectors"
            why = f"{first[old].name!r} at {first[old].where} is renamed from it, too"
            hint = "keep 'renamed_from' in the spec that gets its offsets"
        else:
            continue
        problems.append(Diagnostic(_CODE, what, where, why=why, hint=hint))
