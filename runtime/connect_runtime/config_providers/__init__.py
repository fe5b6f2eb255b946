"""Config providers (KIP-297), which resolve references in configs in the process that uses them.

Everything that leaves a process keeps its references: the config topic, launches, logs and
statuses.
"""
