"""The logs of a runtime's processes, and their levels."""
