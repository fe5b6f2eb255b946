"""The meaning of the properties of a worker and of its connectors."""
