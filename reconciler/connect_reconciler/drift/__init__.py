"""Drift: what was changed outside connect, since when, and what is not applied yet. Pure."""
