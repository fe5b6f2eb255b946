"""The work of verbs, without a terminal: plan, apply, rollback, import, drift."""
