"""Reads live, once."""
