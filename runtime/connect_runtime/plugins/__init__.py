"""Finds plugins: built-in ones, and those that packages register or configs name."""
