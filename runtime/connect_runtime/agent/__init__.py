"""The agent: the process that reads and writes the cluster's own topics for all tasks of a node."""
