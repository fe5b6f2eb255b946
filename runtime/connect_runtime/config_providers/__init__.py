"""Config providers (KIP-297): values that configs refer to, resolved in the process that uses them.

What leaves a process keeps its references: the config topic, launches, logs and statuses.
"""
