"""Draws plans and reports: text for people, JSON for programs. Decides nothing."""
