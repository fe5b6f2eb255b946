"""Renames of connectors, with their offsets. Pure."""
