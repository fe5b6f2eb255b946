"""A task's use of its cluster's own topics: assignments, source offsets and statuses."""
