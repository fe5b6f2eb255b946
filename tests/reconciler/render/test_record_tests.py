"""How `connect test` shows what became of records, on the user's own terminal."""

from __future__ import annotations

from connect_reconciler.render.record_tests import different_title, run_title
from connect_reconciler.testing.outcomes import FailedRecord, RecordRun
from connect_specs.secrets import Redactor

REDACT = Redactor(["hunter2-long"]).redact


def test_a_message_is_cut_after_its_secrets_are_hidden() -> None:
    """The trap: of a secret that the cut divides, the first part would be shown."""
    run = RecordRun(
        FailedRecord("TRANSFORMATION", "T", "a.B", "x" * 390 + "hunter2-long" + "y" * 100)
    )
    for title in (run_title(run, 1, REDACT), different_title(run, run, 1, REDACT)):
        assert "hunt" not in title
        assert "x[hidden]" in title
        assert len(title) < 900
