"""Offsets in a plan: where a pin leads, and what a move does to the data. Pure."""
