"""What one process of a node does for all tasks of that node, so that they need fewer clients."""
