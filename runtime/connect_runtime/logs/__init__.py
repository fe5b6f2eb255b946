"""How processes of a runtime log, and at which levels."""
