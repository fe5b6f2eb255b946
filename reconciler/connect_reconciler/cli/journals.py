"""The applies that the ledger keeps, for verbs that look back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from connect_specs.diagnostics import Diagnostic, Invalid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from connect_reconciler.ledger.journal import Journal
    from connect_reconciler.ledger.topic import LedgerSnapshot
    from connect_specs.desired import Project


def ledger_of(project: Project, properties: Mapping[str, str]) -> LedgerSnapshot:
    """The ledger with its journals. Raises Invalid where there are none."""
    from connect_reconciler.observe.ledger import ledger_seen
    from connect_runtime.kafka.clients import check_reachable

    ensure_journal(project)
    check_reachable(properties)
    return ledger_seen(project, properties)


def ensure_journal(project: Project) -> None:
    """Raises Invalid where applies are not written down."""
    if project.target is not None and not project.kafka:
        what = "over REST alone there is no journal: nothing is known of earlier applies"
        hint = "add cluster.kafka with its bootstrap.servers, and apply again"
        raise Invalid(Diagnostic("history.no-journal", what, str(project.file), hint=hint))


def journal_of(ledger: LedgerSnapshot, project: Project, begins: str) -> Journal:
    """The project's apply of that id, or the only one whose id begins so. Raises Invalid."""
    known = {each.id: each for each in ledger.of_project(project.name)}
    if begins in known:
        return known[begins]
    found = [each for each in known if begins and each.startswith(begins)]
    if len(found) == 1:
        return known[found[0]]
    what = f"{len(found)} applies begin with {begins}" if found else f"no apply {begins} is known"
    hint = "`connect history` lists those that are"
    raise Invalid(Diagnostic("history.unknown-apply", what, project.name, hint=hint))
