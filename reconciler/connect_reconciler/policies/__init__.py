"""The rules of a project for its plans."""
