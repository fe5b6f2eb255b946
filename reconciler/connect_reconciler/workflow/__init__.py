"""What a verb does, without a terminal: plan, apply, rollback, import, drift."""
