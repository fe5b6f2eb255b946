"""Runs one task: source in transactions, sink with offsets committed after flush."""
