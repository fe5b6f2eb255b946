"""A Connect cluster as connect uses it: read, changed, read back, with its ledger and lease."""
