"""Standalone mode: one worker, whose topics are in its own process."""
