"""What properties of a worker and of its connectors mean."""
