"""The work of one process of a node for all tasks of that node, so that they need fewer clients."""
