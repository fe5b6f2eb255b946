"""A rollback of an apply, planned like any other change. Pure."""
