"""The way back from an apply, planned like any other change. Pure."""
